//! Fuzzes updates of documents: no panic, and the result is a document with the same `_id`.
//!
//! The input is two BSON documents, one after another: the stored one, and `{u: <update>, f: [<array filters>], p: <position>}`.

use bson::{DateTime, Document, RawBsonRef, RawDocument, Timestamp};
use fathom_query::{DocumentUpdate, Filter, FilterMatch, Update, UpdateMoment, Variables};

fn split(input: &[u8]) -> Option<(&RawDocument, &RawDocument)> {
    let length = usize::try_from(i32::from_le_bytes(*input.first_chunk()?)).ok()?;
    let (before, command) = input.split_at_checked(length)?;
    Some((RawDocument::from_bytes(before).ok()?, RawDocument::from_bytes(command).ok()?))
}

fn run(before: &RawDocument, command: &RawDocument) -> Option<()> {
    let valid = Document::try_from(before).is_ok() && Document::try_from(command).is_ok();
    let update = command.get("u").ok()??;
    let array_filters: Vec<&RawDocument> = match command.get_array("f") {
        Ok(filters) => filters.into_iter().filter_map(|filter| filter.ok()?.as_document()).collect(),
        Err(_) => Vec::new(),
    };
    let position = command.get_i32("p").ok().and_then(|position| usize::try_from(position).ok());
    let variables = Variables::at(DateTime::from_millis(0));
    let update = Update::parse(update, &array_filters, &variables).ok()?;
    let moment = UpdateMoment {
        matched: FilterMatch { position },
        inserting: false,
        variables: &variables,
        timestamp: Timestamp { time: 1, increment: 1 },
    };
    if let Ok(DocumentUpdate::Changed(after)) = update.apply(before, &moment)
        && valid
    {
        let decoded = Document::try_from(after.as_ref() as &RawDocument);
        assert!(decoded.is_ok(), "{before:?} {command:?} gave {after:?}");
        if let Ok(Some(id)) = before.get("_id") {
            let kept = after.get("_id").ok().flatten();
            // A replacement may write the same number with another type.
            let same = kept == Some(id) || (update.is_replacement() && kept.is_some()) || is_nan(id);
            assert!(same, "{id:?} became {kept:?}");
        }
    }
    let filter = Filter::parse(before, &variables).ok()?;
    if let Ok(inserted) = update.upsert(&filter, &moment)
        && valid
    {
        assert!(Document::try_from(inserted.as_ref() as &RawDocument).is_ok(), "{inserted:?}");
    }
    Some(())
}

fn is_nan(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Double(number) if number.is_nan())
}

pub(crate) fn take_input(input: &[u8]) {
    // Decoding by recursion is the library's, so the nesting is kept to what a short input can hold.
    if input.len() <= 4096
        && let Some((before, command)) = split(input)
    {
        let _ = run(before, command);
    }
}

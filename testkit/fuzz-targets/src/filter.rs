//! Fuzzes filters and documents from untrusted clients: parsing, matching, planning and explaining never panic, and a filter
//! shown by explain can be parsed again.

use bson::{DateTime, RawDocument, RawDocumentBuf, rawdoc};
use fathom_query::{Filter, IndexInfo, KeyPattern, Variables, choose};

pub(crate) fn take_input(data: &[u8]) {
    // The filter has its own length; the document follows it.
    let Some(length) = data.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize) else {
        return;
    };
    let Some((filter, document)) = data.split_at_checked(length) else { return };
    let Ok(filter) = RawDocument::from_bytes(filter) else { return };
    let variables = Variables::at(DateTime::from_millis(0));
    let Ok(parsed) = Filter::parse(filter, &variables) else { return };
    let shown = parsed.to_document();
    if let Ok(document) = RawDocument::from_bytes(document) {
        let _ = parsed.matches(document);
    }
    let _ = (parsed.matches(filter), parsed.equalities());
    let _ = RawDocumentBuf::try_from(&shown).map(|shown| Filter::parse(&shown, &variables));
    let patterns = [rawdoc! { "_id": 1 }, rawdoc! { "a": 1, "b": -1 }, rawdoc! { "a.b": "hashed" }]
        .map(|pattern| KeyPattern::parse(&pattern).expect("a good pattern"));
    for multikey in [false, true] {
        let indexes = [0, 1, 2].map(|place: usize| IndexInfo {
            name: "index",
            pattern: &patterns[place],
            multikey,
            sparse: place == 1,
            unique: false,
            partial: None,
        });
        if let Ok((plan, _)) = choose(&parsed, None, None, None, &indexes) {
            plan.winning_plan(&parsed, &indexes);
        }
    }
}

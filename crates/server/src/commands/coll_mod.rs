//! `collMod`: another expiry of a TTL index, another validator, another definition of a view.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use fathom_query::{Code, Failure, compare_documents};

use super::{Reply, view_definition};
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, CollectionOptions, State};

/// Changes a collection or view.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let _ticket = op.write_ticket()?;
    let missing = || Failure::new(Code::NamespaceNotFound, "ns does not exist");
    let collection = op.instance.catalog.get(&namespace).ok_or_else(missing)?;
    let given = |name: &str| request.field(name).is_some();
    let view = collection.table().is_none();
    let others: &[&str] = if view {
        &["index", "validator", "validationLevel", "validationAction"]
    } else {
        &["viewOn", "pipeline"]
    };
    if let Some(other) = others.iter().find(|name| given(name)) {
        let what = format!("option not supported on a {}: {other}", if view { "view" } else { "collection" });
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    let definition = if view { change_view(op, request.body(), &collection)? } else { None };
    let mut state = collection.lock_exclusive_unless(&|| op.check_interrupt())?;
    if state.gone {
        return Err(missing());
    }
    if let Some(document) = definition {
        let options = CollectionOptions { document };
        return op.instance.catalog.change_options(
            &collection,
            &mut state,
            options,
            super::as_logged(request)?,
        );
    }
    // All is checked before anything changes.
    let options = change_validator(request.body(), &state.options.document)?;
    let expiry = parse::document(request.fields, "index")?.map(|index| expiry(&state, index)).transpose()?;
    if let Some((place, seconds)) = expiry {
        change_expiry(op, request, &collection, &state, (place, seconds), reply)?;
    }
    if options != state.options.document {
        let options = CollectionOptions { document: options };
        op.instance.catalog.change_options(&collection, &mut state, options, super::as_logged(request)?)?;
    }
    Ok(())
}

/// Applies the command as another member logged it; the caller holds the collection alone.
pub(crate) fn apply(
    op: &mut Operation<'_>,
    body: &RawDocument,
    collection: &Collection,
    state: &mut State,
) -> Result<()> {
    if let Some(document) = change_view(op, body, collection)? {
        let options = CollectionOptions { document };
        return op.instance.catalog.change_options(collection, state, options, Document::new());
    }
    let options = change_validator(body, &state.options.document)?;
    if let Some(index) = parse::document(body, "index")? {
        let (place, seconds) = expiry(state, index)?;
        if let Some(index) = state.indexes.get(place) {
            index.set_expire_after_seconds(seconds);
            op.instance.catalog.write(collection, state)?;
        }
    }
    if options != state.options.document {
        let options = CollectionOptions { document: options };
        op.instance.catalog.change_options(collection, state, options, Document::new())?;
    }
    Ok(())
}

fn change_view(
    op: &mut Operation<'_>,
    body: &RawDocument,
    collection: &Collection,
) -> Result<Option<Document>> {
    let (source, pipeline) = (parse::string(body, "viewOn")?, parse::documents(body, "pipeline")?);
    match (source, pipeline) {
        (None, None) => Ok(None),
        (Some(source), Some(stages)) => {
            view_definition::check(op, collection.namespace(), source, &stages).map(Some)
        }
        (None, Some(_)) => Err(Failure::new(
            Code::InvalidOptions,
            "Must specify 'viewOn' when modifying 'pipeline' of a view",
        )),
        (Some(_), None) => Err(Failure::new(
            Code::InvalidOptions,
            "Must specify 'pipeline' when modifying 'viewOn' of a view",
        )),
    }
}

/// The options with the validator, its level and its action as the command wants them.
fn change_validator(body: &RawDocument, options: &Document) -> Result<Document> {
    let mut options = options.clone();
    if let Some(validator) = parse::document(body, "validator")? {
        if validator.is_empty() {
            options.remove("validator");
        } else {
            options.insert("validator", parse::owned(validator)?);
        }
    }
    super::create::set_validation(body, &mut options)?;
    Ok(options)
}

/// Which index `index` names, by its place, and the new expiry that it asks for.
fn expiry(state: &State, wanted: &RawDocument) -> Result<(usize, i64)> {
    let invalid = |what: &'static str| Failure::new(Code::InvalidOptions, what);
    for element in wanted {
        let (name, _) = element.map_err(|error| parse::malformed(&error))?;
        match name.as_str() {
            "name" | "keyPattern" | "expireAfterSeconds" => {}
            "hidden" => {
                return Err(Failure::new(Code::CommandNotSupported, "this server has no hidden indexes"));
            }
            other => return Err(parse::unknown_field("collMod.index", other)),
        }
    }
    let (name, key) = (parse::string(wanted, "name")?, parse::document(wanted, "keyPattern")?);
    let (found, shown) = match (name, key) {
        (None, None) => return Err(invalid("Must specify either index name or key pattern.")),
        (Some(_), Some(_)) => return Err(invalid("Cannot specify both key pattern and name.")),
        (Some(name), None) => {
            (state.indexes.iter().position(|index| index.name() == name), Bson::from(name).to_string())
        }
        (None, Some(key)) => {
            let same = |spec: &crate::storage::IndexSpec| {
                spec.key_raw().is_ok_and(|raw| compare_documents(&raw, key).is_eq())
            };
            let place = state.indexes.iter().position(|index| same(index.spec()));
            (place, parse::owned(key)?.to_string())
        }
    };
    let place = found.ok_or_else(|| {
        Failure::new(Code::IndexNotFound, format!("cannot find index {shown} for the collection"))
    })?;
    let seconds = match parse::field(wanted, "expireAfterSeconds") {
        None => return Err(invalid("no expireAfterSeconds or hidden field")),
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast is what mongod does here")]
        Some(RawBsonRef::Double(value)) if !value.is_nan() => value as i64,
        Some(value) => {
            parse::integer_of(value).ok_or_else(|| invalid("expireAfterSeconds field must be a number"))?
        }
    };
    if !(0..=i64::from(i32::MAX)).contains(&seconds) {
        let what = format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number: {seconds}"
        );
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    Ok((place, seconds))
}

fn change_expiry(
    op: &Operation<'_>,
    request: &Request<'_>,
    collection: &Collection,
    state: &State,
    (place, seconds): (usize, i64),
    reply: &mut Reply<'_>,
) -> Result<()> {
    let Some(index) = state.indexes.get(place) else { return Ok(()) };
    let Some(before) = index.expire_after_seconds() else {
        return Err(Failure::new(Code::InvalidOptions, "no expireAfterSeconds field to update"));
    };
    if before == seconds {
        return Ok(());
    }
    index.set_expire_after_seconds(seconds);
    if let Err(failure) = op.instance.catalog.write_as(collection, state, &[super::as_logged(request)?]) {
        index.set_expire_after_seconds(before);
        return Err(failure);
    }
    reply.i64("expireAfterSeconds_old", before);
    reply.i64("expireAfterSeconds_new", seconds);
    Ok(())
}

//! Executes `collMod` on a collection or view: changes the expiry of a TTL index, the validator, or the view's definition. Clients use it
//! by the command; a secondary applies it from the oplog.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use fathom_query::{Code, Failure, compare_documents};

use super::views::check_view;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::storage::{Collection, CollectionOptions, CollectionState, IndexSpec, set_validation};

/// Applies the command as another member logged it; the caller holds the collection exclusively.
pub(crate) fn apply_coll_mod(
    op: &mut OperationContext<'_>,
    body: &RawDocument,
    collection: &Collection,
    state: &mut CollectionState,
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

/// The options of a view with its new definition, or `None` if the command contains none.
pub(crate) fn change_view(
    op: &mut OperationContext<'_>,
    body: &RawDocument,
    collection: &Collection,
) -> Result<Option<Document>> {
    let (source, pipeline) = (parse::string(body, "viewOn")?, parse::documents(body, "pipeline")?);
    match (source, pipeline) {
        (None, None) => Ok(None),
        (Some(source), Some(stages)) => check_view(op, collection.namespace(), source, &stages).map(Some),
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

/// The options with the validator, level and action that the command sets.
pub(crate) fn change_validator(body: &RawDocument, options: &Document) -> Result<Document> {
    let mut options = options.clone();
    if let Some(validator) = parse::document(body, "validator")? {
        if validator.is_empty() {
            options.remove("validator");
        } else {
            options.insert("validator", parse::owned(validator)?);
        }
    }
    set_validation(body, &mut options)?;
    Ok(options)
}

/// The position of the index that `index` names, and its new expiry.
pub(crate) fn expiry(state: &CollectionState, wanted: &RawDocument) -> Result<(usize, i64)> {
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
            let same =
                |spec: &IndexSpec| spec.key_raw().is_ok_and(|raw| compare_documents(&raw, key).is_eq());
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

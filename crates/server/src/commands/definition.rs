//! The commands that define a collection or view: `create` with its options, and `collMod`, which changes the expiry of a TTL index, the
//! validator or the view. A collection can be capped only at its creation.

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use fathom_query::{Code, Failure};

use super::{Reply, refuse_collation};
use crate::Result;
use crate::execution::check_view;
use crate::execution::coll_mod::{change_validator, change_view, expiry};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::storage::{Collection, CollectionOptions, CollectionState, set_validation};

/// The size of a capped collection is a multiple of this many bytes.
const CAPPED_UNIT_BYTES: i64 = 256;

/// `create`: makes a collection or view with options.
///
/// Options that change the stored data but that this server does not support (a collation, `autoIndexId: false`,
/// `flags`, `temp`) are refused by name.
pub(super) fn create(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    crate::namespace::check(&namespace)?;
    if crate::namespace::is_internal(&namespace) && request.database != "admin" {
        return Err(Failure::new(Code::InvalidNamespace, format!("Invalid system namespace: {namespace}")));
    }
    let _ticket = op.write_ticket()?;
    let body = request.body();
    refuse_collation(parse::field(body, "collation"))?;
    let document = if parse::string(body, "viewOn")?.is_some() || parse::field(body, "pipeline").is_some() {
        view_options(op, body, &namespace)?
    } else {
        options(op, body, request.database)?
    };
    op.instance.catalog.create(&namespace, CollectionOptions { document }).map(|_| ())
}

/// Checks the options of a collection and returns them in mongod's order.
fn options(op: &OperationContext<'_>, body: &RawDocument, database: &str) -> Result<Document> {
    refuse_absent(body)?;
    let mut options = capped(body)?;
    if let Some(engines) = parse::document(body, "storageEngine")? {
        options.insert("storageEngine", engine_options(op, engines)?);
    }
    if let Some(defaults) = parse::document(body, "indexOptionDefaults")? {
        options.insert("indexOptionDefaults", index_defaults(op, defaults)?);
    }
    if let Some(validator) = parse::document(body, "validator")? {
        if matches!(database, "admin" | "config" | "local") {
            return Err(Failure::new(
                Code::InvalidOptions,
                format!("Document validators are not allowed on collections in the {database} database"),
            ));
        }
        options.insert("validator", parse::owned(validator)?);
    }
    set_validation(body, &mut options)?;
    Ok(options)
}

/// Refuses options that this server does not support.
fn refuse_absent(body: &RawDocument) -> Result<()> {
    let refused = |what: &str| Err(Failure::new(Code::InvalidOptions, what.to_owned()));
    if parse::field(body, "autoIndexId").is_some() && !parse::boolean(body, "autoIndexId")? {
        return refused("this server makes an _id index for each collection: autoIndexId must be true");
    }
    if parse::integer(body, "flags")?.is_some_and(|flags| flags != 0) {
        return refused("this server has no 'flags' of a collection");
    }
    if parse::boolean(body, "temp")? {
        return refused("this server has no temporary collections");
    }
    let Some(index) = parse::document(body, "idIndex")? else { return Ok(()) };
    let key = parse::document(index, "key")?.ok_or_else(|| {
        Failure::new(Code::FailedToParse, "The 'key' field is a required property of an index specification")
    })?;
    if key.iter().count() != 1 || parse::field(key, "_id").and_then(parse::integer_of) != Some(1) {
        let what =
            format!("The field 'key' for an _id index must be {{_id: 1}}, but got {}", parse::owned(key)?);
        return Err(Failure::new(Code::BadValue, what));
    }
    refuse_collation(parse::field(index, "collation"))
}

/// The fields `capped`, `size` and `max`.
fn capped(body: &RawDocument) -> Result<Document> {
    let invalid = |what: &'static str| Err(Failure::new(Code::InvalidOptions, what));
    let (size, max) = (parse::integer(body, "size")?, parse::integer(body, "max")?);
    if !parse::boolean(body, "capped")? {
        return if size.is_some() || max.is_some() {
            invalid("the 'capped' field needs to be true when either the 'size' or 'max' fields are present")
        } else {
            Ok(Document::new())
        };
    }
    let Some(size) = size else { return invalid("the 'size' field is required when 'capped' is true") };
    if !(1..=1 << 50).contains(&size) {
        return Err(Failure::new(
            Code::BadValue,
            format!("Invalid option: capped collection size {size} has to be between 1 and 2^50"),
        ));
    }
    if max.is_some_and(|max| max >= 1 << 31) {
        return Err(Failure::new(Code::BadValue, "max in a capped collection has to be < 2^31 or not set"));
    }
    let size = (size + CAPPED_UNIT_BYTES - 1) / CAPPED_UNIT_BYTES * CAPPED_UNIT_BYTES;
    let mut options = doc! { "capped": true, "size": number(size) };
    if let Some(max) = max.filter(|max| *max > 0) {
        options.insert("max", number(max));
    }
    Ok(options)
}

/// A number as mongod shows it: 32 bits if it fits.
pub(super) fn number(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// `storageEngine: {wiredTiger: {configString: "..."}}`: each named engine must exist; the running engine checks its
/// own settings when the table is made.
pub(super) fn engine_options(op: &OperationContext<'_>, engines: &RawDocument) -> Result<Document> {
    for element in engines {
        let (engine, settings) = element.map_err(|error| parse::malformed(&error))?;
        let engine = engine.as_str();
        if crate::config::EngineName::parse(engine).is_none() {
            return Err(Failure::new(
                Code::InvalidOptions,
                format!("{engine} is not a registered storage engine for this server"),
            ));
        }
        let RawBsonRef::Document(settings) = settings else {
            return Err(Failure::new(
                Code::BadValue,
                format!("'storageEngine.{engine}' has to be an embedded document."),
            ));
        };
        for setting in settings {
            let (name, value) = setting.map_err(|error| parse::malformed(&error))?;
            let taken = name.as_str() == "configString" && matches!(value, RawBsonRef::String(_));
            if !taken && engine == op.instance.engine.name() {
                let what = format!("'{}' is not a supported option in storageEngine.{engine}", name.as_str());
                return Err(Failure::new(Code::InvalidOptions, what));
            }
        }
    }
    parse::owned(engines)
}

fn index_defaults(op: &OperationContext<'_>, defaults: &RawDocument) -> Result<Document> {
    let mut checked = Document::new();
    for element in defaults {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        match (name.as_str(), value) {
            ("storageEngine", RawBsonRef::Document(engines)) => {
                checked.insert("storageEngine", engine_options(op, engines)?);
            }
            (name, _) => {
                let what = format!("index option '{name}' is not a default that this server has");
                return Err(Failure::new(Code::InvalidOptions, what));
            }
        }
    }
    Ok(checked)
}

fn view_options(op: &mut OperationContext<'_>, body: &RawDocument, namespace: &str) -> Result<Document> {
    for element in body.iter().skip(1) {
        let (name, _) = element.map_err(|error| parse::malformed(&error))?;
        let name = name.as_str();
        if [
            "capped",
            "size",
            "max",
            "autoIndexId",
            "idIndex",
            "storageEngine",
            "indexOptionDefaults",
            "flags",
            "temp",
        ]
        .contains(&name)
            || name.starts_with("valid")
        {
            let what = format!("the option '{name}' cannot be specified when creating a view");
            return Err(Failure::new(Code::InvalidOptions, what));
        }
    }
    let Some(source) = parse::string(body, "viewOn")? else {
        return Err(Failure::new(Code::InvalidOptions, "'pipeline' requires 'viewOn' to also be specified"));
    };
    let stages = parse::documents(body, "pipeline")?.unwrap_or_default();
    check_view(op, namespace, source, &stages)
}

/// `collMod`: changes the expiry of a TTL index, the validator, or the definition of a view.
///
/// Changes a collection or view.
pub(super) fn change(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
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
    let mut state = op.lock_exclusive(&collection)?;
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
    // All fields are checked before any change.
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

fn change_expiry(
    op: &OperationContext<'_>,
    request: &Request<'_>,
    collection: &Collection,
    state: &CollectionState,
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

/// `convertToCapped` and `cloneCollectionAsCapped`, which this server refuses: a collection can be capped only at its
/// creation.
pub(super) fn convert_to_capped(
    _op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let what = format!(
        "this server does not have {}; create a capped collection and copy the documents into it",
        request.command.name
    );
    Err(Failure::new(Code::CommandNotSupported, what))
}

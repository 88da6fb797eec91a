//! Translates a source's message into a call of the driver.
//!
//! Common operations use the driver's own methods: `find_one`, `find` and `aggregate` with their
//! cursors read to the end, `insert_one`, `insert_many`, `update_one`, `delete_one` and similar. These cost more than raw
//! commands, which skip retryable writes and the typed results, and they are what users pay for. Documents that are inserted or
//! read stay raw, the cheapest of the driver's types; filters and changes are `Document`s, which the driver requires. Writes of
//! another form (several updates in one message, a collation) use `run_raw_command`, with their sequences as arrays.
//!
//! Refuses what the driver manages itself: sessions and transactions, and cursors that are not read by one call.

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use fathom_wire::{DocumentWriter, OpMsg};
use mongodb::options::{AggregateOptions, FindOneOptions, FindOptions, Hint};

use crate::binding::Binding;

/// A call of the driver.
#[derive(Debug)]
pub(super) enum DriverCall {
    FindOne { collection: String, filter: Document, options: FindOneOptions },
    Find { collection: String, filter: Document, options: FindOptions },
    Aggregate { collection: String, pipeline: Vec<Document>, options: AggregateOptions },
    Insert { collection: String, documents: Vec<RawDocumentBuf>, ordered: bool },
    Update { collection: String, filter: Document, update: Document, upsert: bool, many: bool },
    Delete { collection: String, filter: Document, many: bool },
    Raw(RawDocumentBuf),
}

/// The fields of all commands of a run, which the driver adds by itself.
#[derive(Debug)]
pub(super) struct CommandDefaults {
    write_concern: Option<RawDocumentBuf>,
    read_preference: Option<RawDocumentBuf>,
    read_concern: Option<RawDocumentBuf>,
}

impl CommandDefaults {
    pub(super) fn new(binding: &Binding) -> CommandDefaults {
        CommandDefaults {
            write_concern: binding.write_concern.clone(),
            read_preference: binding.read_preference.clone(),
            read_concern: binding.read_concern.as_deref().map(|level| rawdoc! { "level": level }),
        }
    }

    /// Whether the driver adds this field with this value.
    fn has(&self, name: &str, value: RawBsonRef<'_>) -> bool {
        let known = match name {
            "$db" => return true,
            "writeConcern" => &self.write_concern,
            "$readPreference" => &self.read_preference,
            "readConcern" => &self.read_concern,
            _ => return false,
        };
        known.as_deref().is_some_and(|known| value.as_document().is_some_and(|value| same(known, value)))
    }
}

fn same(one: &RawDocument, other: &RawDocument) -> bool {
    one.as_bytes() == other.as_bytes()
}

/// A command's own fields, in their order, without what the driver adds.
struct CommandFields<'a> {
    name: &'a str,
    collection: &'a str,
    rest: Vec<(&'a str, RawBsonRef<'a>)>,
}

impl<'a> CommandFields<'a> {
    fn from_body(body: &'a RawDocument, usual: &CommandDefaults) -> Result<CommandFields<'a>, String> {
        let mut fields = CommandFields { name: "", collection: "", rest: Vec::new() };
        for field in body {
            let (name, value) = field.map_err(|error| format!("the source wrote no BSON: {error}"))?;
            let name = name.as_str();
            if fields.name.is_empty() {
                fields.name = name;
                fields.collection = value.as_str().unwrap_or_default();
            } else if matches!(name, "lsid" | "txnNumber" | "autocommit" | "startTransaction") {
                return Err("the official driver has sessions and transactions of its own, so --driver official cannot run this workload".to_owned());
            } else if !usual.has(name, value) {
                fields.rest.push((name, value));
            }
        }
        Ok(fields)
    }
}

fn unknown(command: &str, name: &str) -> String {
    format!("--driver official does not know the field {name} of {command}")
}

impl DriverCall {
    /// The call for a message, or why there is none.
    pub(super) fn new(message: &OpMsg<'_>, usual: &CommandDefaults) -> Result<DriverCall, String> {
        let fields = CommandFields::from_body(message.body, usual)?;
        let call = match fields.name {
            "find" => return find(&fields),
            "aggregate" => return aggregate(&fields),
            "getMore" => return Err("--driver official reads cursors to their end by itself".to_owned()),
            "insert" => insert(message, &fields),
            "update" => update(message, &fields),
            "delete" => delete(message, &fields),
            _ => None,
        };
        Ok(call.unwrap_or_else(|| raw(message)))
    }

    /// The number of documents that it is to write.
    pub(super) fn documents(&self) -> usize {
        match self {
            DriverCall::Insert { documents, .. } => documents.len(),
            DriverCall::Update { .. } | DriverCall::Delete { .. } => 1,
            _ => 0,
        }
    }
}

fn document(value: RawBsonRef<'_>) -> Option<Document> {
    value.as_document().and_then(|value| Document::try_from(value).ok())
}

fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(i64::from(value)),
        RawBsonRef::Int64(value) => Some(value),
        _ => None,
    }
}

fn hint(value: RawBsonRef<'_>) -> Option<Hint> {
    match value {
        RawBsonRef::String(name) => Some(Hint::Name(name.to_owned())),
        _ => document(value).map(Hint::Keys),
    }
}

fn find(fields: &CommandFields<'_>) -> Result<DriverCall, String> {
    let (mut filter, mut options, mut single) = (Document::new(), FindOptions::default(), false);
    for &(name, value) in &fields.rest {
        let number = || whole(value).and_then(|value| u64::try_from(value).ok());
        let taken = match name {
            "filter" => document(value).map(|value| filter = value),
            "projection" => document(value).map(|value| options.projection = Some(value)),
            "sort" => document(value).map(|value| options.sort = Some(value)),
            "hint" => hint(value).map(|value| options.hint = Some(value)),
            "limit" => whole(value).map(|value| options.limit = Some(value)),
            "skip" => number().map(|value| options.skip = Some(value)),
            "batchSize" => number().map(|value| options.batch_size = u32::try_from(value).ok()),
            "singleBatch" => value.as_bool().map(|value| single = value),
            _ => None,
        };
        taken.ok_or_else(|| unknown("find", name))?;
    }
    let collection = fields.collection.to_owned();
    if single && options.limit == Some(1) {
        let mut one = FindOneOptions::default();
        (one.projection, one.sort, one.hint, one.skip) =
            (options.projection, options.sort, options.hint, options.skip);
        return Ok(DriverCall::FindOne { collection, filter, options: one });
    }
    if single {
        // A negative limit makes the driver request a single batch.
        options.limit = options.limit.map(|limit| -limit.abs());
    }
    Ok(DriverCall::Find { collection, filter, options })
}

fn aggregate(fields: &CommandFields<'_>) -> Result<DriverCall, String> {
    let (mut pipeline, mut options) = (Vec::new(), AggregateOptions::default());
    for &(name, value) in &fields.rest {
        let taken = match name {
            "pipeline" => value.as_array().and_then(documents).map(|stages| pipeline = stages),
            "allowDiskUse" => value.as_bool().map(|value| options.allow_disk_use = Some(value)),
            "hint" => hint(value).map(|value| options.hint = Some(value)),
            "cursor" => value.as_document().map(|cursor| {
                let size = cursor.get("batchSize").ok().flatten().and_then(whole);
                options.batch_size = size.and_then(|size| u32::try_from(size).ok());
            }),
            _ => None,
        };
        taken.ok_or_else(|| unknown("aggregate", name))?;
    }
    if fields.collection.is_empty() {
        return Err("--driver official aggregates collections only".to_owned());
    }
    Ok(DriverCall::Aggregate { collection: fields.collection.to_owned(), pipeline, options })
}

fn documents(array: &bson::RawArray) -> Option<Vec<Document>> {
    array.into_iter().map(|item| item.ok().and_then(document)).collect()
}

/// The only field besides the sequence that the typed calls know.
fn ordered(fields: &CommandFields<'_>) -> Option<bool> {
    match fields.rest.as_slice() {
        [] => Some(true),
        [("ordered", value)] => value.as_bool(),
        _ => None,
    }
}

fn insert(message: &OpMsg<'_>, fields: &CommandFields<'_>) -> Option<DriverCall> {
    let ordered = ordered(fields)?;
    let documents = message.sequence("documents")?.documents().map(RawDocument::to_owned).collect();
    Some(DriverCall::Insert { collection: fields.collection.to_owned(), documents, ordered })
}

fn update(message: &OpMsg<'_>, fields: &CommandFields<'_>) -> Option<DriverCall> {
    ordered(fields)?;
    let sequence = message.sequence("updates").filter(|sequence| sequence.count() == 1)?;
    let (mut filter, mut update, mut upsert, mut many) = (None, None, false, false);
    for field in sequence.documents().next()? {
        let (name, value) = field.ok()?;
        match name.as_str() {
            "q" => filter = document(value),
            "u" => update = document(value),
            "upsert" => upsert = value.as_bool()?,
            "multi" => many = value.as_bool()?,
            _ => return None,
        }
    }
    // A replacement is another method of the driver; it is so rare that a raw command is good enough.
    let update = update.filter(|update| update.keys().next().is_some_and(|name| name.starts_with('$')))?;
    Some(DriverCall::Update {
        collection: fields.collection.to_owned(),
        filter: filter?,
        update,
        upsert,
        many,
    })
}

fn delete(message: &OpMsg<'_>, fields: &CommandFields<'_>) -> Option<DriverCall> {
    ordered(fields)?;
    let sequence = message.sequence("deletes").filter(|sequence| sequence.count() == 1)?;
    let (mut filter, mut limit) = (None, 0);
    for field in sequence.documents().next()? {
        let (name, value) = field.ok()?;
        match name.as_str() {
            "q" => filter = document(value),
            "limit" => limit = whole(value)?,
            _ => return None,
        }
    }
    Some(DriverCall::Delete { collection: fields.collection.to_owned(), filter: filter?, many: limit == 0 })
}

/// The command as one document, for the driver to send as it is.
fn raw(message: &OpMsg<'_>) -> DriverCall {
    let mut bytes = Vec::new();
    let mut command = DocumentWriter::new(&mut bytes);
    for (name, value) in message.body.iter().flatten() {
        // The driver sets the database and the read preference itself.
        if !matches!(name.as_str(), "$db" | "$readPreference") {
            command.value(name.as_str(), value);
        }
    }
    for sequence in message.sequences() {
        let mut array = command.begin_array(sequence.name());
        sequence.documents().for_each(|document| array.document(document));
    }
    command.end();
    // The writer always produces a document.
    DriverCall::Raw(RawDocumentBuf::from_bytes(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use fathom_wire::{Message, OpMsgWriter};

    use super::*;

    fn usual() -> CommandDefaults {
        CommandDefaults { write_concern: Some(rawdoc! { "w": 1 }), read_preference: None, read_concern: None }
    }

    fn command(
        body: &RawDocument,
        sequence: Option<(&str, &[RawDocumentBuf])>,
    ) -> Result<DriverCall, String> {
        let mut frame = Vec::new();
        let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
        message.raw_body(body);
        if let Some((name, documents)) = sequence {
            let mut sequence = message.sequence(name);
            documents.iter().for_each(|document| sequence.document(document));
        }
        message.finish().unwrap();
        let Message::Msg(message) = Message::parse(&frame).unwrap() else { panic!("another message") };
        DriverCall::new(&message, &usual())
    }

    #[test]
    fn reads_have_calls_of_their_own() {
        let one =
            rawdoc! { "find": "c", "filter": { "_id": "k" }, "limit": 1, "singleBatch": true, "$db": "d" };
        let Ok(DriverCall::FindOne { collection, filter, .. }) = command(&one, None) else {
            panic!("no find_one")
        };
        assert_eq!((collection.as_str(), filter), ("c", doc! { "_id": "k" }));
        let scan = rawdoc! { "find": "c", "filter": {}, "sort": { "_id": 1 }, "limit": 7, "$db": "d" };
        let Ok(DriverCall::Find { options, .. }) = command(&scan, None) else { panic!("no find") };
        assert_eq!((options.limit, options.sort), (Some(7), Some(doc! { "_id": 1 })));
        let sum = rawdoc! { "aggregate": "c", "pipeline": [{ "$match": {} }], "cursor": {}, "$db": "d" };
        assert!(
            matches!(command(&sum, None), Ok(DriverCall::Aggregate { pipeline, .. }) if pipeline.len() == 1)
        );
    }

    #[test]
    fn writes_of_the_usual_form_have_calls_of_their_own() {
        let body = rawdoc! { "update": "c", "ordered": true, "writeConcern": { "w": 1 }, "$db": "d" };
        let one = rawdoc! { "q": { "_id": 1 }, "u": { "$set": { "a": 1 } }, "upsert": true };
        let called = command(&body, Some(("updates", std::slice::from_ref(&one))));
        assert!(matches!(called, Ok(DriverCall::Update { upsert: true, many: false, .. })), "{called:?}");
        let delete = rawdoc! { "delete": "c", "$db": "d" };
        let called = command(&delete, Some(("deletes", &[rawdoc! { "q": {}, "limit": 1 }])));
        assert!(matches!(called, Ok(DriverCall::Delete { many: false, .. })), "{called:?}");
        let insert = rawdoc! { "insert": "c", "ordered": false, "$db": "d" };
        let called = command(&insert, Some(("documents", &[rawdoc! {}, rawdoc! {}]))).unwrap();
        assert!(matches!(called, DriverCall::Insert { ordered: false, .. }) && called.documents() == 2);
        // Another write concern than the run's, several updates, a replacement.
        let other = rawdoc! { "update": "c", "writeConcern": { "w": "majority" }, "$db": "d" };
        let replacement = rawdoc! { "q": {}, "u": { "a": 1 } };
        for (body, updates) in
            [(&other, vec![one.clone()]), (&body, vec![one.clone(), one]), (&body, vec![replacement])]
        {
            let Ok(DriverCall::Raw(raw)) = command(body, Some(("updates", &updates))) else {
                panic!("typed")
            };
            let listed = raw.get_array("updates").unwrap().into_iter().count();
            assert_eq!((listed, raw.get("$db").unwrap().is_none()), (updates.len(), true));
        }
    }

    #[test]
    fn what_the_driver_keeps_to_itself_is_refused() {
        for (body, said) in [
            (rawdoc! { "find": "c", "filter": {}, "lsid": {}, "$db": "d" }, "transactions"),
            (rawdoc! { "find": "c", "tailable": true, "$db": "d" }, "tailable"),
            (rawdoc! { "getMore": 5_i64, "collection": "c", "$db": "d" }, "cursors"),
            (rawdoc! { "aggregate": 1, "pipeline": [], "cursor": {}, "$db": "d" }, "collections"),
        ] {
            assert!(command(&body, None).unwrap_err().contains(said), "{body:?}");
        }
    }
}

//! The messages of a `CoreWorkload`, as YCSB's binding has the Java driver send them (docs/methods.md#ycsb).

use std::sync::Arc;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_stats::SeededRandom;
use fathom_wire::{DocumentWriter, OpMsgWriter, flag};

use super::CoreShared;
use crate::documents::append_value;

/// Writes messages, and keeps the parts that are the same in all of them.
#[derive(Debug)]
pub(super) struct Requests {
    shared: Arc<CoreShared>,
    write_concern: Option<RawDocumentBuf>,
    read_preference: Option<RawDocumentBuf>,
    key: Vec<u8>,
    /// BSON bytes of documents and of updated fields written since the last reading.
    pub(super) user_bytes: u64,
}

impl Requests {
    pub(super) fn new(shared: &Arc<CoreShared>) -> Requests {
        Requests {
            write_concern: shared.binding.write_concern.clone(),
            read_preference: shared.binding.read_preference.clone(),
            shared: Arc::clone(shared),
            key: Vec::new(),
            user_bytes: 0,
        }
    }

    /// The key of a record, as text.
    fn key(key: &mut Vec<u8>, shared: &CoreShared, number: u64) {
        key.clear();
        shared.workload.append_key(number, key);
    }

    /// Writes a find of one record: all of it, or one field.
    pub(super) fn read(&mut self, number: u64, random: &mut SeededRandom, message: &mut OpMsgWriter<'_>) {
        let Requests { shared, key, read_preference, .. } = self;
        let workload = &shared.workload;
        Self::key(key, shared, number);
        let mut body = message.body();
        body.string("find", &workload.table);
        let mut filter = body.begin_document("filter");
        filter.string("_id", text(key));
        filter.end();
        project(shared, !workload.read_all_fields, random, &mut body);
        body.i32("limit", 1);
        body.bool("singleBatch", true);
        end_of_read(shared, read_preference.as_deref(), &mut body);
    }

    /// Writes a find of records from a key on; returns how many it asks for.
    pub(super) fn scan(
        &mut self,
        number: u64,
        random: &mut SeededRandom,
        message: &mut OpMsgWriter<'_>,
    ) -> u64 {
        let Requests { shared, key, read_preference, .. } = self;
        let workload = &shared.workload;
        Self::key(key, shared, number);
        let limit = workload.scan_lengths.draw(random).max(1);
        let mut body = message.body();
        body.string("find", &workload.table);
        let mut filter = body.begin_document("filter");
        let mut from = filter.begin_document("_id");
        from.string("$gte", text(key));
        from.end();
        filter.end();
        let mut sort = body.begin_document("sort");
        sort.i32("_id", 1);
        sort.end();
        project(shared, !workload.read_all_fields, random, &mut body);
        number_field(&mut body, "limit", limit);
        end_of_read(shared, read_preference.as_deref(), &mut body);
        limit
    }

    /// Writes a `getMore` of a scan that wants `left` more records.
    pub(super) fn get_more(&self, id: i64, left: u64, message: &mut OpMsgWriter<'_>) {
        let mut body = message.body();
        body.i64("getMore", id);
        body.string("collection", &self.shared.workload.table);
        number_field(&mut body, "batchSize", left);
        // A cursor keeps the read concern that it was opened with, and mongod refuses one in a `getMore`.
        if let Some(preference) = &self.read_preference {
            body.document("$readPreference", preference);
        }
        body.string("$db", &self.shared.binding.database);
    }

    /// Writes an update of one field of a record, or of all.
    pub(super) fn update(&mut self, number: u64, random: &mut SeededRandom, message: &mut OpMsgWriter<'_>) {
        let Requests { shared, key, write_concern, user_bytes, .. } = self;
        let workload = &shared.workload;
        Self::key(key, shared, number);
        let key = text(key);
        write_command("update", shared, write_concern.as_deref(), true, message);
        let mut updates = message.sequence("updates");
        let mut update = updates.begin_document();
        let mut query = update.begin_document("q");
        query.string("_id", key);
        query.end();
        let mut change = update.begin_document("u");
        let mut set = change.begin_document("$set");
        let values = &workload.values;
        let before = set.buffer().len();
        if workload.write_all_fields {
            for name in workload.fields.in_order() {
                append_value(&mut set, name, values.text, |out| values.append(key, name, random, out));
            }
        } else if let Some(name) = one_field(shared, random) {
            append_value(&mut set, name, values.text, |out| values.append(key, name, random, out));
        }
        *user_bytes += (set.buffer().len() - before) as u64;
    }

    /// Writes an insert of records from a number on, or an upsert of each.
    pub(super) fn insert(
        &mut self,
        first: u64,
        count: u64,
        random: &mut SeededRandom,
        message: &mut OpMsgWriter<'_>,
    ) {
        let Requests { shared, key, write_concern, user_bytes, .. } = self;
        let workload = &shared.workload;
        let upsert = shared.binding.upsert;
        let (command, field) = if upsert { ("update", "updates") } else { ("insert", "documents") };
        // A batch continues after a failed document. For a single document this makes no difference, and drivers send ordered.
        write_command(command, shared, write_concern.as_deref(), count == 1, message);
        let mut documents = message.sequence(field);
        let mut append = |key: &str, random: &mut SeededRandom, buffer: &mut Vec<u8>| {
            let before = buffer.len();
            let values = &workload.values;
            let value = |name: &str, out: &mut Vec<u8>| values.append(key, name, random, out);
            workload.fields.append_document(key, values.text, value, buffer);
            *user_bytes += (buffer.len() - before) as u64;
        };
        for number in first..first + count {
            Self::key(key, shared, number);
            let key = text(key);
            if upsert {
                let mut update = documents.begin_document();
                let mut query = update.begin_document("q");
                query.string("_id", key);
                query.end();
                update.begin_element("u", ElementType::EmbeddedDocument);
                append(key, random, update.buffer());
                update.bool("upsert", true);
            } else {
                append(key, random, documents.buffer());
            }
        }
    }

    /// Writes a removal of one record.
    pub(super) fn delete(&mut self, number: u64, message: &mut OpMsgWriter<'_>) {
        let Requests { shared, key, write_concern, .. } = self;
        Self::key(key, shared, number);
        write_command("delete", shared, write_concern.as_deref(), true, message);
        let mut deletes = message.sequence("deletes");
        let mut delete = deletes.begin_document();
        let mut query = delete.begin_document("q");
        query.string("_id", text(key));
        query.end();
        delete.i32("limit", 1);
    }

    /// Whether each returned field has the value that it must have.
    pub(super) fn is_right(&mut self, number: u64, document: &RawDocument) -> bool {
        let Requests { shared, key, .. } = self;
        Self::key(key, shared, number);
        let key = text(key);
        let values = &shared.workload.values;
        document.iter().flatten().filter(|(name, _)| *name != "_id").all(|(name, value)| match value {
            RawBsonRef::Binary(binary) => values.is_right(key, name.as_str(), binary.bytes),
            RawBsonRef::String(text) => values.is_right(key, name.as_str(), text.as_bytes()),
            _ => false,
        })
    }
}

/// A key as text: a text prefix and digits.
fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap_or_default()
}

fn one_field<'s>(shared: &'s CoreShared, random: &mut SeededRandom) -> Option<&'s str> {
    let names = shared.workload.fields.names();
    names.get(random.below(names.len() as u64) as usize).map(String::as_str)
}

/// Names the fields to return, unless all are returned and the workload names none.
fn project(shared: &CoreShared, one: bool, random: &mut SeededRandom, body: &mut DocumentWriter<'_>) {
    if one {
        if let Some(name) = one_field(shared, random) {
            body.begin_document("projection").i32(name, 1);
        }
    } else if shared.workload.read_by_name {
        let mut projection = body.begin_document("projection");
        shared.workload.fields.in_order().for_each(|name| projection.i32(name, 1));
    }
}

/// Writes a count in the type that drivers use for it.
fn number_field(body: &mut DocumentWriter<'_>, name: &str, count: u64) {
    match i32::try_from(count) {
        Ok(count) => body.i32(name, count),
        Err(_) => body.i64(name, i64::try_from(count).unwrap_or(i64::MAX)),
    }
}

fn end_of_read(shared: &CoreShared, preference: Option<&RawDocument>, body: &mut DocumentWriter<'_>) {
    if let Some(level) = &shared.binding.read_concern {
        body.begin_document("readConcern").string("level", level);
    }
    if let Some(preference) = preference {
        body.document("$readPreference", preference);
    }
    body.string("$db", &shared.binding.database);
}

fn write_command(
    command: &str,
    shared: &CoreShared,
    concern: Option<&RawDocument>,
    ordered: bool,
    message: &mut OpMsgWriter<'_>,
) {
    if !shared.binding.acknowledged {
        message.set_flags(flag::MORE_TO_COME);
    }
    let mut body = message.body();
    body.string(command, &shared.workload.table);
    body.bool("ordered", ordered);
    if let Some(concern) = concern {
        body.document("writeConcern", concern);
    }
    body.string("$db", &shared.binding.database);
}

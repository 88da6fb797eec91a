//! Entries of the oplog, written as mongod 4.0 writes them, and parsed (docs/methods.md#the-oplog).

use bson::spec::BinarySubtype;
use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_query::{Code, Failure};
use fathom_replication::OpTime;
pub(crate) use fathom_replication::{timestamp_from_bson as stamp_of, timestamp_to_bson as timestamp_of};
use fathom_wire::DocumentWriter;

use crate::Result;

/// The format of entries, field `v`.
const VERSION: i32 = 2;

/// The kind of change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Insert,
    Update,
    Delete,
    /// A change of the catalog.
    Command,
    /// A no-op: a new primary's first entry, and the periodic entry of an idle primary.
    Noop,
}

impl ChangeKind {
    const ALL: [(ChangeKind, &str); 5] = [
        (ChangeKind::Insert, "i"),
        (ChangeKind::Update, "u"),
        (ChangeKind::Delete, "d"),
        (ChangeKind::Command, "c"),
        (ChangeKind::Noop, "n"),
    ];

    fn letter(self) -> &'static str {
        ChangeKind::ALL.iter().find(|(kind, _)| *kind == self).map_or("n", |(_, letter)| letter)
    }

    fn parse(letter: &str) -> Option<ChangeKind> {
        ChangeKind::ALL.iter().find(|(_, one)| *one == letter).map(|(kind, _)| *kind)
    }
}

/// The statement of a retryable write that an entry belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RetryStatement {
    /// The document `{id, uid}`.
    pub(crate) session: RawDocumentBuf,
    pub(crate) transaction: i64,
    pub(crate) number: i32,
    /// The entry of the previous statement in the same session; null if it is the first.
    pub(crate) previous: OpTime,
}

/// A document that findAndModify returned.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Whether it is the document after the change, or before it.
    pub(crate) after: bool,
    pub(crate) document: RawDocumentBuf,
}

/// A change about to be logged; the clock assigns its timestamp.
#[derive(Clone, Debug)]
pub(crate) struct LoggedChange {
    pub(crate) kind: ChangeKind,
    pub(crate) namespace: String,
    pub(crate) collection: Option<bson::Uuid>,
    /// `o`: the document, the difference, the key, or the command.
    pub(crate) object: RawDocumentBuf,
    /// `o2`: the key of the document that an update changes.
    pub(crate) key: Option<RawDocumentBuf>,
    pub(crate) statement: Option<RetryStatement>,
    /// The document that a retryable findAndModify returned. It is logged before the change, so that a retry can return it again.
    pub(crate) image: Option<Image>,
    /// Whether the document arrived with its chunk from another shard.
    pub(crate) from_migration: bool,
}

impl LoggedChange {
    /// A change of this kind, without the optional fields.
    pub(crate) fn new(kind: ChangeKind, namespace: &str, object: RawDocumentBuf) -> LoggedChange {
        LoggedChange {
            kind,
            namespace: namespace.to_owned(),
            collection: None,
            object,
            key: None,
            statement: None,
            image: None,
            from_migration: false,
        }
    }

    /// The number of entries that it makes.
    pub(crate) fn entries(&self) -> u64 {
        1 + u64::from(self.image.is_some())
    }

    /// The entry that holds the image.
    pub(crate) fn image_entry(&self, at: OpTime, wall: DateTime) -> Option<Vec<u8>> {
        let image = self.image.as_ref()?;
        let mut noop = LoggedChange::new(ChangeKind::Noop, &self.namespace, image.document.clone());
        noop.collection = self.collection;
        Some(noop.entry(at, 0, wall))
    }

    pub(crate) fn entry(&self, at: OpTime, hash: i64, wall: DateTime) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.object.as_bytes().len() + 192);
        let mut writer = DocumentWriter::new(&mut bytes);
        writer.timestamp("ts", timestamp_of(at.timestamp));
        writer.i64("t", at.term);
        writer.i64("h", hash);
        writer.i32("v", VERSION);
        writer.string("op", self.kind.letter());
        writer.string("ns", &self.namespace);
        if let Some(uuid) = &self.collection {
            writer.binary("ui", BinarySubtype::Uuid, &uuid.bytes());
        }
        if self.from_migration {
            writer.bool("fromMigrate", true);
        }
        if let Some(key) = &self.key {
            writer.document("o2", key);
        }
        writer.date_time("wall", wall);
        if let Some(statement) = &self.statement {
            writer.document("lsid", &statement.session);
            writer.i64("txnNumber", statement.transaction);
            writer.i32("stmtId", statement.number);
            write_optime(&mut writer, "prevOpTime", statement.previous);
        }
        if let Some(image) = &self.image {
            let name = if image.after { "postImageOpTime" } else { "preImageOpTime" };
            write_optime(&mut writer, name, OpTime { timestamp: at.timestamp - 1, ..at });
        }
        writer.document("o", &self.object);
        writer.end();
        bytes
    }
}

/// An entry read from an oplog.
#[derive(Clone, Debug)]
pub(crate) struct OplogEntry {
    pub(crate) at: OpTime,
    pub(crate) kind: ChangeKind,
    pub(crate) namespace: String,
    pub(crate) collection: Option<bson::Uuid>,
    pub(crate) object: RawDocumentBuf,
    pub(crate) key: Option<RawDocumentBuf>,
    pub(crate) statement: Option<RetryStatement>,
    pub(crate) raw: RawDocumentBuf,
}

impl OplogEntry {
    /// Parses an entry; one that this server cannot interpret is an error, for it must not be skipped.
    pub(crate) fn parse(raw: RawDocumentBuf) -> Result<OplogEntry> {
        let bad =
            |what: &str| Failure::new(Code::FailedToParse, format!("an entry of the oplog {what}: {raw:?}"));
        let at = read_optime(&raw).ok_or_else(|| bad("has no ts and t"))?;
        let text = |name: &str| raw.get_str(name).map_err(|_| bad(&format!("has no {name}")));
        let kind = ChangeKind::parse(text("op")?).ok_or_else(|| bad("does what is not known here"))?;
        let namespace = text("ns")?.to_owned();
        let object = raw.get_document("o").map_err(|_| bad("has no o"))?.to_owned();
        let key = match raw.get("o2") {
            Ok(Some(RawBsonRef::Document(key))) => Some(key.to_owned()),
            _ => None,
        };
        let collection = match raw.get("ui") {
            Ok(Some(RawBsonRef::Binary(binary))) => binary.bytes.try_into().ok().map(bson::Uuid::from_bytes),
            _ => None,
        };
        let statement = statement_of(&raw);
        Ok(OplogEntry { at, kind, namespace, collection, object, key, statement, raw })
    }

    /// The `_id` that the entry concerns, or `None` if it concerns no single document.
    pub(crate) fn id(&self) -> Option<RawBsonRef<'_>> {
        let holder: &RawDocument = match self.kind {
            ChangeKind::Insert | ChangeKind::Delete => &self.object,
            ChangeKind::Update => self.key.as_deref()?,
            ChangeKind::Command | ChangeKind::Noop => return None,
        };
        holder.get("_id").ok().flatten()
    }
}

fn statement_of(raw: &RawDocument) -> Option<RetryStatement> {
    Some(RetryStatement {
        session: raw.get_document("lsid").ok()?.to_owned(),
        transaction: raw.get_i64("txnNumber").ok()?,
        number: raw.get_i32("stmtId").ok()?,
        previous: raw.get_document("prevOpTime").ok().and_then(read_optime).unwrap_or_default(),
    })
}

/// Reads `{ts, t}` of an entry, or of a field that holds one.
pub(crate) fn read_optime(document: &RawDocument) -> Option<OpTime> {
    let stamp = document.get_timestamp("ts").ok()?;
    let term = match document.get("t").ok().flatten() {
        Some(RawBsonRef::Int64(term)) => term,
        Some(RawBsonRef::Int32(term)) => i64::from(term),
        _ => return None,
    };
    Some(OpTime { timestamp: stamp_of(stamp), term })
}

/// Writes the document `{ts, t}`.
pub(crate) fn write_optime(writer: &mut DocumentWriter<'_>, name: &str, at: OpTime) {
    let mut inner = writer.begin_document(name);
    inner.timestamp("ts", timestamp_of(at.timestamp));
    inner.i64("t", at.term);
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let mut change = LoggedChange::new(ChangeKind::Update, "a.b", rawdoc! { "$set": { "x": 1 } });
        change.collection = Some(bson::Uuid::from_bytes([7; 16]));
        change.key = Some(rawdoc! { "_id": 5 });
        change.statement = Some(RetryStatement {
            session: rawdoc! { "id": 1 },
            transaction: 3,
            number: 2,
            previous: OpTime { timestamp: 9, term: 1 },
        });
        let at = OpTime { timestamp: (5 << 32) | 2, term: 4 };
        let bytes = change.entry(at, 77, DateTime::from_millis(1000));
        let entry = OplogEntry::parse(RawDocumentBuf::from_bytes(bytes).unwrap()).unwrap();
        assert_eq!((entry.at, entry.kind, entry.namespace.as_str()), (at, ChangeKind::Update, "a.b"));
        assert_eq!((entry.object.clone(), entry.collection), (change.object, change.collection));
        assert_eq!(entry.id().and_then(|id| id.as_i32()), Some(5));
        assert_eq!(entry.statement, change.statement);
        assert!(
            OplogEntry::parse(rawdoc! { "ts": timestamp_of(1), "t": 1_i64, "op": "x", "ns": "", "o": {} })
                .is_err()
        );
    }
}

//! An index: derives the keys of a document and stores them as entries in its table.
//!
//! A standard index keeps `KeyString + RecordId` with the type bits as value; a unique one keeps the KeyString alone, and
//! RecordId and type bits as value, so that the engine itself refuses a second owner (docs/methods.md#records-and-indexes).

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bson::{Document, RawDocument};
use fathom_engine::{Key, Kind, Session, Table};
use fathom_query::{
    Code, Failure, Filter, IndexInfo, IndexKeys, KeyExtractor, KeyPattern, KeyString, decode, record_id_of,
    split_record_id,
};

use super::IndexSpec;
use crate::Result;

/// A larger buffer is not kept: keys have no maximum length, and a thread may live for days.
const MAX_KEPT_BUFFER_BYTES: usize = 64 << 10;

/// The keys of a document before and after, and the bytes of one entry.
#[derive(Debug, Default)]
struct IndexBuffers {
    old: IndexKeys,
    new: IndexKeys,
    entry: Vec<u8>,
}

thread_local! {
    static OWN: RefCell<IndexBuffers> = RefCell::default();
}

/// Lends the thread's memory. If `work` asks for it again, it gets separate memory.
fn with_scratch<T>(work: impl FnOnce(&mut IndexBuffers) -> T) -> T {
    OWN.with(|own| match own.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            let bytes = |keys: &IndexKeys| keys.keys.iter().map(|key| key.bytes.capacity()).sum::<usize>();
            if scratch.entry.capacity() + bytes(&scratch.old) + bytes(&scratch.new) > MAX_KEPT_BUFFER_BYTES {
                *scratch = IndexBuffers::default();
            }
            result
        }
        Err(_) => work(&mut IndexBuffers::default()),
    })
}

/// An index that is open.
#[derive(Debug)]
pub(crate) struct Index {
    spec: IndexSpec,
    unique: bool,
    pattern: KeyPattern,
    extractor: KeyExtractor,
    partial: Option<Filter>,
    table: Table,
    multikey: AtomicBool,
    /// Whether the catalog on disk records that the index is multikey; only then may a write that made it so be committed.
    noted_multikey: AtomicBool,
    /// `expireAfterSeconds`, which `collMod` changes; negative without one.
    expire_after_seconds: AtomicI64,
    /// The number of operations that used it since `since_ms`, for `$indexStats`.
    accesses: AtomicU64,
    since: bson::DateTime,
}

/// An entry as the table stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry<'a> {
    /// The key without the record id.
    pub(crate) key: &'a [u8],
    /// The types that the key's order does not preserve.
    pub(crate) type_bits: &'a [u8],
    /// The record that it points to.
    pub(crate) record: i64,
}

impl Index {
    /// An index over its open table.
    pub(crate) fn new(spec: IndexSpec, table: Table, multikey: bool) -> Result<Index> {
        let pattern = KeyPattern::parse(&spec.key_raw()?)?;
        let partial = match spec.partial() {
            Some(filter) => Some(crate::parse::filter_of(filter)?),
            None => None,
        };
        let extractor = KeyExtractor::new(pattern.clone(), spec.sparse());
        let expire_after_seconds = spec.expire_after_seconds().unwrap_or(-1);
        Ok(Index {
            unique: spec.unique(),
            spec,
            pattern,
            extractor,
            partial,
            table,
            multikey: AtomicBool::new(multikey),
            noted_multikey: AtomicBool::new(multikey),
            expire_after_seconds: AtomicI64::new(expire_after_seconds),
            accesses: AtomicU64::new(0),
            since: bson::DateTime::now(),
        })
    }

    /// The options that it was created with; `expireAfterSeconds` may have changed since.
    pub(crate) fn spec(&self) -> &IndexSpec {
        &self.spec
    }

    /// Its current definition, as `listIndexes` shows it and the catalog stores it.
    pub(crate) fn document(&self) -> Document {
        let mut document = self.spec.document().clone();
        if let Some(seconds) = self.expire_after_seconds()
            && self.spec.expire_after_seconds() != Some(seconds)
        {
            let short = i32::try_from(seconds).map(bson::Bson::Int32);
            document.insert("expireAfterSeconds", short.unwrap_or(bson::Bson::Int64(seconds)));
        }
        document
    }

    /// The seconds after which a document expires, for a TTL index.
    pub(crate) fn expire_after_seconds(&self) -> Option<i64> {
        Some(self.expire_after_seconds.load(Ordering::Relaxed)).filter(|seconds| *seconds >= 0)
    }

    /// Sets `expireAfterSeconds` of a TTL index; the caller writes it to the catalog.
    pub(crate) fn set_expire_after_seconds(&self, seconds: i64) {
        self.expire_after_seconds.store(seconds, Ordering::Relaxed);
    }

    pub(crate) fn name(&self) -> &str {
        self.spec.name()
    }

    pub(crate) fn pattern(&self) -> &KeyPattern {
        &self.pattern
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether it refuses a second record with the same key.
    pub(crate) fn is_unique(&self) -> bool {
        self.unique
    }

    /// Whether some document has several keys in the index.
    pub(crate) fn is_multikey(&self) -> bool {
        self.multikey.load(Ordering::Relaxed)
    }

    /// Whether writing one of these dotted paths may change its keys: one is a prefix of the other, field by field.
    pub(crate) fn may_depend_on(&self, paths: &[String]) -> bool {
        self.partial.is_some()
            || self.pattern.fields.iter().any(|field| paths.iter().any(|path| overlap(&field.path, path)))
    }

    /// Marks the index as multikey; true if the catalog does not record that yet.
    pub(crate) fn become_multikey(&self) -> bool {
        self.multikey.store(true, Ordering::Relaxed);
        !self.is_noted_multikey()
    }

    /// Whether the catalog on disk records that it is multikey.
    pub(crate) fn is_noted_multikey(&self) -> bool {
        self.noted_multikey.load(Ordering::Acquire)
    }

    /// Records that the catalog now contains the multikey flag.
    pub(crate) fn note_multikey(&self) {
        self.noted_multikey.store(true, Ordering::Release);
    }

    pub(crate) fn count_access(&self) {
        self.accesses.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of uses, and the start of the count.
    pub(crate) fn accesses(&self) -> (u64, bson::DateTime) {
        (self.accesses.load(Ordering::Relaxed), self.since)
    }

    /// The facts that the planner uses.
    pub(crate) fn info(&self) -> IndexInfo<'_> {
        IndexInfo {
            name: self.name(),
            pattern: &self.pattern,
            multikey: self.is_multikey(),
            sparse: self.spec.sparse(),
            unique: self.is_unique(),
            partial: self.partial.as_ref(),
        }
    }

    /// The keys of `document` in it, or none if a partial index leaves the document out.
    pub(crate) fn keys(&self, document: &RawDocument, keys: &mut IndexKeys) -> Result<()> {
        keys.keys.clear();
        keys.multikey = false;
        if let Some(filter) = &self.partial
            && filter.matches(document)?.is_none()
        {
            return Ok(());
        }
        self.extractor.extract(document, keys)
    }

    /// Adds the entries of a new document. The caller must write the multikey flag to the catalog.
    pub(crate) fn insert(
        &self,
        session: &dyn Session,
        document: &RawDocument,
        record: i64,
        namespace: &str,
    ) -> Result<bool> {
        with_scratch(|scratch| {
            self.keys(document, &mut scratch.new)?;
            for key in &scratch.new.keys {
                self.add_by(session, key, record, namespace, &mut scratch.entry)?;
            }
            Ok(scratch.new.multikey)
        })
    }

    /// Writes the entries of a document, even if another document owned a unique key. Returns whether it makes the index multikey.
    pub(super) fn put(&self, session: &dyn Session, document: &RawDocument, record: i64) -> Result<bool> {
        with_scratch(|scratch| {
            self.keys(document, &mut scratch.new)?;
            for key in &scratch.new.keys {
                if self.unique {
                    unique_value(key, record, &mut scratch.entry);
                    session.put(&self.table, Key::Bytes(&key.bytes), &scratch.entry)?;
                } else {
                    standard_key(key, record, &mut scratch.entry);
                    session.put(&self.table, Key::Bytes(&scratch.entry), &key.type_bits)?;
                }
            }
            Ok(scratch.new.multikey)
        })
    }

    /// Removes the entries of a document, except unique keys that now belong to another record.
    pub(super) fn remove_own(
        &self,
        session: &dyn Session,
        document: &RawDocument,
        record: i64,
    ) -> Result<()> {
        with_scratch(|scratch| {
            self.keys(document, &mut scratch.old)?;
            for key in &scratch.old.keys {
                if self.unique {
                    scratch.entry.clear();
                    let found = session.get(&self.table, Key::Bytes(&key.bytes), &mut scratch.entry)?;
                    let owner = leading_record_id(&scratch.entry).map(|(owner, _)| owner);
                    if !found || owner != Some(record) {
                        continue;
                    }
                }
                self.take(session, key, record, &mut scratch.entry)?;
            }
            Ok(())
        })
    }

    /// Removes the entries of a document that is removed.
    pub(crate) fn remove(&self, session: &dyn Session, document: &RawDocument, record: i64) -> Result<()> {
        with_scratch(|scratch| {
            self.keys(document, &mut scratch.old)?;
            let mut keys = scratch.old.keys.iter();
            keys.try_for_each(|key| self.take(session, key, record, &mut scratch.entry))
        })
    }

    /// Replaces the entries of `before` by those of `after`, changing only the differences.
    pub(crate) fn replace(
        &self,
        session: &dyn Session,
        before: &RawDocument,
        after: &RawDocument,
        record: i64,
        namespace: &str,
    ) -> Result<bool> {
        with_scratch(|scratch| {
            let IndexBuffers { old, new, entry } = scratch;
            self.keys(before, old)?;
            self.keys(after, new)?;
            // Both lists are sorted and contain each key once.
            for key in old.keys.iter().filter(|key| new.keys.binary_search(key).is_err()) {
                self.take(session, key, record, entry)?;
            }
            for key in new.keys.iter().filter(|key| old.keys.binary_search(key).is_err()) {
                self.add_by(session, key, record, namespace, entry)?;
            }
            Ok(new.multikey)
        })
    }

    /// The bytes of an entry: its key and its value in the table.
    pub(crate) fn entry_bytes(&self, key: &KeyString, record: i64) -> (Vec<u8>, Vec<u8>) {
        let mut own = Vec::new();
        if self.is_unique() {
            unique_value(key, record, &mut own);
            (key.bytes.clone(), own)
        } else {
            standard_key(key, record, &mut own);
            (own, key.type_bits.clone())
        }
    }

    /// Writes one entry; in a unique index a key with an owner is refused.
    pub(crate) fn add(
        &self,
        session: &dyn Session,
        key: &KeyString,
        record: i64,
        namespace: &str,
    ) -> Result<()> {
        with_scratch(|scratch| self.add_by(session, key, record, namespace, &mut scratch.entry))
    }

    fn add_by(
        &self,
        session: &dyn Session,
        key: &KeyString,
        record: i64,
        namespace: &str,
        own: &mut Vec<u8>,
    ) -> Result<()> {
        if !self.unique {
            standard_key(key, record, own);
            return Ok(session.put(&self.table, Key::Bytes(own), &key.type_bits)?);
        }
        unique_value(key, record, own);
        session.insert(&self.table, Key::Bytes(&key.bytes), own).map_err(|error| match error.kind() {
            Kind::Duplicate => self.duplicate(key, namespace),
            _ => error.into(),
        })
    }

    fn take(&self, session: &dyn Session, key: &KeyString, record: i64, own: &mut Vec<u8>) -> Result<()> {
        if self.unique {
            session.remove(&self.table, Key::Bytes(&key.bytes))?;
        } else {
            standard_key(key, record, own);
            session.remove(&self.table, Key::Bytes(own))?;
        }
        Ok(())
    }

    /// The failure for a key that has an owner, in MongoDB's words.
    pub(crate) fn duplicate(&self, key: &KeyString, namespace: &str) -> Failure {
        let values = self.key_document(&key.bytes, &key.type_bits).unwrap_or_default();
        let message = format!(
            "E11000 duplicate key error collection: {namespace} index: {} dup key: {}",
            self.name(),
            shell(&values)
        );
        Failure::new(Code::DuplicateKey, message)
            .with("keyPattern", self.spec.key().clone())
            .with("keyValue", values)
    }

    /// The indexed values of a key as a document with the index's field names.
    pub(crate) fn key_document(&self, key: &[u8], type_bits: &[u8]) -> Result<Document> {
        let values = self.key_values(key, type_bits)?;
        Ok(self.pattern.fields.iter().map(|field| field.path.clone()).zip(values).collect())
    }

    /// The indexed values of a key.
    pub(crate) fn key_values(&self, key: &[u8], type_bits: &[u8]) -> Result<Vec<bson::Bson>> {
        let descending: Vec<bool> = self
            .pattern
            .fields
            .iter()
            .map(|field| field.kind == fathom_query::FieldKind::Descending)
            .collect();
        decode(key, type_bits, &descending)
    }

    /// Reads an entry as the table stores it.
    pub(crate) fn read_entry<'a>(&self, entry: &'a [u8], value: &'a [u8]) -> Result<IndexEntry<'a>> {
        let damaged = || {
            Failure::new(Code::InternalError, format!("index {} holds an entry that is none", self.name()))
        };
        if self.is_unique() {
            let (record, length) = leading_record_id(value).ok_or_else(damaged)?;
            let type_bits = value.get(length..).unwrap_or_default();
            return Ok(IndexEntry { key: entry, type_bits, record });
        }
        let (key, record) = split_record_id(entry).ok_or_else(damaged)?;
        Ok(IndexEntry { key, type_bits: value, record })
    }
}

/// The key of a standard entry: the KeyString, then the record.
fn standard_key(key: &KeyString, record: i64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&key.bytes);
    record_id_of(record, out);
}

/// The value of a unique entry: the record, then the type bits.
fn unique_value(key: &KeyString, record: i64, out: &mut Vec<u8>) {
    out.clear();
    record_id_of(record, out);
    out.extend_from_slice(&key.type_bits);
}

/// A record id at the start of a unique index's value, and its length: the top three bits of the first byte hold the
/// number of bytes beyond two.
pub(crate) fn leading_record_id(value: &[u8]) -> Option<(i64, usize)> {
    let length = usize::from(value.first()? >> 5) + 2;
    let (_, record) = split_record_id(value.get(..length)?)?;
    Some((record, length))
}

/// Whether one dotted path lies within the other. Numbers and the positional operators stand for array positions, which
/// an indexed path may omit, so only the first field can rule a path out.
fn overlap(left: &str, right: &str) -> bool {
    let positional =
        |path: &str| path.split('.').skip(1).any(|part| part.starts_with('$') || part.parse::<u32>().is_ok());
    if positional(left) || positional(right) {
        return left.split('.').next() == right.split('.').next();
    }
    left.split('.').zip(right.split('.')).all(|(one, other)| one == other)
}

/// A document in the shell's format, for error messages.
fn shell(document: &Document) -> String {
    let fields: Vec<String> = document.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{ {} }}", fields.join(", "))
}

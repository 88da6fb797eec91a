//! The shard key of a collection: its fields, and the key of a document or a filter
//! (mongodb/mongo@v4.0:src/mongo/s/shard_key_pattern.cpp).
//!
//! Keys are compared as the bytes of a KeyString, whose order is the order of the values. A missing field counts as null. An
//! array in a field of the key is refused, as no chunk could hold its document.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_query::{Bound, FieldKind, Filter, KeyBuilder, KeyField, KeyPattern, hash64, hash64_owned};
use fathom_wire::{Code, Failure};

use crate::Result;

/// The maximum length of a document's key, in bytes of BSON, as in 4.0.
const MAX_KEY_BYTES: usize = 512;

/// The fields that decide which shard owns a document.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardKey {
    pattern: KeyPattern,
    document: Document,
}

impl ShardKey {
    /// Reads `{a: 1, b: 1}` or `{a: "hashed"}`.
    pub fn parse(key: &RawDocument) -> Result<ShardKey> {
        let refused = |what: String| Err(Failure::new(Code::BadValue, what));
        if key.is_empty() {
            return refused("Shard key is empty".to_owned());
        }
        for field in key {
            let (path, value) = field.map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?;
            let fits = match value {
                RawBsonRef::String(kind) => kind == "hashed",
                RawBsonRef::Int32(number) => number == 1,
                RawBsonRef::Int64(number) => number == 1,
                RawBsonRef::Double(number) => number == 1.0,
                _ => false,
            };
            if !fits {
                let what = format!(
                    "Shard key {key:?} can contain either a single 'hashed' field or multiple numerical fields set to a value of 1: see {path}"
                );
                return refused(what);
            }
        }
        let pattern = KeyPattern::parse(key)?;
        if pattern.fields.len() > 1 && pattern.fields.iter().any(|field| field.kind == FieldKind::Hashed) {
            let what = "Shard key can contain either a single 'hashed' field or multiple numerical fields; compound hashed keys are not in this server";
            return refused(what.to_owned());
        }
        let document = pattern.to_document();
        Ok(ShardKey { pattern, document })
    }

    /// Reads the same from an owned document.
    pub fn new(key: &Document) -> Result<ShardKey> {
        let raw = RawDocumentBuf::try_from(key).map_err(|error| {
            Failure::new(Code::BadValue, format!("a shard key cannot be encoded: {error}"))
        })?;
        ShardKey::parse(&raw)
    }

    /// The key as `config.collections` stores it.
    pub fn to_document(&self) -> &Document {
        &self.document
    }

    /// The key as the pattern of an index on it.
    pub fn pattern(&self) -> &KeyPattern {
        &self.pattern
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.pattern.fields.iter().map(|field| field.path.as_str())
    }

    /// Whether its one field is hashed.
    pub fn is_hashed(&self) -> bool {
        self.pattern.fields.iter().any(|field| field.kind == FieldKind::Hashed)
    }

    /// Whether the key is `_id` alone: then an `_id` is enough to find the shard.
    pub fn is_id(&self) -> bool {
        matches!(self.pattern.fields.as_slice(), [field] if field.path == "_id")
    }

    /// The bytes of a document's key.
    pub fn key_of(&self, document: &RawDocument) -> Result<Vec<u8>> {
        let mut builder = KeyBuilder::new();
        for field in &self.pattern.fields {
            let value = value_at(document, &field.path).map_err(|()| self.not_in(document))?;
            append(&mut builder, field, value);
        }
        Ok(builder.finish(Bound::Exact).bytes)
    }

    /// The same for a document about to be stored, whose key must also not be too long.
    pub fn key_to_store(&self, document: &RawDocument) -> Result<Vec<u8>> {
        let key = self.key_of(document)?;
        if !self.is_hashed() && key.len() > MAX_KEY_BYTES {
            let what = format!(
                "shard keys must be less than {MAX_KEY_BYTES} bytes, but the key of this document has {}",
                key.len()
            );
            return Err(Failure::new(Code::ShardKeyNotFound, what));
        }
        Ok(key)
    }

    /// The key that an `_id` gives, if the shard key is `_id` alone.
    pub fn key_of_id(&self, id: &Bson) -> Option<Vec<u8>> {
        let [field] = self.pattern.fields.as_slice() else { return None };
        if field.path != "_id" || matches!(id, Bson::Array(_) | Bson::RegularExpression(_)) {
            return None;
        }
        let mut builder = KeyBuilder::new();
        append_owned(&mut builder, field, id)?;
        Some(builder.finish(Bound::Exact).bytes)
    }

    /// The values of a document's key under the key's own paths, as `config.chunks` would store them.
    pub fn values_of(&self, document: &RawDocument) -> Result<Document> {
        let mut values = Document::new();
        for field in &self.pattern.fields {
            let value = value_at(document, &field.path).map_err(|()| self.not_in(document))?;
            let value = match field.kind {
                FieldKind::Hashed => Bson::Int64(hash64(value)),
                _ => Bson::try_from(value)
                    .map_err(|error| Failure::new(Code::InvalidBSON, error.to_string()))?,
            };
            values.insert(field.path.clone(), value);
        }
        Ok(values)
    }

    /// The key that all matches of a filter share, if the filter fixes every field of the key to one value.
    pub fn key_of_filter(&self, filter: &Filter) -> Option<Vec<u8>> {
        if let (Some(id), true) = (filter.only_id(), self.is_id()) {
            return self.key_of_id(id);
        }
        let equalities = filter.equalities();
        let mut builder = KeyBuilder::new();
        for field in &self.pattern.fields {
            let value = held(&equalities, &field.path)?;
            append_owned(&mut builder, field, &value)?;
        }
        Some(builder.finish(Bound::Exact).bytes)
    }

    /// The bytes of an end of a chunk, such as `{_id: MinKey}`: they sort before the key of every document with these values.
    /// The values of a hashed key are hashes.
    pub fn bound(&self, end: &Document) -> Result<Vec<u8>> {
        let refused = || {
            let what = format!("{end} is not a bound of a chunk of the shard key {}", self.document);
            Failure::new(Code::BadValue, what)
        };
        if end.len() != self.pattern.fields.len() {
            return Err(refused());
        }
        let mut builder = KeyBuilder::new();
        for field in &self.pattern.fields {
            let value = end.get(&field.path).ok_or_else(refused)?;
            builder.append_owned(value, false);
        }
        Ok(builder.finish(Bound::Before).bytes)
    }

    /// The lowest or the highest end of all chunks.
    pub fn outermost(&self, end: Bson) -> Document {
        self.pattern.fields.iter().map(|field| (field.path.clone(), end.clone())).collect()
    }

    fn not_in(&self, document: &RawDocument) -> Failure {
        let id =
            document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok()).unwrap_or(Bson::Null);
        let what = format!(
            "document with _id {id} does not contain a shard key for pattern {}: a field of it is an array",
            self.document
        );
        Failure::new(Code::ShardKeyNotFound, what)
    }
}

fn append(builder: &mut KeyBuilder, field: &KeyField, value: RawBsonRef<'_>) {
    match field.kind {
        FieldKind::Hashed => builder.append(RawBsonRef::Int64(hash64(value)), false),
        _ => builder.append(value, false),
    }
}

/// The same for an owned value; `None` for a value without a raw form.
fn append_owned(builder: &mut KeyBuilder, field: &KeyField, value: &Bson) -> Option<()> {
    match field.kind {
        FieldKind::Hashed => builder.append(RawBsonRef::Int64(hash64_owned(value)?), false),
        _ => builder.append_owned(value, false),
    }
    builder.check().ok()
}

/// The value at a dotted path, null if it is missing; an error if the path leads through or to an array.
fn value_at<'d>(document: &'d RawDocument, path: &str) -> std::result::Result<RawBsonRef<'d>, ()> {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let value = document.get(name).map_err(|_| ())?;
    match (value, rest) {
        (Some(RawBsonRef::Array(_)), _) => Err(()),
        (None | Some(RawBsonRef::Undefined), _) => Ok(RawBsonRef::Null),
        (Some(value), None) => Ok(value),
        (Some(RawBsonRef::Document(inner)), Some(rest)) => value_at(inner, rest),
        (Some(_), Some(_)) => Ok(RawBsonRef::Null),
    }
}

/// The value that equalities fix a path to, whether they name the path itself or a document that contains it.
fn held(equalities: &[(String, Bson)], path: &str) -> Option<Bson> {
    for (named, value) in equalities {
        let found = if named == path {
            Some(value.clone())
        } else {
            let rest = path.strip_prefix(named.as_str()).and_then(|rest| rest.strip_prefix('.'));
            rest.map(|rest| {
                rest.split('.')
                    .try_fold(value, |value, name| value.as_document()?.get(name))
                    .cloned()
                    .unwrap_or(Bson::Null)
            })
        };
        if let Some(found) = found {
            // An array also equals an element of an array, and a pattern matches many strings.
            let plain = !matches!(found, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined);
            return plain.then_some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, doc, rawdoc};
    use fathom_query::Variables;

    use super::*;

    fn filter(document: RawDocumentBuf) -> Filter {
        Filter::parse(&document, &Variables::at(DateTime::now())).unwrap()
    }

    #[test]
    fn a_filter_has_the_key_of_the_documents_that_it_means() {
        let key = ShardKey::new(&doc! { "a": 1, "b.c": 1 }).unwrap();
        let expected = key.key_of(&rawdoc! { "b": { "c": "x" }, "a": 7, "z": 1 }).unwrap();
        for same in [
            rawdoc! { "a": 7, "b.c": "x" },
            rawdoc! { "b": { "c": "x", "d": 1 }, "a": 7_i64, "more": { "$gt": 1 } },
            rawdoc! { "$and": [{ "a": { "$eq": 7.0 } }, { "b.c": { "$in": ["x"] } }] },
        ] {
            assert_eq!(key.key_of_filter(&filter(same.clone())), Some(expected.clone()), "{same:?}");
        }
        for vague in [
            rawdoc! { "a": 7 },
            rawdoc! { "a": 7, "b.c": { "$gte": "x" } },
            rawdoc! { "a": [7], "b.c": "x" },
            rawdoc! { "a": 7, "b.c": { "$in": ["x", "y"] } },
        ] {
            assert_eq!(key.key_of_filter(&filter(vague.clone())), None, "{vague:?}");
        }
    }

    #[test]
    fn hashed_keys_are_hashes_and_an_id_alone_has_one() {
        let key = ShardKey::new(&doc! { "_id": "hashed" }).unwrap();
        let of_document = key.key_of(&rawdoc! { "_id": "user5", "x": 1 }).unwrap();
        assert_eq!(key.key_of_filter(&filter(rawdoc! { "_id": "user5" })), Some(of_document.clone()));
        assert_eq!(key.key_of_id(&Bson::from("user5")), Some(of_document.clone()));
        let hash = hash64(RawBsonRef::String("user5"));
        assert_eq!(key.values_of(&rawdoc! { "_id": "user5" }).unwrap(), doc! { "_id": hash });
        let (at, after) = (doc! { "_id": hash }, doc! { "_id": hash.wrapping_add(1) });
        assert!(key.bound(&at).unwrap() <= of_document && of_document < key.bound(&after).unwrap());
        assert!(key.is_hashed() && key.is_id());
    }

    #[test]
    fn missing_is_null_and_arrays_are_refused() {
        let key = ShardKey::new(&doc! { "a.b": 1 }).unwrap();
        let null = key.key_of(&rawdoc! { "a": { "b": null } }).unwrap();
        for same in [rawdoc! {}, rawdoc! { "a": 1 }, rawdoc! { "a": {} }] {
            assert_eq!(key.key_of(&same).unwrap(), null);
        }
        for refused in [rawdoc! { "a": [1] }, rawdoc! { "a": { "b": [] } }] {
            assert_eq!(key.key_of(&refused).unwrap_err().code(), Code::ShardKeyNotFound);
        }
        assert!(key.key_to_store(&rawdoc! { "a": { "b": "x".repeat(600) } }).is_err());
    }

    #[test]
    fn other_keys_are_refused() {
        for refused in [
            doc! {},
            doc! { "a": -1 },
            doc! { "a": "text" },
            doc! { "a": "hashed", "b": 1 },
            doc! { "a": true },
        ] {
            assert!(ShardKey::new(&refused).is_err(), "{refused}");
        }
        assert_eq!(ShardKey::new(&doc! { "a": 1.0 }).unwrap().to_document(), &doc! { "a": 1 });
    }
}

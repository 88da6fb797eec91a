//! Extracts the keys that a document has in an index.
//!
//! Parallel arrays are refused, and so are arrays under hashed fields. Keys have no limit of length, as in MongoDB since 4.2.
use crate::hash::hash64;
use crate::paths::{self, PathValue};
use crate::{Bound, Code, Failure, FieldKind, KeyBuilder, KeyPattern, KeyString, Result};
use bson::{RawBsonRef, RawDocument};

/// The keys of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexKeys {
    /// Sorted and without any duplicates.
    pub keys: Vec<KeyString>,
    /// Whether a path went through an array, so that the index becomes multikey.
    pub multikey: bool,
}

/// Extracts the keys of documents for one index.
#[derive(Clone, Debug)]
pub struct KeyExtractor {
    pattern: KeyPattern,
    sparse: bool,
    hashed: bool,
    id: bool,
}

impl KeyExtractor {
    /// An extractor for a pattern; a sparse index has no key for a document that has none of the fields.
    pub fn new(pattern: KeyPattern, sparse: bool) -> Self {
        let hashed = pattern.fields.iter().any(|field| field.kind == FieldKind::Hashed);
        KeyExtractor { sparse, hashed, id: pattern.is_id(), pattern }
    }

    pub fn pattern(&self) -> &KeyPattern {
        &self.pattern
    }

    /// Replaces the content of `keys` by the keys of `document` and reuses the memory. Two arrays in parallel paths are
    /// refused (171), and an array under a hashed field too (16766).
    pub fn extract(&self, document: &RawDocument, keys: &mut IndexKeys) -> Result<()> {
        keys.multikey = false;
        let mut key = keys.keys.pop().unwrap_or_default();
        keys.keys.clear();
        let mut builder = KeyBuilder::reuse(std::mem::take(&mut key));
        let mut missing = 0;
        for field in &self.pattern.fields {
            let found = paths::find(document, &field.path)?;
            let value = match found {
                None => {
                    missing += 1;
                    RawBsonRef::Null
                }
                Some(PathValue { value: RawBsonRef::Array(_), rest, .. }) if self.hashed => {
                    return Err(hashed_array(&field.path, rest));
                }
                // The _id is never descended into; a document whose _id is an array was refused before.
                Some(PathValue { value: RawBsonRef::Array(_), .. }) if !self.id => {
                    return self.extract_through_arrays(document, keys);
                }
                Some(found) => found.value,
            };
            append(&mut builder, value, field.kind);
        }
        if !(self.sparse && missing == self.pattern.fields.len()) {
            builder.check()?;
            keys.keys.push(builder.finish(Bound::Exact));
        }
        Ok(())
    }

    fn extract_through_arrays(&self, document: &RawDocument, keys: &mut IndexKeys) -> Result<()> {
        let fields = &self.pattern.fields;
        let found = &mut keys.keys;
        let mut take = |values: &[RawBsonRef<'_>], missing: bool| {
            if self.sparse && missing {
                return Ok(());
            }
            let mut builder = KeyBuilder::new();
            for (value, field) in values.iter().zip(fields) {
                append(&mut builder, *value, field.kind);
            }
            builder.check()?;
            found.push(builder.finish(Bound::Exact));
            Ok(())
        };
        keys.multikey = paths::tuples(document, fields.iter().map(|field| field.path.as_str()), &mut take)?;
        keys.keys.sort_unstable();
        // Numbers of two types that are equal make one key.
        keys.keys.dedup_by(|later, earlier| later.bytes == earlier.bytes);
        Ok(())
    }
}

fn append(builder: &mut KeyBuilder, value: RawBsonRef<'_>, kind: FieldKind) {
    match kind {
        FieldKind::Ascending => builder.append(value, false),
        FieldKind::Descending => builder.append(value, true),
        FieldKind::Hashed => builder.append(RawBsonRef::Int64(hash64(value)), false),
    }
}

fn hashed_array(path: &str, rest: &str) -> Failure {
    let walked = path.strip_suffix(rest).unwrap_or(path);
    Failure::new(
        Code(16766),
        format!(
            "Error: hashed indexes do not currently support array values. Found array at path: {}",
            walked.strip_suffix('.').unwrap_or(walked)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use bson::{Bson, Document, RawDocumentBuf, bson, doc};

    fn raw(document: Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    fn parse(pattern: Document) -> Result<KeyPattern> {
        KeyPattern::parse(&raw(pattern))
    }

    fn refusal(pattern: Document) -> (i32, String) {
        let failure = parse(pattern).unwrap_err();
        (failure.code().0, failure.message().to_owned())
    }

    fn extract(pattern: Document, sparse: bool, document: Document) -> Result<(Vec<Bson>, bool)> {
        let extractor = KeyExtractor::new(parse(pattern)?, sparse);
        let mut keys = IndexKeys::default();
        extractor.extract(&raw(document), &mut keys)?;
        assert!(keys.keys.is_sorted());
        let descending = extractor.pattern().descending();
        let values = keys.keys.iter().map(|key| {
            let mut values = decode(&key.bytes, &key.type_bits, &descending).unwrap();
            if values.len() == 1 { values.remove(0) } else { Bson::Array(values) }
        });
        Ok((values.collect(), keys.multikey))
    }

    #[track_caller]
    fn check(pattern: Document, document: Document, expected: Bson, multikey: bool) {
        let found = extract(pattern, false, document).unwrap();
        assert_eq!((Bson::Array(found.0), found.1), (expected, multikey));
    }

    #[test]
    fn patterns_come_back() {
        let pattern = parse(doc! { "a": 5, "b.c": -0.5, "c": "hashed" }).unwrap();
        assert_eq!(pattern.to_document(), doc! { "a": 1, "b.c": -1, "c": "hashed" });
        assert_eq!(pattern.descending(), [false, true, false]);
        assert!(parse(doc! { "_id": 1 }).unwrap().is_id());
        assert!(!parse(doc! { "_id": "hashed" }).unwrap().is_id());
        assert!(parse(doc! { "a.$id": 1 }).is_ok());
        let many: Document = (0..32).map(|n| (format!("f{n}"), Bson::Int32(1))).collect();
        assert_eq!(parse(many.clone()).unwrap().fields.len(), 32);
        let mut more = many;
        more.insert("f32", 1);
        assert_eq!(refusal(more).0, 13103);
    }

    #[test]
    fn bad_patterns_are_refused_as_mongodb_does() {
        let cases = [
            (doc! {}, 67, "Index keys cannot be empty."),
            (doc! { "a": 0 }, 67, "Values in the index key pattern cannot be 0."),
            (doc! { "a": f64::NAN }, 67, "Values in the index key pattern cannot be NaN."),
            (doc! { "": 1 }, 67, "Index keys cannot be an empty field."),
            (doc! { "a..b": 1 }, 67, "Index keys cannot contain an empty field."),
            (doc! { "a.": 1 }, 67, "Index keys cannot contain an empty field."),
            (doc! { "$a": 1 }, 67, "Index key contains an illegal field name: field name starts with '$'."),
            (doc! { "a": "nonsense" }, 67, "Unknown index plugin 'nonsense'"),
            (doc! { "_id": -1 }, 2, "The field 'key' for an _id index must be {_id: 1}, but got {_id: -1}"),
        ];
        for (pattern, code, message) in cases {
            assert_eq!(refusal(pattern), (code, message.to_owned()));
        }
        assert_eq!(refusal(doc! { "a": "hashed", "b": "hashed" }).0, 31303);
        for (pattern, name) in [
            (doc! { "a": "text" }, "'text'"),
            (doc! { "a": "2dsphere" }, "'2dsphere'"),
            (doc! { "a": "2d" }, "'2d'"),
            (doc! { "$**": 1 }, "Wildcard"),
            (doc! { "a.$**": 1 }, "Wildcard"),
            (doc! { "a": { "b": 1 } }, "cannot be of type object"),
            (doc! { "a": true }, "cannot be of type bool"),
        ] {
            let (code, message) = refusal(pattern);
            assert!(code == 67 && message.contains(name), "{message}");
        }
        let twice = bson::rawdoc! { "a": 1, "b": 1, "a": -1 };
        assert_eq!(KeyPattern::parse(&twice).unwrap_err().code(), Code::BadValue);
    }

    #[test]
    fn scalars_and_missing_fields_make_one_key() {
        check(doc! { "a": 1 }, doc! { "a": 7 }, bson!([7]), false);
        check(doc! { "a": -1, "b": 1 }, doc! { "b": "x" }, bson!([[null, "x"]]), false);
        check(doc! { "a.b": 1 }, doc! { "a": { "b": { "c": 1 } } }, bson!([{ "c": 1 }]), false);
        check(doc! { "a.b": 1 }, doc! { "a": 5 }, bson!([null]), false);
        check(doc! { "_id": 1 }, doc! { "_id": "user1" }, bson!(["user1"]), false);
        check(doc! { "_id": 1 }, doc! { "a": 1 }, bson!([null]), false);
    }

    #[test]
    fn arrays_make_a_key_for_each_element() {
        check(doc! { "a": 1 }, doc! { "a": [3, 1, 1.0, 2] }, bson!([1, 2, 3]), true);
        check(doc! { "a": -1 }, doc! { "a": [1, 2] }, bson!([2, 1]), true);
        check(doc! { "a": 1 }, doc! { "a": [[1, 2], 3] }, bson!([3, [1, 2]]), true);
        check(doc! { "a": 1 }, doc! { "a": [] }, bson!([Bson::Undefined]), true);
        check(doc! { "a": 1, "b": 1 }, doc! { "a": [1, 2], "b": 5 }, bson!([[1, 5], [2, 5]]), true);
        check(doc! { "a.b": 1 }, doc! { "a": [{ "b": 1 }, { "c": 1 }, 4] }, bson!([null, 1]), true);
        check(doc! { "a.b": 1 }, doc! { "a": [] }, bson!([null]), true);
        check(doc! { "a.b": 1 }, doc! { "a": [{ "b": [1, 2] }, { "b": [3] }] }, bson!([1, 2, 3]), true);
        check(
            doc! { "a.b": 1, "a.c": 1 },
            doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3 }] },
            bson!([[1, 2], [3, null]]),
            true,
        );
        check(doc! { "a": 1, "a.b": 1 }, doc! { "a": [{ "b": 1 }] }, bson!([[{ "b": 1 }, 1]]), true);
    }

    #[test]
    fn numbers_in_paths_are_positions_or_names() {
        check(doc! { "a.0": 1 }, doc! { "a": [4, 5] }, bson!([4]), false);
        check(doc! { "a.0": 1 }, doc! { "a": { "0": 9 } }, bson!([9]), false);
        check(doc! { "a.1.b": 1 }, doc! { "a": [{ "b": 1 }, { "b": 2 }] }, bson!([2]), false);
        check(doc! { "a.5": 1 }, doc! { "a": [4] }, bson!([null]), true);
        check(doc! { "a.0": 1 }, doc! { "a": [[1, 2]] }, bson!([[1, 2]]), false);
        check(doc! { "a.0.b": 1 }, doc! { "a": [[{ "b": 1 }, { "b": 2 }]] }, bson!([1, 2]), true);
        check(doc! { "a.0": 1, "a": 1 }, doc! { "a": [1, 2] }, bson!([[1, 1], [1, 2]]), true);
        let failure = extract(doc! { "a.0": 1 }, false, doc! { "a": [{ "0": 1 }] }).unwrap_err();
        assert_eq!(failure.code(), Code(16746));
    }

    #[test]
    fn parallel_arrays_are_refused() {
        let failure = extract(doc! { "a": 1, "b": 1 }, false, doc! { "a": [1], "b": [2] }).unwrap_err();
        assert_eq!(failure.code(), Code(171));
        assert_eq!(failure.message(), "cannot index parallel arrays [b] [a]");
        let failure =
            extract(doc! { "x.a": 1, "y.b": 1 }, false, doc! { "x": { "a": [] }, "y": { "b": [] } });
        assert_eq!(failure.unwrap_err().message(), "cannot index parallel arrays [b] [a]");
    }

    #[test]
    fn sparse_indexes_leave_out_documents_without_any_field() {
        assert!(extract(doc! { "a": 1, "b": 1 }, true, doc! { "c": 1 }).unwrap().0.is_empty());
        assert_eq!(extract(doc! { "a": 1, "b": 1 }, true, doc! { "b": null }).unwrap().0.len(), 1);
        assert_eq!(extract(doc! { "a": 1 }, true, doc! { "a": null }).unwrap().0, [Bson::Null]);
        assert_eq!(extract(doc! { "a.b": 1 }, true, doc! { "a": [{ "b": 1 }, 2] }).unwrap().0, [bson!(1)]);
    }

    #[test]
    fn hashed_fields_hold_the_hash_and_refuse_arrays() {
        let hash = -944_302_157_085_130_861i64;
        check(doc! { "a": "hashed" }, doc! { "a": 42.5 }, bson!([hash]), false);
        check(doc! { "a": "hashed", "b": -1 }, doc! { "a": 42, "b": 1 }, bson!([[hash, 1]]), false);
        check(doc! { "a": "hashed" }, doc! {}, bson!([2_338_878_944_348_059_895i64]), false);
        for (pattern, document, path) in [
            (doc! { "a.b": "hashed" }, doc! { "a": [1] }, "a"),
            (doc! { "a.b": "hashed" }, doc! { "a": { "b": [] } }, "a.b"),
            (doc! { "a": "hashed", "b": 1 }, doc! { "b": [1] }, "b"),
        ] {
            let failure = extract(pattern, false, document).unwrap_err();
            assert_eq!(failure.code(), Code(16766));
            assert!(failure.message().ends_with(&format!("at path: {path}")), "{failure}");
        }
    }

    #[test]
    fn keys_are_reused_from_document_to_document() {
        let extractor = KeyExtractor::new(parse(doc! { "a": 1 }).unwrap(), true);
        let mut keys = IndexKeys::default();
        extractor.extract(&raw(doc! { "a": [1, 2, 3] }), &mut keys).unwrap();
        assert_eq!((keys.keys.len(), keys.multikey), (3, true));
        extractor.extract(&raw(doc! { "a": "x" }), &mut keys).unwrap();
        assert_eq!((keys.keys.len(), keys.multikey), (1, false));
        assert_eq!(keys.keys[0].bytes, [60, b'x', 0, 4]);
        extractor.extract(&raw(doc! {}), &mut keys).unwrap();
        assert!(keys.keys.is_empty());
    }
}

//! Collects the distinct values under a path.

use std::collections::HashSet;

use bson::{Bson, RawBson, RawBsonRef, RawDocument};
use fathom_engine::Key;
use fathom_query::{Bound, Code, Failure, FieldKind, Filter, KeyBuilder, KeyString, Variables};
use fathom_wire::ArrayWriter;

use super::find::BatchEffect;
use crate::Result;
use crate::cursors::{FindQuery, FindState};
use crate::operation_context::OperationContext;
use crate::storage::{Collection, CollectionState, Index};

/// The maximum size of all values together, as in mongod.
const MAX_BYTES: usize = 16 << 20;

/// Distinct values in the order of their first occurrence.
#[derive(Debug)]
pub(crate) struct DistinctValues {
    path: Vec<String>,
    seen: HashSet<Vec<u8>>,
    values: Vec<RawBson>,
    bytes: usize,
    scratch: KeyString,
}

impl DistinctValues {
    /// An empty set of values for a dotted path.
    pub(crate) fn new(path: &str) -> DistinctValues {
        DistinctValues {
            path: path.split('.').map(str::to_owned).collect(),
            seen: HashSet::new(),
            values: Vec::new(),
            bytes: 0,
            scratch: KeyString::default(),
        }
    }

    fn path(&self) -> String {
        self.path.join(".")
    }

    /// Adds the values of a document.
    pub(crate) fn add(&mut self, document: &RawDocument) -> Result<()> {
        let path = std::mem::take(&mut self.path);
        let result = walk(RawBsonRef::Document(document), &path, &mut |value| self.take(value));
        self.path = path;
        result
    }

    fn take(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let mut key = KeyBuilder::reuse(std::mem::take(&mut self.scratch));
        key.append(value, false);
        self.scratch = key.finish(Bound::Exact);
        if self.seen.contains(&self.scratch.bytes) {
            return Ok(());
        }
        self.bytes += self.scratch.bytes.len() + 8;
        if self.bytes > MAX_BYTES {
            return Err(Failure::new(Code(17217), "distinct too big, 16mb cap"));
        }
        self.seen.insert(self.scratch.bytes.clone());
        self.values.push(value.into());
        Ok(())
    }

    pub(crate) fn write(&self, array: &mut ArrayWriter<'_>) {
        self.values.iter().for_each(|value| array.value(value.as_raw_bson_ref()));
    }

    /// The number of distinct values.
    pub(crate) fn count(&self) -> u64 {
        self.values.len() as u64
    }
}

/// Hands over every value under a path. Arrays along the path are traversed, unless the path names a position in one; the
/// items of an array at its end are handed over one by one.
fn walk(
    value: RawBsonRef<'_>,
    path: &[String],
    take: &mut dyn FnMut(RawBsonRef<'_>) -> Result<()>,
) -> Result<()> {
    let Some((name, rest)) = path.split_first() else {
        return match value {
            RawBsonRef::Array(items) => items
                .into_iter()
                .try_for_each(|item| take(item.map_err(|error| crate::parse::malformed(&error))?)),
            value => take(value),
        };
    };
    match value {
        RawBsonRef::Document(document) => match crate::parse::field(document, name) {
            Some(inner) => walk(inner, rest, take),
            None => Ok(()),
        },
        RawBsonRef::Array(items) => {
            if let Ok(place) = name.parse::<usize>() {
                return match items.get(place).map_err(|error| crate::parse::malformed(&error))? {
                    Some(item) => walk(item, rest, take),
                    None => Ok(()),
                };
            }
            for item in items {
                let item = item.map_err(|error| crate::parse::malformed(&error))?;
                if matches!(item, RawBsonRef::Document(_) | RawBsonRef::Array(_)) {
                    walk(item, path, take)?;
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The index whose first field alone provides the distinct values.
pub(crate) fn distinct_index<'s>(
    state: &'s CollectionState,
    path: &str,
) -> Option<&'s std::sync::Arc<Index>> {
    state.indexes.iter().find(|index| {
        !index.is_multikey()
            && !index.spec().sparse()
            && index.spec().partial().is_none()
            && index
                .pattern()
                .fields
                .first()
                .is_some_and(|field| field.path == path && field.kind != FieldKind::Hashed)
    })
}

/// Takes the values of all documents from an index, jumping from value to value; false if no index can provide them.
pub(crate) fn first_values(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    values: &mut DistinctValues,
) -> Result<bool> {
    let path = values.path();
    let Some(index) = distinct_index(state, &path) else { return Ok(false) };
    op.figures.plan = Some(format!("DISTINCT_SCAN {}", super::find::pattern_text(index.spec().key())).into());
    index.count_access();
    op.session().begin()?;
    let null = jump(op, index, values);
    op.session().rollback();
    // The index does not distinguish null from missing, and a missing field is no value.
    if null? && has_null(op, collection, state, &path)? {
        values.take(RawBsonRef::Null)?;
    }
    Ok(true)
}

/// Jumps from value to value; returns whether null was among them.
fn jump(op: &mut OperationContext<'_>, index: &Index, values: &mut DistinctValues) -> Result<bool> {
    let descending = index.pattern().fields.first().is_some_and(|field| field.kind == FieldKind::Descending);
    let mut null = false;
    let session = op.session();
    let mut cursor = session.cursor(index.table())?;
    let mut more = cursor.first()?;
    while more {
        op.figures.keys_examined += 1;
        if op.figures.keys_examined.is_multiple_of(128) {
            op.check_interrupt()?;
        }
        let key = {
            let entry = index.read_entry(cursor.key().bytes().unwrap_or_default(), cursor.value())?;
            let value = index.key_values(entry.key, entry.type_bits)?.into_iter().next();
            let value = value.unwrap_or(Bson::Null);
            let mut key = KeyBuilder::new();
            key.append_owned(&value, descending);
            match RawBson::try_from(value) {
                Ok(RawBson::Null | RawBson::Undefined) => null = true,
                Ok(value) => values.take(value.as_raw_bson_ref())?,
                Err(error) => return Err(crate::parse::malformed(&error)),
            }
            key.finish(Bound::After)
        };
        more = cursor.seek(Key::Bytes(&key.bytes))?;
    }
    Ok(null)
}

fn has_null(
    op: &mut OperationContext<'_>,
    collection: &Collection,
    state: &CollectionState,
    path: &str,
) -> Result<bool> {
    let filter = crate::parse::raw_of(&bson::doc! { path: { "$type": "null" } })?;
    let mut query = FindQuery::new(Filter::parse(&filter, &Variables::at(bson::DateTime::now()))?);
    query.limit = Some(1);
    let mut found = false;
    FindState::new(op, state, query)?.fill(op, collection, state, &mut |_| {
        found = true;
        Ok(BatchEffect::Last)
    })?;
    op.figures.plan = Some("DISTINCT_SCAN".into());
    Ok(found)
}

//! The client's choices: the index, by a hint, and the ends of the walk through it, by `min` and `max`, which are keys of it.
//!
//! A hint for an index that does not exist is refused in MongoDB's words.

use bson::{Bson, Document, RawDocument};

use super::candidate::covers_sort;
use super::{Access, Hint, IndexInfo, Plan, Range};
use crate::filter::show;
use crate::{Bound, Code, Failure, FieldKind, Filter, KeyBuilder, KeyPattern, Result, Sort};

/// The result of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HintPlan {
    /// Reads all records of the collection.
    Scan {
        /// From the last to the first.
        backwards: bool,
    },
    /// The index at this place of the list.
    Index(usize),
}

/// The index that a hint names.
pub(super) fn find(hint: &Hint, indexes: &[IndexInfo<'_>]) -> Result<HintPlan> {
    let place = match hint {
        Hint::Natural { backwards } => return Ok(HintPlan::Scan { backwards: *backwards }),
        Hint::Name(name) => indexes.iter().position(|index| index.name == name),
        Hint::Pattern(pattern) => {
            if let Some(direction) = pattern.get("$natural") {
                return Ok(HintPlan::Scan { backwards: is_negative(direction) });
            }
            indexes.iter().position(|index| is_pattern(index, pattern))
        }
    };
    place.map(HintPlan::Index).ok_or_else(|| {
        Failure::new(
            Code::BadValue,
            "error processing query: planner returned error :: caused by :: hint provided does not correspond to an \
             existing index",
        )
    })
}

/// `Some` if a sort requests the records' own order (`{$natural: 1}`); then, whether from the last.
pub(super) fn natural_order(sort: &Sort) -> Option<bool> {
    match sort.fields.as_slice() {
        [(path, descending)] if path == "$natural" => Some(*descending),
        _ => None,
    }
}

fn is_pattern(index: &IndexInfo<'_>, pattern: &Document) -> bool {
    index.pattern.fields.len() == pattern.len()
        && index.pattern.fields.iter().zip(pattern).all(|(field, (path, kind))| {
            field.path == *path
                && match field.kind {
                    FieldKind::Hashed => kind.as_str() == Some("hashed"),
                    FieldKind::Ascending => kind.as_str().is_none() && !is_negative(kind),
                    FieldKind::Descending => is_negative(kind),
                }
        })
}

fn is_negative(number: &Bson) -> bool {
    match number {
        Bson::Int32(number) => *number < 0,
        Bson::Int64(number) => *number < 0,
        Bson::Double(number) => *number < 0.0,
        _ => false,
    }
}

/// The plan that walks the hinted index from `min` up to, not including, `max`. The filter is evaluated for every document.
pub fn between(
    min: Option<&RawDocument>,
    max: Option<&RawDocument>,
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    indexes: &[IndexInfo<'_>],
) -> Result<Plan> {
    let Some(hint) = hint else {
        return Err(Failure::new(
            Code(51173),
            "When using min()/max() a hint of which index to use must be provided",
        ));
    };
    let HintPlan::Index(place) = find(hint, indexes)? else { return Err(incompatible()) };
    let Some(index) = indexes.get(place) else { return Err(incompatible()) };
    let key = |end: Option<&RawDocument>, open: Bound| match end {
        None => Ok(KeyBuilder::new().finish(open).bytes),
        Some(end) => key_of(index.pattern, end),
    };
    let (low, high) = (key(min, Bound::Before)?, key(max, Bound::After)?);
    if low >= high {
        return Err(Failure::new(
            Code(51175),
            "The value provided for min() does not come before the value provided for max() in the hinted index",
        ));
    }
    let order = if index.multikey { None } else { covers_sort(index.pattern, sort) };
    Ok(Plan {
        access: Access::Index {
            index: place,
            ranges: vec![Range { low, high }],
            backwards: order.unwrap_or(false),
            bounds: shown(index.pattern, min, max, order.unwrap_or(false)),
        },
        filter: !filter.is_empty(),
        sorted: sort.is_none() || order.is_some(),
        covered: false,
    })
}

fn incompatible() -> Failure {
    Failure::new(Code(51174), "The index chosen is not compatible with min/max")
}

/// The key that follows all keys less than `end`, which must have the index's fields in its order.
fn key_of(pattern: &KeyPattern, end: &RawDocument) -> Result<Vec<u8>> {
    let mut key = KeyBuilder::new();
    let mut fields = pattern.fields.iter();
    for element in end {
        let (name, value) = element.map_err(crate::raw::unreadable)?;
        let field = fields.next().filter(|field| field.path == name.as_str()).ok_or_else(incompatible)?;
        if field.kind == FieldKind::Hashed {
            return Err(incompatible());
        }
        key.append(value, field.kind == FieldKind::Descending);
    }
    if fields.next().is_some() {
        return Err(incompatible());
    }
    key.check()?;
    Ok(key.finish(Bound::Before).bytes)
}

fn shown(
    pattern: &KeyPattern,
    min: Option<&RawDocument>,
    max: Option<&RawDocument>,
    backwards: bool,
) -> Document {
    let text = |end: Option<&RawDocument>, path: &str, default: &str| {
        end.and_then(|end| end.get(path).ok().flatten()).map_or_else(|| default.to_owned(), show::value)
    };
    let mut bounds = Document::new();
    for field in &pattern.fields {
        let (first, last) = match field.kind {
            FieldKind::Descending => ("MaxKey", "MinKey"),
            _ => ("MinKey", "MaxKey"),
        };
        let (low, high) = (text(min, &field.path, first), text(max, &field.path, last));
        let shown = if backwards { format!("({high}, {low}]") } else { format!("[{low}, {high})") };
        bounds.insert(&field.path, vec![bson::Bson::String(shown)]);
    }
    bounds
}

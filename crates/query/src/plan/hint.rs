//! Hints: the client names the index. One that is not there is refused in MongoDB's words.

use bson::{Bson, Document};

use super::{Hint, IndexInfo};
use crate::{Code, Failure, FieldKind, Result, Sort};

/// What a hint leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hinted {
    /// All records.
    Scan {
        /// From the last to the first.
        backwards: bool,
    },
    /// The index at this place of the list.
    Index(usize),
}

/// What a hint names.
pub(super) fn find(hint: &Hint, indexes: &[IndexInfo<'_>]) -> Result<Hinted> {
    let place = match hint {
        Hint::Natural { backwards } => return Ok(Hinted::Scan { backwards: *backwards }),
        Hint::Name(name) => indexes.iter().position(|index| index.name == name),
        Hint::Pattern(pattern) => {
            if let Some(direction) = pattern.get("$natural") {
                return Ok(Hinted::Scan { backwards: is_negative(direction) });
            }
            indexes.iter().position(|index| is_pattern(index, pattern))
        }
    };
    place.map(Hinted::Index).ok_or_else(|| {
        Failure::new(
            Code::BadValue,
            "error processing query: planner returned error :: caused by :: hint provided does not correspond to an \
             existing index",
        )
    })
}

/// Whether a sort asks for the records' own order (`{$natural: 1}`); then, whether from the last.
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

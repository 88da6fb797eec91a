//! Reads `$in` and `$nin`: a list of values and patterns, sorted for search. A list of one becomes what it means.

use bson::{RawBson, RawBsonRef};

use super::malformed;
use super::parse::is_operators;
use super::pattern::Pattern;
use super::tree::{Comparison, Membership, Node, Test};
use crate::{Code, Failure, Result, compare};

/// The node of a list.
pub(super) fn parse(path: &str, name: &str, argument: RawBsonRef<'_>) -> Result<Node> {
    let RawBsonRef::Array(items) = argument else {
        return Err(Failure::new(Code::BadValue, format!("{name} needs an array")));
    };
    let mut list = Membership::default();
    for item in items {
        match item.map_err(malformed)? {
            RawBsonRef::Document(document) if is_operators(document)? => {
                return Err(Failure::new(Code::BadValue, "cannot nest $ under $in"));
            }
            RawBsonRef::Undefined => {
                return Err(Failure::new(Code::BadValue, "InMatchExpression equality cannot be undefined"));
            }
            RawBsonRef::RegularExpression(regex) => list.patterns.push(Pattern::of(regex)?),
            value => {
                list.null |= matches!(value, RawBsonRef::Null);
                list.values.push(value.into());
            }
        }
    }
    let order = |left: &RawBson, right: &RawBson| compare(left.as_raw_bson_ref(), right.as_raw_bson_ref());
    list.values.sort_by(order);
    list.values.dedup_by(|left, right| order(left, right).is_eq());
    let test = match (list.values.len(), list.patterns.len()) {
        (0, 0) => return Ok(Node::Always(false)),
        (1, 0) => list.values.pop().map(|value| Test::Compare(Comparison::Equal, value)),
        (0, 1) => list.patterns.pop().map(Test::Regex),
        _ => None,
    };
    Ok(Node::field(path, test.unwrap_or(Test::Member(list))))
}

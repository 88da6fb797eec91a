//! Reads `$elemMatch` and `$all`, the operators of arrays that hold filters of their own.

use bson::{RawBsonRef, RawDocument};

use super::malformed;
use super::parse::{Level, Parser, comparison, is_operators};
use super::pattern::Pattern;
use super::tree::{Comparison, Node, Test};
use crate::{Code, Failure, Result};

/// Operators that stand beside fields: an `$elemMatch` that begins with one is a filter of documents.
const BESIDE_FIELDS: [&str; 9] =
    ["$and", "$or", "$nor", "$where", "$expr", "$text", "$comment", "$jsonSchema", "$alwaysTrue"];

impl Parser<'_> {
    /// `$elemMatch`: a filter of the elements that are documents, or operators on the elements themselves.
    pub(super) fn element_match(self, path: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<Node> {
        let RawBsonRef::Document(inner) = argument else {
            return Err(Failure::new(Code::BadValue, "$elemMatch needs an Object"));
        };
        let test = if is_of_values(inner)? {
            let mut nodes = Vec::new();
            self.operators("", inner, Level::Element, depth + 1, &mut nodes)?;
            Test::ElementValue(nodes)
        } else {
            if inner.get("$where").map_err(malformed)?.is_some() {
                return Err(Failure::new(Code::BadValue, "$elemMatch cannot contain $where expression"));
            }
            Test::ElementObject(Box::new(self.filter(inner, Level::Element, depth + 1)?))
        };
        Ok(Node::field(path, test))
    }

    /// `$all`: each of a list of values, patterns or `$elemMatch`es.
    pub(super) fn all_of(self, path: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<Node> {
        let RawBsonRef::Array(items) = argument else {
            return Err(Failure::new(Code::BadValue, "$all needs an array"));
        };
        let mut nodes = Vec::new();
        let mut elements = None;
        for item in items {
            let item = item.map_err(malformed)?;
            let element = element_argument(item)?;
            if *elements.get_or_insert(element.is_some()) && element.is_none() {
                return Err(Failure::new(Code::BadValue, "$all/$elemMatch has to be consistent"));
            }
            nodes.push(match (item, element) {
                (_, Some(inner)) if elements == Some(true) => self.element_match(path, inner, depth)?,
                (RawBsonRef::Document(document), _) if is_operators(document)? => {
                    return Err(Failure::new(Code::BadValue, "no $ expressions in $all"));
                }
                (RawBsonRef::RegularExpression(regex), _) => {
                    Node::field(path, Test::Regex(Pattern::of(regex)?))
                }
                (value, _) => comparison(path, Comparison::Equal, value)?,
            });
        }
        Ok(if nodes.is_empty() { Node::Always(false) } else { Node::all(nodes) })
    }
}

/// The argument of an item `{$elemMatch: ...}`.
fn element_argument(item: RawBsonRef<'_>) -> Result<Option<RawBsonRef<'_>>> {
    let RawBsonRef::Document(document) = item else { return Ok(None) };
    let Some(first) = document.iter_elements().next() else { return Ok(None) };
    let first = first.map_err(malformed)?;
    if first.key().as_str() != "$elemMatch" {
        return Ok(None);
    }
    first.value().map(Some).map_err(malformed)
}

/// Whether the argument of `$elemMatch` is a list of operators on the elements themselves; one that looks like a reference
/// (`$ref`, `$id`, `$db`) is a document to match.
fn is_of_values(argument: &RawDocument) -> Result<bool> {
    let Some(first) = argument.iter_elements().next() else { return Ok(false) };
    let first = first.map_err(malformed)?.key().as_str();
    if !first.starts_with('$') || BESIDE_FIELDS.contains(&first) {
        return Ok(false);
    }
    for element in argument.iter_elements() {
        if matches!(element.map_err(malformed)?.key().as_str(), "$ref" | "$id" | "$db") {
            return Ok(false);
        }
    }
    Ok(true)
}

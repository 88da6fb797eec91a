//! Evaluates a parsed filter for a document. It works on raw bytes and allocates only within `$expr` and some `$regex`.
//!
//! Only values of one class are compared, null equals a missing value, and NaN equals only NaN
//! (mongodb/mongo:src/mongo/db/matcher/expression_leaf.cpp).

use std::cmp::Ordering;

use bson::{RawArray, RawBsonRef, RawDocument};

use super::numbers::{self, is_nan};
use super::path::{LastArray, PathWalk};
use super::tree::{ComparisonOperator, ExpressionTest, Field, FilterNode, InList, Test};
use crate::raw::unreadable;
use crate::{Result, canonical_type, compare};

impl FilterNode {
    /// Whether a document matches; sets `position` if the match went through an array.
    pub(crate) fn matches(&self, document: &RawDocument, position: &mut Option<usize>) -> Result<bool> {
        match self {
            FilterNode::Always(truth) => Ok(*truth),
            FilterNode::And(nodes) => {
                for node in nodes {
                    if !node.matches(document, position)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            FilterNode::Or(nodes) => any(nodes, document, position),
            // A negated condition matched at no position.
            FilterNode::Nor(nodes) => Ok(!any(nodes, document, &mut None)?),
            FilterNode::Not(node) => Ok(!node.matches(document, &mut None)?),
            FilterNode::Field(field) => field.matches(document, position),
            FilterNode::Computed(computed) => computed.holds(document),
            FilterNode::Schema(schema) => schema.holds(RawBsonRef::Document(document)),
        }
    }

    /// Whether the value itself passes, for the operators within `$elemMatch`.
    fn holds(&self, value: RawBsonRef<'_>) -> Result<bool> {
        match self {
            FilterNode::And(nodes) => {
                for node in nodes {
                    if !node.holds(value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            FilterNode::Not(node) => Ok(!node.holds(value)?),
            FilterNode::Field(field) => field.test.holds(Some(value), &mut None),
            FilterNode::Always(truth) => Ok(*truth),
            // Operators of a field parse into none of these.
            FilterNode::Or(_) | FilterNode::Nor(_) | FilterNode::Computed(_) | FilterNode::Schema(_) => {
                Ok(false)
            }
        }
    }
}

fn any(nodes: &[FilterNode], document: &RawDocument, position: &mut Option<usize>) -> Result<bool> {
    for node in nodes {
        if node.matches(document, position)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Field {
    fn matches(&self, document: &RawDocument, position: &mut Option<usize>) -> Result<bool> {
        let leaf = match self.test {
            Test::Size(_) | Test::ElementObject(_) | Test::ElementValue(_) => LastArray::Whole,
            _ => LastArray::Opened,
        };
        PathWalk { path: &self.path, leaf, position: None }.document(document, &mut |value, outer| {
            let mut inner = None;
            let holds = self.test.holds(value, &mut inner)?;
            if holds {
                *position = outer.or(inner).or(*position);
            }
            Ok(holds)
        })
    }
}

impl Test {
    /// Whether one value (none: missing) passes; sets `position` to the element of `$elemMatch`.
    fn holds(&self, value: Option<RawBsonRef<'_>>, position: &mut Option<usize>) -> Result<bool> {
        match self {
            Test::Compare(comparison, constant) => {
                return Ok(comparison.holds(value, constant.as_raw_bson_ref()));
            }
            Test::Member(list) => return list.holds(value),
            _ => {}
        }
        let Some(value) = value else { return Ok(false) };
        match self {
            Test::Compare(..) | Test::Member(_) | Test::Exists => Ok(true),
            Test::Type(types) => Ok(types.has(value)),
            Test::Regex(pattern) => pattern.holds(value),
            Test::Modulo { divisor, remainder } => Ok(numbers::truncated(value)
                .is_some_and(|dividend| dividend.wrapping_rem(*divisor) == *remainder)),
            Test::Bits(bits) => Ok(bits.holds(value)),
            Test::Size(size) => match value {
                RawBsonRef::Array(array) => Ok(array.iter_elements().take(size + 1).count() == *size),
                _ => Ok(false),
            },
            Test::ElementObject(node) => first(value, position, |element| match element {
                RawBsonRef::Document(inner) => node.matches(inner, &mut None),
                // An array counts as a document whose fields are its indexes.
                RawBsonRef::Array(inner) => node.matches(as_document(inner)?, &mut None),
                _ => Ok(false),
            }),
            Test::ElementValue(nodes) => first(value, position, |element| {
                for node in nodes {
                    if !node.holds(element)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }),
        }
    }
}

/// Whether an element of an array passes; sets `position` to the first that does.
fn first<'a>(
    value: RawBsonRef<'a>,
    position: &mut Option<usize>,
    mut passes: impl FnMut(RawBsonRef<'a>) -> Result<bool>,
) -> Result<bool> {
    let RawBsonRef::Array(array) = value else { return Ok(false) };
    for (index, element) in array.into_iter().enumerate() {
        if passes(element.map_err(unreadable)?)? {
            *position = Some(index);
            return Ok(true);
        }
    }
    Ok(false)
}

/// An array's bytes are those of a document whose fields are "0", "1", "2"...
fn as_document(array: &RawArray) -> Result<&RawDocument> {
    RawDocument::from_bytes(array.as_bytes()).map_err(unreadable)
}

impl ExpressionTest {
    /// Whether the expression's value counts as true: neither missing, nor null, nor false, nor zero.
    fn holds(&self, document: &RawDocument) -> Result<bool> {
        use bson::Bson;
        let value = self.expression.evaluate(document, &self.variables)?;
        Ok(match value {
            None
            | Some(Bson::Null | Bson::Undefined | Bson::Boolean(false) | Bson::Int32(0) | Bson::Int64(0)) => {
                false
            }
            Some(Bson::Double(number)) => number != 0.0,
            Some(Bson::Decimal128(number)) => numbers::exact(RawBsonRef::Decimal128(number)) != Some(0),
            Some(_) => true,
        })
    }
}

impl ComparisonOperator {
    /// Whether a value (none: missing) passes against the constant.
    pub(crate) fn holds(self, value: Option<RawBsonRef<'_>>, constant: RawBsonRef<'_>) -> bool {
        let Some(value) = value else {
            return matches!(constant, RawBsonRef::Null) && self.takes(Ordering::Equal);
        };
        if let (RawBsonRef::String(left), RawBsonRef::String(right)) = (value, constant) {
            return match self {
                ComparisonOperator::Equal => left == right,
                _ => self.takes(left.cmp(right)),
            };
        }
        if canonical_type(value) != canonical_type(constant) {
            return match constant {
                RawBsonRef::Null => matches!(value, RawBsonRef::Undefined) && self.takes(Ordering::Equal),
                RawBsonRef::MaxKey => {
                    matches!(self, ComparisonOperator::Less | ComparisonOperator::LessOrEqual)
                }
                RawBsonRef::MinKey => {
                    matches!(self, ComparisonOperator::Greater | ComparisonOperator::GreaterOrEqual)
                }
                _ => false,
            };
        }
        if self != ComparisonOperator::Equal && (is_nan(value) || is_nan(constant)) {
            return is_nan(value) && is_nan(constant) && self.takes(Ordering::Equal);
        }
        self.takes(compare(value, constant))
    }

    /// Whether an ordering of the value relative to the constant satisfies it.
    fn takes(self, order: Ordering) -> bool {
        match self {
            ComparisonOperator::Equal => order.is_eq(),
            ComparisonOperator::Less => order.is_lt(),
            ComparisonOperator::LessOrEqual => order.is_le(),
            ComparisonOperator::Greater => order.is_gt(),
            ComparisonOperator::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl InList {
    /// Whether a value (none: missing) is in the list or matches one of its patterns.
    pub(crate) fn holds(&self, value: Option<RawBsonRef<'_>>) -> Result<bool> {
        let value = match value {
            None | Some(RawBsonRef::Undefined) if self.null => return Ok(true),
            None => return Ok(false),
            Some(value) => value,
        };
        if self.values.binary_search_by(|constant| compare(constant.as_raw_bson_ref(), value)).is_ok() {
            return Ok(true);
        }
        for pattern in &self.patterns {
            if pattern.holds(value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

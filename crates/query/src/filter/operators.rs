//! Parses the operators of one field: `{$gt: 5, $lt: 8}`, with `$in`, `$nin`, `$elemMatch` and `$all`.
//!
//! Unknown operators are refused by name; for those that MongoDB has, the message says that this server lacks them.

use bson::{RawBson, RawBsonRef, RawDocument};

use super::bits::{BitTest, Bits};
use super::numbers;
use super::parse::{FilterLevel, Parser, comparison, is_operators};
use super::pattern::RegexPattern;
use super::tree::{ComparisonOperator, FilterNode, InList, Test, check_depth};
use super::types::TypeSet;
use crate::raw::unreadable;
use crate::{Code, Failure, Result, compare};

/// The names of MongoDB's geographic and other operators that this server lacks.
const LACKING: [&str; 6] =
    ["$geoWithin", "$geoIntersects", "$within", "$maxDistance", "$minDistance", "$text"];

impl Parser<'_> {
    /// Appends a node for each operator of a field.
    pub(super) fn operators(
        self,
        path: &str,
        operators: &RawDocument,
        level: FilterLevel,
        depth: usize,
        nodes: &mut Vec<FilterNode>,
    ) -> Result<()> {
        check_depth(depth)?;
        for element in operators.iter_elements() {
            let element = element.map_err(unreadable)?;
            let argument = element.value().map_err(unreadable)?;
            let name = element.key().as_str();
            nodes.extend(match name {
                "$regex" => Some(FilterNode::field(path, Test::Regex(regex(operators)?))),
                "$options" => {
                    if operators.get("$regex").map_err(unreadable)?.is_none() {
                        return Err(Failure::new(Code::BadValue, "$options needs a $regex"));
                    }
                    None
                }
                "$comment" => None,
                "$not" => Some(self.negated(path, argument, level, depth)?),
                "$elemMatch" => Some(self.element_match(path, argument, depth)?),
                "$all" => Some(self.all_of(path, argument, depth)?),
                _ => Some(leaf(path, name, argument)?),
            });
        }
        Ok(())
    }

    fn negated(
        self,
        path: &str,
        argument: RawBsonRef<'_>,
        level: FilterLevel,
        depth: usize,
    ) -> Result<FilterNode> {
        let mut nodes = Vec::new();
        match argument {
            RawBsonRef::RegularExpression(regex) => {
                nodes.push(FilterNode::field(path, Test::Regex(RegexPattern::from_value(regex)?)));
            }
            RawBsonRef::Document(operators) if operators.is_empty() => {
                return Err(Failure::new(Code::BadValue, "$not cannot be empty"));
            }
            RawBsonRef::Document(operators) => {
                self.operators(path, operators, level, depth + 1, &mut nodes)?;
            }
            _ => return Err(Failure::new(Code::BadValue, "$not needs a regex or a document")),
        }
        Ok(FilterNode::Not(Box::new(FilterNode::all(nodes))))
    }
}

/// An operator whose argument holds no filter of its own.
fn leaf(path: &str, name: &str, argument: RawBsonRef<'_>) -> Result<FilterNode> {
    if let Some(test) = BitTest::from_name(name) {
        return Ok(FilterNode::field(path, Test::Bits(Bits::parse(test, path, argument)?)));
    }
    Ok(match name {
        // With an explicit `$eq`, a regular expression is a value to compare with, not a pattern.
        "$eq" => comparison(path, ComparisonOperator::Equal, argument)?,
        "$ne" => match argument {
            RawBsonRef::RegularExpression(_) => {
                return Err(Failure::new(Code::BadValue, "Can't have regex as arg to $ne."));
            }
            constant => FilterNode::Not(Box::new(comparison(path, ComparisonOperator::Equal, constant)?)),
        },
        "$lt" => comparison(path, ComparisonOperator::Less, argument)?,
        "$lte" => comparison(path, ComparisonOperator::LessOrEqual, argument)?,
        "$gt" => comparison(path, ComparisonOperator::Greater, argument)?,
        "$gte" => comparison(path, ComparisonOperator::GreaterOrEqual, argument)?,
        "$in" => membership(path, name, argument)?,
        "$nin" => FilterNode::Not(Box::new(membership(path, name, argument)?)),
        "$exists" => match is_true(argument) {
            true => FilterNode::field(path, Test::Exists),
            false => FilterNode::Not(Box::new(FilterNode::field(path, Test::Exists))),
        },
        "$type" => FilterNode::field(path, Test::Type(TypeSet::parse(argument)?)),
        "$mod" => modulo(path, argument)?,
        "$size" => FilterNode::field(path, Test::Size(size(argument)?)),
        "$where" => return Err(Failure::new(Code::BadValue, "$where cannot be applied to a field")),
        "$near" | "$nearSphere" | "$geoNear" => {
            let message = "error processing query: planner returned error :: caused by :: unable to find index for $geoNear query: this \
                           server has no geographic indexes";
            return Err(Failure::new(Code(291), message));
        }
        _ if LACKING.contains(&name) => {
            return Err(Failure::new(
                Code::BadValue,
                format!("unknown operator: {name}: this server does not have it"),
            ));
        }
        _ => return Err(Failure::new(Code::BadValue, format!("unknown operator: {name}"))),
    })
}

/// The truth of a value: not false, not null, not zero, not undefined.
fn is_true(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(truth) => truth,
        RawBsonRef::Null | RawBsonRef::Undefined => false,
        RawBsonRef::Double(number) => number != 0.0,
        number if numbers::is_number(number) => numbers::exact(number) != Some(0),
        _ => true,
    }
}

/// `$regex` with its `$options`.
fn regex(operators: &RawDocument) -> Result<RegexPattern> {
    let options = match operators.get("$options").map_err(unreadable)? {
        None => None,
        Some(RawBsonRef::String(options)) => Some(options),
        Some(_) => return Err(Failure::new(Code::BadValue, "$options has to be a string")),
    };
    match operators.get("$regex").map_err(unreadable)? {
        Some(RawBsonRef::String(source)) => RegexPattern::new(source, options.unwrap_or_default()),
        Some(RawBsonRef::RegularExpression(regex)) => match options {
            Some(_) if !regex.options.is_empty() => {
                Err(Failure::new(Code(51075), "options set in both $regex and $options"))
            }
            options => RegexPattern::new(regex.pattern.as_str(), options.unwrap_or(regex.options.as_str())),
        },
        _ => Err(Failure::new(Code::BadValue, "$regex has to be a string")),
    }
}

fn modulo(path: &str, argument: RawBsonRef<'_>) -> Result<FilterNode> {
    let refuse = |why: &str| Failure::new(Code::BadValue, format!("malformed mod, {why}"));
    let RawBsonRef::Array(items) = argument else {
        return Err(refuse("needs to be an array"));
    };
    let mut items = items.into_iter();
    let mut next = || items.next().transpose().map_err(unreadable);
    let divisor = next()?.ok_or_else(|| refuse("not enough elements"))?;
    if !numbers::is_number(divisor) {
        return Err(refuse("divisor not a number"));
    }
    let remainder = next()?.ok_or_else(|| refuse("not enough elements"))?;
    if next()?.is_some() {
        return Err(refuse("too many elements"));
    }
    let divisor = numbers::truncated(divisor).ok_or_else(|| refuse("divisor value is invalid"))?;
    // MongoDB 4.4 takes a remainder that is not a number for 0.
    let remainder = match numbers::is_number(remainder) {
        true => numbers::truncated(remainder).ok_or_else(|| refuse("remainder value is invalid"))?,
        false => 0,
    };
    if divisor == 0 {
        return Err(Failure::new(Code::BadValue, "divisor cannot be 0"));
    }
    Ok(FilterNode::field(path, Test::Modulo { divisor, remainder }))
}

fn size(argument: RawBsonRef<'_>) -> Result<usize> {
    let refuse = |why: &'static str| Failure::new(Code::BadValue, why);
    let number = match argument {
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) => numbers::exact(argument),
        RawBsonRef::Double(_) => {
            Some(numbers::exact(argument).ok_or_else(|| refuse("$size must be a whole number"))?)
        }
        _ => return Err(refuse("$size needs a number")),
    };
    let number = number
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| refuse("$size must be representable as a 32-bit integer"))?;
    usize::try_from(number).map_err(|_| refuse("$size may not be negative"))
}

/// Operators at the level of fields: an `$elemMatch` that begins with one of them is a filter of documents.
const BESIDE_FIELDS: [&str; 9] =
    ["$and", "$or", "$nor", "$where", "$expr", "$text", "$comment", "$jsonSchema", "$alwaysTrue"];

impl Parser<'_> {
    /// `$elemMatch`: a filter of the elements that are documents, or operators on the elements themselves.
    fn element_match(self, path: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<FilterNode> {
        let RawBsonRef::Document(inner) = argument else {
            return Err(Failure::new(Code::BadValue, "$elemMatch needs an Object"));
        };
        let test = if is_of_values(inner)? {
            let mut nodes = Vec::new();
            self.operators("", inner, FilterLevel::Element, depth + 1, &mut nodes)?;
            Test::ElementValue(nodes)
        } else {
            if inner.get("$where").map_err(unreadable)?.is_some() {
                return Err(Failure::new(Code::BadValue, "$elemMatch cannot contain $where expression"));
            }
            Test::ElementObject(Box::new(self.filter(inner, FilterLevel::Element, depth + 1)?))
        };
        Ok(FilterNode::field(path, test))
    }

    /// `$all`: each of a list of values, patterns or `$elemMatch`es.
    pub(super) fn all_of(self, path: &str, argument: RawBsonRef<'_>, depth: usize) -> Result<FilterNode> {
        let RawBsonRef::Array(items) = argument else {
            return Err(Failure::new(Code::BadValue, "$all needs an array"));
        };
        let mut nodes = Vec::new();
        let mut elements = None;
        for item in items {
            let item = item.map_err(unreadable)?;
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
                    FilterNode::field(path, Test::Regex(RegexPattern::from_value(regex)?))
                }
                (value, _) => comparison(path, ComparisonOperator::Equal, value)?,
            });
        }
        Ok(if nodes.is_empty() { FilterNode::Always(false) } else { FilterNode::all(nodes) })
    }
}

/// The argument of an item `{$elemMatch: ...}`.
fn element_argument(item: RawBsonRef<'_>) -> Result<Option<RawBsonRef<'_>>> {
    let RawBsonRef::Document(document) = item else { return Ok(None) };
    let Some(first) = document.iter_elements().next() else { return Ok(None) };
    let first = first.map_err(unreadable)?;
    if first.key().as_str() != "$elemMatch" {
        return Ok(None);
    }
    first.value().map(Some).map_err(unreadable)
}

/// Whether the argument of `$elemMatch` is a list of operators on the elements themselves; one that looks like a reference
/// (`$ref`, `$id`, `$db`) is a document to match.
fn is_of_values(argument: &RawDocument) -> Result<bool> {
    let Some(first) = argument.iter_elements().next() else { return Ok(false) };
    let first = first.map_err(unreadable)?.key().as_str();
    if !first.starts_with('$') || BESIDE_FIELDS.contains(&first) {
        return Ok(false);
    }
    for element in argument.iter_elements() {
        if matches!(element.map_err(unreadable)?.key().as_str(), "$ref" | "$id" | "$db") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `$in` with a list of values and patterns, sorted for search. A list of one item becomes the test of that item.
fn membership(path: &str, name: &str, argument: RawBsonRef<'_>) -> Result<FilterNode> {
    let RawBsonRef::Array(items) = argument else {
        return Err(Failure::new(Code::BadValue, format!("{name} needs an array")));
    };
    let mut list = InList::default();
    for item in items {
        match item.map_err(unreadable)? {
            RawBsonRef::Document(document) if is_operators(document)? => {
                return Err(Failure::new(Code::BadValue, "cannot nest $ under $in"));
            }
            RawBsonRef::Undefined => {
                return Err(Failure::new(Code::BadValue, "InMatchExpression equality cannot be undefined"));
            }
            RawBsonRef::RegularExpression(regex) => list.patterns.push(RegexPattern::from_value(regex)?),
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
        (0, 0) => return Ok(FilterNode::Always(false)),
        (1, 0) => list.values.pop().map(|value| Test::Compare(ComparisonOperator::Equal, value)),
        (0, 1) => list.patterns.pop().map(Test::Regex),
        _ => None,
    };
    Ok(FilterNode::field(path, test.unwrap_or(Test::Member(list))))
}

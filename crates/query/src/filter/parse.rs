//! Parses a filter document into a tree: the fields and the operators at their level (`$and`, `$or`, `$expr`...).
//! It refuses unknown operators by name, nesting beyond a limit, and paths of too many components.

use bson::{Bson, RawBsonRef, RawDocument};

use super::schema::Schema;
use super::tree::{ComparisonOperator, ExpressionTest, FilterNode, Test, check_depth};
use super::{numbers, pattern::RegexPattern};
use crate::raw::unreadable;
use crate::{Code, Expression, Failure, Result, Variables};

/// The most components of a dotted path, which is the depth to which documents nest.
const MAX_PATH_COMPONENTS: usize = 200;

/// The subject of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterLevel {
    Document,
    /// Elements of an array, in `$elemMatch`.
    Element,
}

/// Reads filters for one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parser<'v> {
    variables: &'v Variables,
}

impl<'v> Parser<'v> {
    /// A parser whose `$expr` expressions see these variables.
    pub(super) fn new(variables: &'v Variables) -> Self {
        Parser { variables }
    }

    /// A filter document; `depth` counts the operators around it.
    pub(super) fn filter(self, filter: &RawDocument, level: FilterLevel, depth: usize) -> Result<FilterNode> {
        check_depth(depth)?;
        let mut nodes = Vec::new();
        for element in filter.iter_elements() {
            let element = element.map_err(unreadable)?;
            let value = element.value().map_err(unreadable)?;
            let name = element.key().as_str();
            if name.starts_with('$') {
                nodes.extend(self.beside_fields(name, value, level, depth)?);
                continue;
            }
            check_path(name)?;
            match value {
                RawBsonRef::Document(operators) if is_operators(operators)? => {
                    self.operators(name, operators, level, depth, &mut nodes)?;
                }
                RawBsonRef::RegularExpression(regex) => {
                    nodes.push(FilterNode::field(name, Test::Regex(RegexPattern::from_value(regex)?)));
                }
                constant => nodes.push(comparison(name, ComparisonOperator::Equal, constant)?),
            }
        }
        Ok(FilterNode::all(nodes))
    }

    /// An operator at the position of a field; `None` for `$comment`.
    fn beside_fields(
        self,
        name: &str,
        argument: RawBsonRef<'_>,
        level: FilterLevel,
        depth: usize,
    ) -> Result<Option<FilterNode>> {
        Ok(Some(match name {
            "$and" => FilterNode::all(self.branches(name, argument, level, depth)?),
            "$or" => {
                let mut branches = self.branches(name, argument, level, depth)?;
                match branches.len() {
                    1 => branches.pop().unwrap_or(FilterNode::Always(true)),
                    _ => FilterNode::Or(branches),
                }
            }
            "$nor" => FilterNode::Nor(self.branches(name, argument, level, depth)?),
            "$comment" => return Ok(None),
            "$expr" => self.computed(argument, level)?,
            "$jsonSchema" => match argument {
                RawBsonRef::Document(schema) => FilterNode::Schema(Box::new(Schema::parse(schema)?)),
                _ => return Err(Failure::new(Code::TypeMismatch, "$jsonSchema must be an object")),
            },
            "$alwaysTrue" | "$alwaysFalse" => {
                if numbers::exact(argument) != Some(1) {
                    return Err(Failure::new(
                        Code::FailedToParse,
                        format!("{name} must be an integer value of 1"),
                    ));
                }
                FilterNode::Always(name == "$alwaysTrue")
            }
            "$text" => {
                let message = "text index required for $text query: this server has no text indexes";
                return Err(Failure::new(Code::IndexNotFound, message));
            }
            "$where" | "$sampleRate" => {
                return Err(Failure::new(
                    Code::BadValue,
                    format!("unknown top level operator: {name}: this server does not have it"),
                ));
            }
            _ => return Err(Failure::new(Code::BadValue, format!("unknown top level operator: {name}"))),
        }))
    }

    fn branches(
        self,
        name: &str,
        argument: RawBsonRef<'_>,
        level: FilterLevel,
        depth: usize,
    ) -> Result<Vec<FilterNode>> {
        let RawBsonRef::Array(items) = argument else {
            return Err(Failure::new(Code::BadValue, format!("{name} must be an array")));
        };
        let mut nodes = Vec::new();
        for item in items {
            match item.map_err(unreadable)? {
                RawBsonRef::Document(branch) => nodes.push(self.filter(branch, level, depth + 1)?),
                _ => {
                    let message = "$or/$and/$nor entries need to be full objects";
                    return Err(Failure::new(Code::BadValue, message));
                }
            }
        }
        if nodes.is_empty() {
            return Err(Failure::new(Code::BadValue, "$and/$or/$nor must be a nonempty array"));
        }
        Ok(nodes)
    }

    fn computed(self, argument: RawBsonRef<'_>, level: FilterLevel) -> Result<FilterNode> {
        if level == FilterLevel::Element {
            return Err(Failure::new(Code::BadValue, "$expr can only be applied to the top-level document"));
        }
        Ok(FilterNode::Computed(Box::new(ExpressionTest {
            expression: Expression::parse(argument)?,
            source: argument.into(),
            variables: self.variables.clone(),
        })))
    }
}

/// Refuses paths of too many components.
fn check_path(path: &str) -> Result<()> {
    if path.bytes().filter(|byte| *byte == b'.').count() >= MAX_PATH_COMPONENTS {
        return Err(Failure::new(
            Code::Overflow,
            format!("Field path in a filter has more than {MAX_PATH_COMPONENTS} components"),
        ));
    }
    Ok(())
}

/// A comparison with a constant. Regular expressions only compare by `$eq`, and there they match.
pub(super) fn comparison(
    path: &str,
    comparison: ComparisonOperator,
    constant: RawBsonRef<'_>,
) -> Result<FilterNode> {
    match constant {
        RawBsonRef::Undefined => Err(Failure::new(Code::BadValue, "cannot compare to undefined")),
        RawBsonRef::RegularExpression(_) if comparison != ComparisonOperator::Equal => Err(Failure::new(
            Code::BadValue,
            format!("Can't have RegEx as arg to predicate over field '{path}'."),
        )),
        constant => Ok(FilterNode::field(path, Test::Compare(comparison, constant.into()))),
    }
}

/// Whether a document is a list of operators: its first field begins with a dollar, and it is no DBRef.
pub(super) fn is_operators(document: &RawDocument) -> Result<bool> {
    let Some(first) = document.iter_elements().next() else { return Ok(false) };
    if !first.map_err(unreadable)?.key().as_str().starts_with('$') {
        return Ok(false);
    }
    let mut reference = false;
    let mut id = false;
    for element in document.iter_elements() {
        match element.map_err(unreadable)?.key().as_str() {
            "$ref" => reference = true,
            "$id" => id = true,
            _ => {}
        }
    }
    Ok(!(reference && id))
}

/// The value of a filter that is exactly `{_id: <value>}` or `{_id: {$eq: <value>}}`, if it means that one key.
pub(super) fn only_id(filter: &RawDocument) -> Result<Option<Bson>> {
    let Some(value) = only_field(filter, "_id")? else { return Ok(None) };
    let value = match value {
        RawBsonRef::Document(document) if is_operators(document)? => match only_field(document, "$eq")? {
            Some(constant) => constant,
            None => return Ok(None),
        },
        other => other,
    };
    match value {
        RawBsonRef::Array(_)
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::Null
        | RawBsonRef::Undefined => Ok(None),
        value => Bson::try_from(value).map(Some).map_err(unreadable),
    }
}

/// The value of a document's only field, if that is its name.
fn only_field<'a>(document: &'a RawDocument, name: &str) -> Result<Option<RawBsonRef<'a>>> {
    let mut elements = document.iter_elements();
    let Some(first) = elements.next() else { return Ok(None) };
    let first = first.map_err(unreadable)?;
    if first.key().as_str() != name || elements.next().is_some() {
        return Ok(None);
    }
    first.value().map(Some).map_err(unreadable)
}

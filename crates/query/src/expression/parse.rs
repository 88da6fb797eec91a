//! Parses BSON into the tree of an expression.
//!
//! Variable names are resolved here, so that evaluation looks up names only for the command's `let`.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::node::ExpressionNode;
use super::operators::{self, Form};
use super::path::{self, Path, PathBase};
use super::show::show;
use super::value::{MAX_DEPTH, OperatorSignature, Value, decode, malformed, too_deep, type_name};
use crate::{Code, Failure, Result, Variables};

pub(super) struct Parser<'p> {
    /// The command's variables; `None` if they are known only later.
    variables: Option<&'p Variables>,
    /// Names that operators bind, outermost first.
    scopes: Vec<Vec<String>>,
    depth: usize,
}

impl<'p> Parser<'p> {
    pub(super) fn new(variables: Option<&'p Variables>) -> Self {
        Parser { variables, scopes: Vec::new(), depth: 0 }
    }

    /// Parses any expression: a path, an operator, an object or array of expressions, or a constant.
    pub(super) fn operand(&mut self, expression: RawBsonRef<'_>) -> Result<ExpressionNode> {
        match expression {
            RawBsonRef::String(text) if text.starts_with('$') => self.path(text),
            RawBsonRef::Document(document) => self.deeper(|parser| parser.object(document)),
            RawBsonRef::Array(array) => self.deeper(|parser| parser.list(array).map(ExpressionNode::Array)),
            other => Ok(ExpressionNode::Constant(decode(other)?)),
        }
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Result<ExpressionNode>) -> Result<ExpressionNode> {
        if self.depth >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.depth += 1;
        let node = parse(self);
        self.depth -= 1;
        node
    }

    /// The expressions of an array.
    pub(super) fn list(&mut self, array: &RawArray) -> Result<Vec<ExpressionNode>> {
        let mut nodes = Vec::new();
        for item in array {
            nodes.push(self.operand(item.map_err(malformed)?)?);
        }
        Ok(nodes)
    }

    fn object(&mut self, document: &RawDocument) -> Result<ExpressionNode> {
        let mut fields = Vec::new();
        for (index, element) in document.iter().enumerate() {
            let (name, value) = element.map_err(malformed)?;
            let name = name.as_str();
            if name.starts_with('$') {
                if index > 0 {
                    return Err(Failure::new(Code(16410), "FieldPath field names may not start with '$'."));
                }
                if document.iter().nth(1).is_some() {
                    let shown = show(&Value::Raw(RawBsonRef::Document(document)));
                    let message =
                        format!("an object representing an expression must have exactly one field: {shown}");
                    return Err(Failure::new(Code(15983), message));
                }
                return self.operator(name, value);
            }
            if name.is_empty() {
                return Err(Failure::new(Code(15998), "FieldPath field names may not be empty strings."));
            }
            if name.contains('.') {
                return Err(Failure::new(Code(16412), "FieldPath field names may not contain '.'."));
            }
            fields.push((name.to_owned(), self.operand(value)?));
        }
        Ok(ExpressionNode::Object(fields))
    }

    fn operator(&mut self, name: &str, value: RawBsonRef<'_>) -> Result<ExpressionNode> {
        let Some((name, form)) = operators::find(name) else {
            return Err(Failure::new(
                Code::InvalidPipelineOperator,
                format!("Unrecognized expression '{name}'"),
            ));
        };
        match form {
            Form::One(apply) => {
                let [argument] = self.exactly(name, value)?;
                Ok(ExpressionNode::One(name, *apply, Box::new(argument)))
            }
            Form::Two(apply) => Ok(ExpressionNode::Two(name, *apply, Box::new(self.exactly(name, value)?))),
            Form::Many(least, most, apply) => {
                let arguments = self.arguments(value)?;
                check_count(name, arguments.len(), *least, *most)?;
                Ok(ExpressionNode::Many(name, *apply, arguments))
            }
            Form::Named(signature, apply) => {
                Ok(ExpressionNode::Named(name, *apply, self.named(name, signature, value)?))
            }
            Form::Special(parse) => parse(self, name, value),
            Form::Refused(why) => {
                Err(Failure::new(Code::CommandNotSupported, format!("{name} is not in this server: {why}")))
            }
        }
    }

    /// Parses exactly `N` arguments: an array of them, or a single one itself.
    pub(super) fn exactly<const N: usize>(
        &mut self,
        name: &str,
        value: RawBsonRef<'_>,
    ) -> Result<[ExpressionNode; N]> {
        let arguments = self.arguments(value)?;
        let passed = arguments.len();
        arguments.try_into().map_err(|_| wrong_count(name, N, passed))
    }

    /// Parses the arguments of an operator: an array of them, or a single one itself.
    pub(super) fn arguments(&mut self, value: RawBsonRef<'_>) -> Result<Vec<ExpressionNode>> {
        match value {
            RawBsonRef::Array(array) => self.list(array),
            other => Ok(vec![self.operand(other)?]),
        }
    }

    /// Named arguments, in the signature's order.
    pub(super) fn named(
        &mut self,
        name: &str,
        signature: &OperatorSignature,
        value: RawBsonRef<'_>,
    ) -> Result<Vec<Option<ExpressionNode>>> {
        let raw = self.members(name, signature, value)?;
        raw.into_iter().map(|value| value.map(|value| self.operand(value)).transpose()).collect()
    }

    /// The members of an operator's object in the signature's order, not yet parsed.
    pub(super) fn members<'v>(
        &self,
        name: &str,
        signature: &OperatorSignature,
        value: RawBsonRef<'v>,
    ) -> Result<Vec<Option<RawBsonRef<'v>>>> {
        let RawBsonRef::Document(document) = value else {
            let found = type_name(value.element_type());
            return Err(Failure::new(
                Code(signature.not_object),
                format!("{name} only supports an object as its argument, found {found}"),
            ));
        };
        let mut members = vec![None; signature.members.len()];
        for element in document.iter() {
            let (key, value) = element.map_err(malformed)?;
            let place = signature.members.iter().position(|(member, _)| *member == key.as_str());
            match place.and_then(|place| members.get_mut(place)) {
                Some(member) => *member = Some(value),
                None => {
                    return Err(Failure::new(
                        Code(signature.unknown),
                        format!("{name} found an unknown argument: {key}"),
                    ));
                }
            }
        }
        for ((member, missing), given) in signature.members.iter().zip(&members) {
            if let (Some(code), None) = (missing, given) {
                return Err(Failure::new(Code(*code), format!("Missing '{member}' parameter to {name}")));
            }
        }
        Ok(members)
    }

    /// Parses with further names bound.
    pub(super) fn bound(&mut self, names: Vec<String>, expression: RawBsonRef<'_>) -> Result<ExpressionNode> {
        self.scopes.push(names);
        let node = self.operand(expression);
        self.scopes.pop();
        node
    }

    fn path(&self, text: &str) -> Result<ExpressionNode> {
        let Some(rest) = text.strip_prefix("$$") else {
            let path = text.get(1..).unwrap_or_default();
            if path.is_empty() {
                return Err(Failure::new(Code(16872), "'$' by itself is not a valid FieldPath"));
            }
            let base = self.slot("CURRENT").unwrap_or(PathBase::Root);
            return Ok(ExpressionNode::Path(Path { base, fields: path::split(path)? }));
        };
        let (name, path) = rest.split_once('.').map_or((rest, None), |(name, path)| (name, Some(path)));
        let base = self.variable(name)?;
        let fields = path.map(path::split).transpose()?.unwrap_or_default();
        Ok(ExpressionNode::Path(Path { base, fields }))
    }

    fn slot(&self, name: &str) -> Option<PathBase> {
        self.scopes.iter().rev().enumerate().find_map(|(up, scope)| {
            scope.iter().rposition(|bound| bound == name).map(|index| PathBase::Slot { up, index })
        })
    }

    fn variable(&self, name: &str) -> Result<PathBase> {
        if let Some(slot) = self.slot(name) {
            return Ok(slot);
        }
        match name {
            "ROOT" | "CURRENT" => return Ok(PathBase::Root),
            "NOW" => return Ok(PathBase::Now),
            "REMOVE" => return Ok(PathBase::Remove),
            "CLUSTER_TIME" | "SEARCH_META" | "USER_ROLES" => {
                return Err(Failure::new(
                    Code(51144),
                    format!("Builtin variable '$${name}' is not available"),
                ));
            }
            _ => {}
        }
        // $redact passes its three answers as variables, in capitals; a client cannot bind such names.
        if self.variables.is_some_and(|variables| variables.get(name).is_some()) {
            return Ok(PathBase::Named(name.to_owned()));
        }
        check_variable_name(name)?;
        if self.variables.is_some() {
            return Err(path::undefined(name));
        }
        Ok(PathBase::Named(name.to_owned()))
    }
}

/// Refuses a name that no variable can have.
fn check_variable_name(name: &str) -> Result<()> {
    let Some(first) = name.chars().next() else {
        return Err(Failure::new(Code(16869), "empty variable names are not allowed"));
    };
    if first.is_ascii() && !first.is_ascii_alphabetic() {
        let message = format!("'{name}' starts with an invalid character for a variable name");
        return Err(Failure::new(Code(16870), message));
    }
    check_characters(name, 16871)
}

/// Refuses a name that a user may not bind: it begins with a small letter, or it is `CURRENT`.
pub(super) fn check_bound_name(name: &str) -> Result<()> {
    if name == "CURRENT" {
        return Ok(());
    }
    let Some(first) = name.chars().next() else {
        return Err(Failure::new(Code(16866), "empty variable names are not allowed"));
    };
    if first.is_ascii() && !first.is_ascii_lowercase() {
        let message = format!("'{name}' starts with an invalid character for a user variable name");
        return Err(Failure::new(Code(16867), message));
    }
    check_characters(name, 16868)
}

fn check_characters(name: &str, code: i32) -> Result<()> {
    let bad = name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_');
    match bad {
        Some(bad) => {
            let message = format!("'{name}' contains an invalid character for a variable name: '{bad}'");
            Err(Failure::new(Code(code), message))
        }
        None => Ok(()),
    }
}

fn wrong_count(name: &str, expected: usize, passed: usize) -> Failure {
    let message = format!("Expression {name} takes exactly {expected} arguments. {passed} were passed in.");
    Failure::new(Code(16020), message)
}

pub(super) fn check_count(name: &str, passed: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&passed) {
        return Ok(());
    }
    if least == most {
        return Err(wrong_count(name, least, passed));
    }
    let most = if most == usize::MAX { "any number".to_owned() } else { most.to_string() };
    let message = format!(
        "Expression {name} takes at least {least} arguments, and at most {most}, but {passed} were passed in."
    );
    Err(Failure::new(Code(28667), message))
}

/// Parses a constant in a place where the grammar requires one.
pub(super) fn literal(_: &mut Parser<'_>, _: &'static str, value: RawBsonRef<'_>) -> Result<ExpressionNode> {
    Ok(ExpressionNode::Constant(decode(value)?))
}

/// The text of a member that must be a plain string, such as `as`.
pub(super) fn text<'v>(value: RawBsonRef<'v>, what: &str) -> Result<&'v str> {
    value.as_str().ok_or_else(|| Failure::new(Code::TypeMismatch, format!("{what} must be a string")))
}

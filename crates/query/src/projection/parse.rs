//! Parses a projection document into its tree.
use super::tree::{Child, ProjectionNode, Slice, check_path};
use super::{Dialect, Projection};
use crate::raw::{Builder, Element, Elements, Value, kind, malformed};
use crate::{Code, Expression, Failure, Filter, Result, Variables, to_f64};
use bson::RawDocument;
use std::sync::OnceLock;

impl Projection {
    /// Parses a projection document; an empty one keeps everything (`None`).
    pub fn parse(
        projection: &RawDocument,
        dialect: Dialect,
        variables: &Variables,
    ) -> Result<Option<Projection>> {
        if projection.is_empty() {
            return Ok(None);
        }
        if let Some(plain) = plain(projection) {
            return Ok(Some(plain));
        }
        self::projection(projection, dialect, variables).map(Some)
    }
}

struct Parser<'v> {
    dialect: Dialect,
    variables: &'v Variables,
    root: ProjectionNode,
    /// Whether it includes; `None` until a field decides. `_id` alone does not.
    inclusive: Option<bool>,
    id_included: Option<bool>,
    /// Whether a path through `_id` is named, so that `_id` is not added by default.
    id_named: bool,
    position: Option<String>,
    sliced: bool,
    first: bool,
}

pub(super) fn projection(
    projection: &RawDocument,
    dialect: Dialect,
    variables: &Variables,
) -> Result<Projection> {
    let mut parser = Parser {
        dialect,
        variables,
        root: ProjectionNode::new(),
        inclusive: None,
        id_included: None,
        id_named: false,
        position: None,
        sliced: false,
        first: false,
    };
    for field in Elements::new(projection.as_bytes())? {
        let field = field?;
        let name = field.name_text()?;
        parser.id_named |= name == "_id" || name.starts_with("_id.");
        parser.field(name, &field, true)?;
    }
    parser.finish()
}

/// A projection that only names top-level fields, all to be kept or all to be left out, except for `_id`. Most
/// are of this kind, and one is parsed for each query. `None` for every other one, and for invalid ones.
pub(super) fn plain(projection: &RawDocument) -> Option<Projection> {
    let mut root = ProjectionNode::new();
    let (mut inclusive, mut id_included) = (None, None);
    for field in Elements::new(projection.as_bytes()).ok()? {
        let field = field.ok()?;
        if !matches!(field.kind, kind::BOOLEAN | kind::INT32) {
            return None;
        }
        let included = field.value.iter().any(|byte| *byte != 0);
        if field.name == b"_id" {
            if id_included.replace(included).is_some() {
                return None;
            }
            continue;
        }
        if *inclusive.get_or_insert(included) != included || !root.name(field.name) {
            return None;
        }
    }
    let inclusive = inclusive.or(id_included)?;
    // Both kinds keep `_id` unless it is left out explicitly.
    if id_included.unwrap_or(true) == inclusive && !root.name(b"_id") {
        return None;
    }
    Some(Projection { root, inclusive, position: None, paths: OnceLock::new() })
}

fn refused<T>(code: i32, message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Failure::new(Code(code), message))
}

impl Parser<'_> {
    fn finish(mut self) -> Result<Projection> {
        // If no field is kept or left out, the others decide, as `find` has always done.
        let inclusive = self.inclusive.unwrap_or(match (self.sliced, self.first) {
            (true, _) => self.id_included == Some(true),
            (false, true) => true,
            (false, false) => self.id_included == Some(true),
        });
        if inclusive && !self.id_named {
            self.root.insert("_id", Child::Named)?;
        }
        if inclusive == (self.id_included == Some(false)) && self.id_included.is_some() {
            // `_id` is an exception to the rule, so it is not one of the names.
            self.root.remove("_id");
        }
        Ok(Projection { root: self.root, inclusive, position: self.position, paths: OnceLock::new() })
    }

    /// One field of the projection, or of a document within it; `path` is its whole path.
    fn field(&mut self, path: &str, field: &Element<'_>, top: bool) -> Result<()> {
        // Most have no `$`, and a search for more than one byte costs more to begin.
        let positional = path.contains('$') && (path.ends_with(".$") || path.contains(".$.") || path == "$");
        if positional && self.dialect == Dialect::Aggregate {
            return refused(31324, "Cannot use positional projection in aggregation projection");
        }
        match field.kind {
            kind::DOCUMENT if positional => {
                refused(31271, "positional projection cannot be used with an expression or sub object")
            }
            kind::DOCUMENT => self.document(path, field, top),
            kind::BOOLEAN | kind::INT32 | kind::INT64 | kind::DOUBLE | kind::DECIMAL => {
                match is_true(field)? {
                    true if positional => self.positional(path),
                    true => self.keep(path, top),
                    false => self.leave_out(path, top),
                }
            }
            _ if positional => refused(31308, "positional projection cannot be used with a literal"),
            _ => {
                if self.inclusive == Some(false) {
                    let text = crate::update::element_text(field)?;
                    return refused(
                        31310,
                        format!("Cannot use an expression {text} in an exclusion projection"),
                    );
                }
                self.computed(path, field)
            }
        }
    }

    fn keep(&mut self, path: &str, top: bool) -> Result<()> {
        check_path(path)?;
        self.root.insert(path, Child::Named)?;
        if top && path == "_id" {
            self.id_included = Some(true);
            return Ok(());
        }
        if self.inclusive == Some(false) {
            return refused(31253, format!("Cannot do inclusion on field {path} in exclusion projection"));
        }
        self.inclusive = Some(true);
        Ok(())
    }

    fn leave_out(&mut self, path: &str, top: bool) -> Result<()> {
        check_path(path)?;
        self.root.insert(path, Child::Named)?;
        if top && path == "_id" {
            self.id_included = Some(false);
            return Ok(());
        }
        if self.inclusive == Some(true) {
            return refused(31254, format!("Cannot do exclusion on field {path} in inclusion projection"));
        }
        self.inclusive = Some(false);
        Ok(())
    }

    fn positional(&mut self, path: &str) -> Result<()> {
        if self.position.is_some() {
            return refused(31276, "Cannot specify more than one positional projection per query.");
        }
        if self.first {
            return refused(31256, "Cannot specify positional operator and $elemMatch.");
        }
        let Some(array) = path.strip_suffix(".$").filter(|array| !array.contains(".$")) else {
            return refused(
                31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a path. Positional projection may only be used at the end, for example: a.b.$.",
            );
        };
        check_path(array)?;
        self.root.insert(array, Child::Named)?;
        if self.inclusive == Some(false) {
            return refused(31395, "positional projection cannot be used with exclusion");
        }
        self.inclusive = Some(true);
        self.position = Some(array.to_string());
        Ok(())
    }

    fn computed(&mut self, path: &str, field: &Element<'_>) -> Result<()> {
        check_path(path)?;
        let value = Value::from_element(field)?;
        let expression = Expression::parse_with(value.view()?, self.variables)?;
        self.inclusive = Some(true);
        self.root.insert(path, Child::Computed(Box::new(expression)))
    }

    /// A document: an operator with its argument, or fields of the field.
    fn document(&mut self, path: &str, field: &Element<'_>, top: bool) -> Result<()> {
        let mut fields = Elements::new(field.value)?;
        let Some(first) = fields.next().transpose()? else {
            return refused(
                51270,
                "An empty sub-projection is not a valid value. Found empty object at path",
            );
        };
        if first.name.first() != Some(&b'$') {
            check_path(path)?;
            for inner in Elements::new(field.value)? {
                let inner = inner?;
                self.field(&format!("{path}.{}", inner.name_text()?), &inner, false)?;
            }
            return Ok(());
        }
        match (self.dialect, first.name) {
            (Dialect::Find, b"$slice") if is_find_slice(&first)? => {
                check_path(path)?;
                self.sliced = true;
                self.root.insert(path, Child::Slice(Box::new(slice(&first)?)))
            }
            (Dialect::Find, b"$elemMatch") => self.elem_match(path, field, &first, top),
            (Dialect::Find, b"$meta") => {
                let message = "The projection operator $meta is not supported";
                Err(Failure::new(Code::CommandNotSupported, message))
            }
            (Dialect::Aggregate, b"$elemMatch") => {
                Err(Failure::new(Code::InvalidPipelineOperator, "Cannot use $elemMatch in this context"))
            }
            _ if self.inclusive == Some(false) => {
                refused(31252, "Cannot use expression other than $meta in exclusion projection")
            }
            _ => self.computed(path, field),
        }
    }

    fn elem_match(
        &mut self,
        path: &str,
        field: &Element<'_>,
        condition: &Element<'_>,
        top: bool,
    ) -> Result<()> {
        if condition.kind != kind::DOCUMENT {
            let found = crate::update::type_name(condition.kind);
            return refused(31274, format!("elemMatch: Invalid argument, object required, but got {found}"));
        }
        if self.position.is_some() {
            return refused(31255, "Cannot specify positional operator and $elemMatch.");
        }
        if !top || path.contains('.') {
            return refused(31275, "Cannot use $elemMatch projection on a nested field.");
        }
        check_path(path)?;
        let mut filter = Builder::with_capacity(field.whole.len() + 8);
        filter.push(kind::DOCUMENT, path.as_bytes(), field.value);
        let filter = filter.finish();
        let filter = RawDocument::from_bytes(&filter).map_err(|_| malformed("a condition"))?;
        let filter = Filter::parse(filter, self.variables)?;
        self.first = true;
        self.root.insert(path, Child::First(Box::new(filter)))
    }
}

fn is_true(field: &Element<'_>) -> Result<bool> {
    match field.kind {
        kind::BOOLEAN | kind::INT32 | kind::INT64 => Ok(field.value.iter().any(|byte| *byte != 0)),
        // A value that is not a number is not zero.
        _ => Ok(to_f64(&Value::from_element(field)?.to_bson()?) != Some(0.0)),
    }
}

/// Whether the argument is of `find`'s form; an array that begins with something else is the expression's.
fn is_find_slice(slice: &Element<'_>) -> Result<bool> {
    if slice.kind != kind::ARRAY {
        return Ok(true);
    }
    let first = Elements::new(slice.value)?.next().transpose()?;
    Ok(first.is_none_or(|first| is_number(&first)))
}

fn is_number(element: &Element<'_>) -> bool {
    matches!(element.kind, kind::INT32 | kind::INT64 | kind::DOUBLE | kind::DECIMAL)
}

fn slice(argument: &Element<'_>) -> Result<Slice> {
    let number = |element: &Element<'_>| -> Result<i32> {
        // The cast saturates, as is intended for counts beyond 32 bits.
        Ok(to_f64(&Value::from_element(element)?.to_bson()?).unwrap_or_default() as i32)
    };
    if is_number(argument) {
        return Ok(Slice { skip: None, limit: number(argument)? });
    }
    if argument.kind != kind::ARRAY {
        return refused(31273, "$slice only supports numbers and [skip, limit] arrays");
    }
    let parts: Vec<Element<'_>> = Elements::new(argument.value)?.collect::<Result<_>>()?;
    let [skip, limit] = parts.as_slice() else {
        return refused(31272, "$slice array argument should be of form [skip, limit]");
    };
    if !is_number(limit) {
        let found = crate::update::type_name(limit.kind);
        return refused(31258, format!("$slice expects the limit argument to be a number, got {found}"));
    }
    let limit = number(limit)?;
    if limit <= 0 {
        return refused(31259, format!("$slice limit must be positive, got {limit}"));
    }
    Ok(Slice { skip: Some(number(skip)?), limit })
}

//! The stages `$group` and `$sortByCount`, which is a group with a sort.
//!
//! Groups are returned in the order in which they were first seen. Equal numbers of different types are in the same group.

use std::collections::{BTreeSet, HashMap};

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};

use super::context::{Rows, StageContext, StageMemory, sized};
use super::parse::{StageLimits, kind, object, refused};
use super::selection::SortStage;
use super::stages::Stage;
use crate::expression::value::{Value, append, malformed, measure};
use crate::expression::{Accumulator, AccumulatorKind, canonical};
use crate::{Expression, Result, Sort, Variables};

/// The memory of a new group in addition to its key and values.
const GROUP_BYTES: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Group {
    id: Expression,
    fields: Vec<Field>,
}

/// One computed field of a group.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    kind: AccumulatorKind,
    expression: Expression,
}

/// `$group: {_id: expression, field: {accumulator: expression}}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 15947, "a group's fields must be specified in an object")?;
    let mut id = None;
    let mut fields = Vec::new();
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        if name.as_str() == "_id" {
            if id.is_some() {
                return refused(15948, "a group's _id may only be specified once");
            }
            id = Some(Expression::parse_with(value, limits.variables)?);
        } else {
            fields.push(Field::parse(name.as_str(), value, limits)?);
        }
    }
    let Some(id) = id else { return refused(15955, "a group specification must include an _id") };
    Ok(vec![Stage::Group(Group { id, fields })])
}

impl Field {
    /// An accumulator, as `field: {accumulator: expression}`.
    pub(super) fn parse(name: &str, value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Field> {
        if name.contains('.') {
            return refused(40235, format!("The field name '{name}' cannot contain '.'"));
        }
        if name.starts_with('$') {
            return refused(40236, format!("The field name '{name}' cannot be an operator name"));
        }
        let document = match value {
            RawBsonRef::Document(document) if !document.is_empty() => document,
            _ => return refused(40234, format!("The field '{name}' must be an accumulator object")),
        };
        let mut elements = document.iter();
        let first = elements.next().transpose().map_err(malformed)?;
        let (Some((operator, argument)), None) = (first, elements.next()) else {
            return refused(40238, format!("The field '{name}' must specify one accumulator"));
        };
        if operator.as_str() == "$accumulator" {
            let message = "$accumulator is not in this server: it runs no JavaScript";
            return refused(crate::Code::CommandNotSupported.0, message);
        }
        let Some(kind) = AccumulatorKind::parse(operator.as_str()) else {
            return refused(15952, format!("unknown group operator '{operator}'"));
        };
        if let RawBsonRef::Array(_) = argument {
            return refused(40237, format!("The {operator} accumulator is a unary operator"));
        }
        let expression = Expression::parse_with(argument, limits.variables)?;
        Ok(Field { name: name.to_owned(), kind, expression })
    }

    /// `{count: {$sum: 1}}`, the default of several stages.
    pub(super) fn count(limits: &StageLimits<'_>) -> Result<Field> {
        Field::parse("count", RawBsonRef::Document(&rawdoc! { "$sum": 1 }), limits)
    }
}

/// The stage `$sortByCount: expression`.
pub(super) fn parse_sort_by_count(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    match value {
        RawBsonRef::Document(document) => {
            let first = document.iter().next().transpose().map_err(malformed)?;
            if !first.is_some_and(|(name, _)| name.as_str().starts_with('$')) {
                return refused(
                    40147,
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
                );
            }
        }
        RawBsonRef::String(path) if path.starts_with('$') => {}
        RawBsonRef::String(_) => {
            return refused(
                40148,
                "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
            );
        }
        other => {
            let message = format!(
                "the sortByCount field must be specified as a string or as an object, not {}",
                kind(other)
            );
            return refused(40149, message);
        }
    }
    let id = Expression::parse_with(value, limits.variables)?;
    let group = Group { id, fields: vec![Field::count(limits)?] };
    let sort = SortStage { sort: Sort { fields: vec![("count".to_owned(), true)] }, limit: None };
    Ok(vec![Stage::Group(group), Stage::Sort(sort)])
}

impl Group {
    /// A group by an expression, with these fields.
    pub(super) fn new(id: Expression, fields: Vec<Field>) -> Group {
        Group { id, fields }
    }

    /// The constant `_id` and what each row adds to each field, if the rows' content does not matter.
    pub(super) fn counts_only(&self) -> Option<(Bson, Vec<(String, i64)>)> {
        let id = self.id.constant()?.clone();
        let mut sums = Vec::new();
        for field in &self.fields {
            match (field.kind, field.expression.constant()?) {
                (AccumulatorKind::Sum, Bson::Int32(each)) => {
                    sums.push((field.name.clone(), i64::from(*each)))
                }
                _ => return None,
            }
        }
        Some((if id == Bson::Undefined { Bson::Null } else { id }, sums))
    }

    /// Collects the top-level fields of rows that it reads; false if it may read any.
    pub(super) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        self.id.collect_fields(fields)
            && self.fields.iter().all(|field| field.expression.collect_fields(fields))
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Result<Rows> {
        let mut groups = Groups::new(&self.fields);
        let variables = &context.variables;
        match self.id.constant() {
            Some(id) => {
                for row in rows {
                    groups.take_into_only(id, &row?, variables)?;
                }
            }
            None => {
                let mut key = Vec::new();
                for row in rows {
                    let row = row?;
                    let id = match self.id.value(&row, variables)? {
                        Value::Missing => Value::NULL,
                        id => id,
                    };
                    groups.take(&mut key, id, &row, variables)?;
                }
            }
        }
        groups.finish(&self.fields)
    }
}

/// The groups so far.
struct Groups<'f> {
    fields: &'f [Field],
    places: HashMap<Vec<u8>, usize>,
    groups: Vec<(Bson, Vec<Accumulator>)>,
    memory: StageMemory,
}

impl<'f> Groups<'f> {
    fn new(fields: &'f [Field]) -> Self {
        Groups { fields, places: HashMap::new(), groups: Vec::new(), memory: StageMemory::new("$group") }
    }

    /// Adds a row to the group of `id`. `key` is scratch memory.
    fn take(
        &mut self,
        key: &mut Vec<u8>,
        id: Value<'_>,
        row: &RawDocument,
        variables: &Variables,
    ) -> Result<()> {
        key.clear();
        canonical::append(key, &id)?;
        let place = match self.places.get(key.as_slice()) {
            Some(place) => *place,
            None => {
                let place = self.open(id.into_bson()?.unwrap_or(Bson::Null))?;
                self.memory.take(key.len())?;
                self.places.insert(key.clone(), place);
                place
            }
        };
        self.add(place, row, variables)
    }

    /// Adds a row if there is one group only.
    fn take_into_only(&mut self, id: &Bson, row: &RawDocument, variables: &Variables) -> Result<()> {
        if self.groups.is_empty() {
            self.open(id.clone())?;
        }
        self.add(0, row, variables)
    }

    fn open(&mut self, id: Bson) -> Result<usize> {
        self.memory.take(GROUP_BYTES * (1 + self.fields.len()) + measure(&id)?)?;
        self.groups.push((id, accumulators(self.fields)));
        Ok(self.groups.len() - 1)
    }

    fn add(&mut self, place: usize, row: &RawDocument, variables: &Variables) -> Result<()> {
        let Some((_, accumulators)) = self.groups.get_mut(place) else { return Ok(()) };
        let bytes = push_all(self.fields, accumulators, row, variables)?;
        if bytes > 0 { self.memory.take(bytes) } else { Ok(()) }
    }

    fn finish(self, fields: &[Field]) -> Result<Rows> {
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        Ok(Box::new(self.groups.into_iter().map(move |(id, accumulators)| {
            let mut row = RawDocumentBuf::new();
            append(&mut row, "_id", &Value::Own(id))?;
            append_all(&mut row, &names, accumulators)?;
            sized(row)
        })))
    }
}

/// An accumulator for each field.
pub(super) fn accumulators(fields: &[Field]) -> Vec<Accumulator> {
    fields.iter().map(|field| Accumulator::new(field.kind)).collect()
}

/// Passes a row to every field's accumulator; returns how many more bytes they hold.
pub(super) fn push_all(
    fields: &[Field],
    accumulators: &mut [Accumulator],
    row: &RawDocument,
    variables: &Variables,
) -> Result<usize> {
    let mut bytes = 0;
    for (field, accumulator) in fields.iter().zip(accumulators) {
        bytes += accumulator.push(field.expression.value(row, variables)?)?;
    }
    Ok(bytes)
}

/// Appends the results of the accumulators.
pub(super) fn append_all(
    row: &mut RawDocumentBuf,
    names: &[String],
    accumulators: Vec<Accumulator>,
) -> Result<()> {
    for (name, accumulator) in names.iter().zip(accumulators) {
        append(row, name, &Value::Own(accumulator.finish()))?;
    }
    Ok(())
}

//! From documents to stages: what the stages' options may be, and the rules of where each stage may stand.

use std::cell::Cell;

use bson::raw::RawArray;
use bson::{RawBsonRef, RawDocument};

use super::selection;
use super::stages::{self, Form, Rule, Stage};
use crate::expression::show::show;
use crate::expression::value::{Value, malformed, type_name};
use crate::{Code, Failure, Result, Variables};

/// The most stages of a pipeline with all its sub-pipelines: rows pass through them one inside the other.
const STAGES_MAX: usize = 1000;
/// How deep sub-pipelines may nest (mongodb/mongo:src/mongo/db/pipeline/expression_context.h).
const SUB_PIPELINES_MAX: usize = 20;

/// Where a pipeline stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the command's own.
    Top,
    /// In `$facet`.
    Facet,
    /// In `$lookup` or `$unionWith`, by name.
    Sub(&'static str),
    /// It is an update.
    Update,
}

/// What the stages that are being parsed may use.
pub(super) struct Limits<'p> {
    /// The command's variables.
    pub(super) variables: &'p Variables,
    depth: Cell<usize>,
    stages: Cell<usize>,
}

impl<'p> Limits<'p> {
    pub(super) fn new(variables: &'p Variables) -> Self {
        Limits { variables, depth: Cell::new(0), stages: Cell::new(0) }
    }

    /// Other variables within the same limits, used up as far as these.
    pub(super) fn with<'q>(&self, variables: &'q Variables) -> Limits<'q> {
        Limits { variables, depth: self.depth.clone(), stages: self.stages.clone() }
    }
}

/// Parses the stages of one pipeline.
pub(super) fn stages(documents: &[&RawDocument], limits: &Limits<'_>, place: Place) -> Result<Vec<Stage>> {
    parse_all(documents, limits, place, |_, _| Ok(()))
}

/// A document of a pipeline, and how many stages it gave.
type Text = (usize, bson::Document);

/// As [`stages()`], with the documents that they were read from.
pub(super) fn stages_with_texts(
    documents: &[&RawDocument],
    limits: &Limits<'_>,
    place: Place,
) -> Result<(Vec<Stage>, Vec<Text>)> {
    let mut texts = Vec::new();
    let stages = parse_all(documents, limits, place, |document, count| {
        texts.push((count, crate::expression::value::decode_document(document)?));
        Ok(())
    })?;
    Ok((stages, texts))
}

fn parse_all(
    documents: &[&RawDocument],
    limits: &Limits<'_>,
    place: Place,
    mut note: impl FnMut(&RawDocument, usize) -> Result<()>,
) -> Result<Vec<Stage>> {
    let mut parsed = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        limits.stages.set(limits.stages.get() + 1);
        if limits.stages.get() > STAGES_MAX {
            let message = format!("Pipeline length must be no longer than {STAGES_MAX} stages");
            return Err(Failure::new(Code::FailedToParse, message));
        }
        let stages = stage(document, index, documents.len(), limits, place)?;
        note(document, stages.len())?;
        parsed.extend(stages);
    }
    selection::fold_limits(&mut parsed);
    Ok(parsed)
}

/// Parses a sub-pipeline: an array of documents.
pub(super) fn sub_pipeline(array: &RawArray, limits: &Limits<'_>, place: Place) -> Result<Vec<Stage>> {
    let documents = documents_of(array)?;
    if limits.depth.get() >= SUB_PIPELINES_MAX {
        let message =
            format!("Maximum number of nested sub-pipelines exceeded. Limit is {SUB_PIPELINES_MAX}");
        return Err(Failure::new(Code::ViewDepthLimitExceeded, message));
    }
    limits.depth.set(limits.depth.get() + 1);
    let parsed = stages(&documents, limits, place);
    limits.depth.set(limits.depth.get() - 1);
    parsed
}

/// The documents of an array of stages.
pub(super) fn documents_of(array: &RawArray) -> Result<Vec<&RawDocument>> {
    let mut documents = Vec::new();
    for item in array {
        match item.map_err(malformed)? {
            RawBsonRef::Document(document) => documents.push(document),
            _ => {
                let message = "Each element of the 'pipeline' array must be an object";
                return Err(Failure::new(Code::TypeMismatch, message));
            }
        }
    }
    Ok(documents)
}

fn stage(
    document: &RawDocument,
    index: usize,
    count: usize,
    limits: &Limits<'_>,
    place: Place,
) -> Result<Vec<Stage>> {
    let mut elements = document.iter();
    let first = elements.next().transpose().map_err(malformed)?;
    let (Some((name, value)), None) = (first, elements.next()) else {
        let message = "A pipeline stage specification object must contain exactly one field.";
        return Err(Failure::new(Code(40323), message));
    };
    let Some((name, form)) = stages::find(name.as_str()) else {
        return Err(Failure::new(Code(40324), format!("Unrecognized pipeline stage name: '{name}'")));
    };
    match form {
        Form::Known(rule, parse) => {
            check_place(name, *rule, index, count, document, place)?;
            parse(name, value, limits)
        }
        Form::Alone(code, message) => Err(Failure::new(Code(*code), *message)),
        Form::Refused(why) => {
            Err(Failure::new(Code::CommandNotSupported, format!("{name} is not in this server: {why}")))
        }
    }
}

fn check_place(
    name: &str,
    rule: Rule,
    index: usize,
    count: usize,
    document: &RawDocument,
    place: Place,
) -> Result<()> {
    let refuse = |code: i32, message: String| Err(Failure::new(Code(code), message));
    if place == Place::Update && rule != Rule::Row {
        return refuse(Code::InvalidOptions.0, format!("{name} is not allowed to be used within an update"));
    }
    if place == Place::Facet && matches!(rule, Rule::First | Rule::Last | Rule::NotInFacet) {
        let shown = show(&Value::Raw(RawBsonRef::Document(document)));
        return refuse(40600, format!("{name} is not allowed to be used within a $facet stage: {shown}"));
    }
    if let (Place::Sub(outer), Rule::Last) = (place, rule) {
        return refuse(51047, format!("{name} is not allowed within a {outer}'s sub-pipeline"));
    }
    if rule == Rule::First && index > 0 {
        return refuse(40602, format!("{name} is only valid as the first stage in a pipeline"));
    }
    if rule == Rule::Last && index + 1 < count {
        return refuse(40601, format!("{name} can only be the final stage in the pipeline"));
    }
    Ok(())
}

/// The name of a value's type.
pub(super) fn kind(value: RawBsonRef<'_>) -> &'static str {
    type_name(value.element_type())
}

/// A refusal.
pub(super) fn refused<T>(code: i32, message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Failure::new(Code(code), message))
}

/// The object that a stage must hold.
pub(super) fn object<'v>(value: RawBsonRef<'v>, code: i32, message: &str) -> Result<&'v RawDocument> {
    match value {
        RawBsonRef::Document(document) => Ok(document),
        other => refused(code, format!("{message}, got {}", kind(other))),
    }
}

/// The members of an object of options, one for each of `names`; others are refused with `unknown` and what it says.
pub(super) fn members<'v, const N: usize>(
    document: &'v RawDocument,
    names: [&str; N],
    unknown: (i32, &str),
) -> Result<[Option<RawBsonRef<'v>>; N]> {
    let mut found = [None; N];
    for element in document.iter() {
        let (name, value) = element.map_err(malformed)?;
        let place = names.iter().position(|known| *known == name.as_str());
        match place.and_then(|place| found.get_mut(place)) {
            Some(member) => *member = Some(value),
            None => return refused(unknown.0, format!("{}: {name}", unknown.1)),
        }
    }
    Ok(found)
}

/// A number of an option, whole and of 64 bits.
pub(super) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    use crate::expression::number::Number;
    use crate::expression::value::Value;
    Number::of(&Value::Raw(value)).and_then(Number::exact_long)
}

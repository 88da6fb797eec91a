//! Parses documents into stages, with helpers for the stages' options and the rules for the place of each stage.

use std::cell::Cell;

use bson::raw::RawArray;
use bson::{RawBsonRef, RawDocument};

use super::selection;
use super::stages::{self, Form, Stage, StageRule};
use crate::expression::show::show;
use crate::expression::value::{Value, malformed, type_name};
use crate::{Code, Failure, Result, Variables};

/// The most stages of a pipeline with all its sub-pipelines: rows pass through nested calls of them.
const MAX_STAGES: usize = 1000;
/// The most levels of nested sub-pipelines (mongodb/mongo:src/mongo/db/pipeline/expression_context.h).
const MAX_SUB_PIPELINES: usize = 20;

/// The context of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipelinePosition {
    /// It is the command's own.
    Top,
    Facet,
    /// It is a sub-pipeline of the named stage, `$lookup` or `$unionWith`.
    Sub(&'static str),
    /// It is an update.
    Update,
}

/// The features that the stages being parsed may use.
pub(super) struct StageLimits<'p> {
    pub(super) variables: &'p Variables,
    depth: Cell<usize>,
    stages: Cell<usize>,
}

impl<'p> StageLimits<'p> {
    pub(super) fn new(variables: &'p Variables) -> Self {
        StageLimits { variables, depth: Cell::new(0), stages: Cell::new(0) }
    }

    /// The same limits, as far as they are used up, with other variables.
    pub(super) fn with<'q>(&self, variables: &'q Variables) -> StageLimits<'q> {
        StageLimits { variables, depth: self.depth.clone(), stages: self.stages.clone() }
    }
}

/// Parses the stages of one pipeline.
pub(super) fn stages(
    documents: &[&RawDocument],
    limits: &StageLimits<'_>,
    place: PipelinePosition,
) -> Result<Vec<Stage>> {
    parse_all(documents, limits, place, |_, _| Ok(()))
}

/// A document of a pipeline, and the number of its stages.
type PipelineText = (usize, bson::Document);

/// As [`stages()`], with the documents that they were parsed from.
pub(super) fn stages_with_texts(
    documents: &[&RawDocument],
    limits: &StageLimits<'_>,
    place: PipelinePosition,
) -> Result<(Vec<Stage>, Vec<PipelineText>)> {
    let mut texts = Vec::new();
    let stages = parse_all(documents, limits, place, |document, count| {
        texts.push((count, crate::expression::value::decode_document(document)?));
        Ok(())
    })?;
    Ok((stages, texts))
}

fn parse_all(
    documents: &[&RawDocument],
    limits: &StageLimits<'_>,
    place: PipelinePosition,
    mut note: impl FnMut(&RawDocument, usize) -> Result<()>,
) -> Result<Vec<Stage>> {
    let mut parsed = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        limits.stages.set(limits.stages.get() + 1);
        if limits.stages.get() > MAX_STAGES {
            let message = format!("Pipeline length must be no longer than {MAX_STAGES} stages");
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
pub(super) fn sub_pipeline(
    array: &RawArray,
    limits: &StageLimits<'_>,
    place: PipelinePosition,
) -> Result<Vec<Stage>> {
    let documents = documents_of(array)?;
    if limits.depth.get() >= MAX_SUB_PIPELINES {
        let message =
            format!("Maximum number of nested sub-pipelines exceeded. Limit is {MAX_SUB_PIPELINES}");
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
    limits: &StageLimits<'_>,
    place: PipelinePosition,
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
    rule: StageRule,
    index: usize,
    count: usize,
    document: &RawDocument,
    place: PipelinePosition,
) -> Result<()> {
    let refuse = |code: i32, message: String| Err(Failure::new(Code(code), message));
    if place == PipelinePosition::Update && rule != StageRule::Row {
        return refuse(Code::InvalidOptions.0, format!("{name} is not allowed to be used within an update"));
    }
    if place == PipelinePosition::Facet
        && matches!(rule, StageRule::First | StageRule::Last | StageRule::NotInFacet)
    {
        let shown = show(&Value::Raw(RawBsonRef::Document(document)));
        return refuse(40600, format!("{name} is not allowed to be used within a $facet stage: {shown}"));
    }
    if let (PipelinePosition::Sub(outer), StageRule::Last) = (place, rule) {
        return refuse(51047, format!("{name} is not allowed within a {outer}'s sub-pipeline"));
    }
    if rule == StageRule::First && index > 0 {
        return refuse(40602, format!("{name} is only valid as the first stage in a pipeline"));
    }
    if rule == StageRule::Last && index + 1 < count {
        return refuse(40601, format!("{name} can only be the final stage in the pipeline"));
    }
    Ok(())
}

/// The name of a value's type.
pub(super) fn kind(value: RawBsonRef<'_>) -> &'static str {
    type_name(value.element_type())
}

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

/// The members of an object of options, one for each of `names`; others are refused with the code and text of `unknown`.
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

/// The number of an option, as a whole number of 64 bits.
pub(super) fn whole(value: RawBsonRef<'_>) -> Option<i64> {
    use crate::expression::number::Number;
    use crate::expression::value::Value;
    Number::from_value(&Value::Raw(value)).and_then(Number::exact_long)
}

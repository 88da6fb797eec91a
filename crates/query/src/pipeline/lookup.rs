//! The stage `$lookup`: adds documents of another collection as an array.
//!
//! The equality form queries the host with one filter for each row. The pipeline form parses its stages for each row with the
//! values of `let`, or once for all rows without `let`.

use bson::{Bson, Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::context::{MAX_DOCUMENT_BYTES, Query, Rows, StageContext, StageMemory};
use super::document::with;
use super::parse::{
    PipelinePosition, StageLimits, documents_of, kind, members, object, refused, stages, sub_pipeline,
};
use super::stages::{Stage, run_over};
use crate::expression::path::{of_document, split};
use crate::expression::value::{Value, malformed};
use crate::{Code, Expression, Failure, Filter, Result, Variables};

#[derive(Clone, Debug)]
pub(super) struct Lookup {
    from: String,
    into: Vec<String>,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Documents whose `foreign` field has the value of the row's `local` one.
    Equality { local: Vec<String>, foreign: String },
    /// The result of a pipeline on the collection.
    Pipeline { variables: Vec<(String, Expression)>, raw: bson::RawArrayBuf, stages: Vec<Stage> },
}

/// `$lookup: {from, localField, foreignField, as}` or `{from, let, pipeline, as}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 4569, "the $lookup specification must be an Object")?;
    let names = ["from", "localField", "foreignField", "as", "let", "pipeline"];
    let [from, local, foreign, into, variables, pipeline] =
        members(document, names, (4571, "unknown argument to $lookup"))?;
    let from = text("from", from)?;
    let into = split(&text("as", into)?)?;
    let form = match pipeline {
        Some(RawBsonRef::Array(array)) => {
            if local.is_some() || foreign.is_some() {
                let message = "$lookup with 'pipeline' may not specify 'localField' or 'foreignField'";
                return refused(Code::FailedToParse.0, message);
            }
            pipeline_form(array, variables, limits)?
        }
        Some(other) => {
            return refused(
                Code::TypeMismatch.0,
                format!("'pipeline' option must be specified as an array, found {}", kind(other)),
            );
        }
        None if variables.is_some() => {
            return refused(
                Code::FailedToParse.0,
                "$lookup with a 'let' argument must also specify 'pipeline'",
            );
        }
        None => {
            let foreign = text("foreignField", foreign)?;
            split(&foreign)?;
            Form::Equality { local: split(&text("localField", local)?)?, foreign }
        }
    };
    Ok(vec![Stage::Lookup(Lookup { from, into, form })])
}

fn text(name: &str, value: Option<RawBsonRef<'_>>) -> Result<String> {
    match value {
        Some(RawBsonRef::String(text)) => Ok(text.to_owned()),
        Some(other) => refused(
            4570,
            format!("$lookup argument '{name}' must be a string, found {name}: {}", kind(other)),
        ),
        None if matches!(name, "from" | "as") => {
            refused(Code::FailedToParse.0, format!("must specify '{name}' field for a $lookup"))
        }
        None => refused(
            4572,
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified",
        ),
    }
}

fn pipeline_form(
    array: &bson::RawArray,
    variables: Option<RawBsonRef<'_>>,
    limits: &StageLimits<'_>,
) -> Result<Form> {
    let mut bound = Vec::new();
    match variables {
        None => {}
        Some(RawBsonRef::Document(document)) => {
            for element in document.iter() {
                let (name, value) = element.map_err(malformed)?;
                Expression::check_name(name.as_str())?;
                bound.push((name.as_str().to_owned(), Expression::parse_with(value, limits.variables)?));
            }
        }
        Some(other) => {
            return refused(
                Code::FailedToParse.0,
                format!("$lookup argument 'let' must be an object, is type {}", kind(other)),
            );
        }
    }
    // The stages are parsed now with the names alone, so that errors are found before any row is read.
    let mut inner = limits.variables.clone();
    for (name, _) in &bound {
        inner.insert(name.as_str(), Bson::Null);
    }
    let stages = sub_pipeline(array, &limits.with(&inner), PipelinePosition::Sub("$lookup"))?;
    Ok(Form::Pipeline { variables: bound, raw: array.to_owned(), stages })
}

impl Lookup {
    /// The collections that it reads.
    pub(super) fn collections(&self) -> Vec<&str> {
        let mut collections = vec![self.from.as_str()];
        if let Form::Pipeline { stages, .. } = &self.form {
            collections.extend(super::plan::collections_read(stages));
        }
        collections
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Result<Rows> {
        let context = context.clone();
        let mut once: Option<Vec<RawDocumentBuf>> = None;
        Ok(Box::new(rows.map(move |row| {
            let row = row?;
            match &self.form {
                Form::Equality { local, foreign } => {
                    let filter = equality(&row, local, foreign)?;
                    let filter = Filter::parse(&filter, &context.variables)?;
                    self.attach(
                        &row,
                        context.host.find(&self.from, Query { filter, sort: None, limit: None })?,
                    )
                }
                Form::Pipeline { variables, stages, .. } if variables.is_empty() => {
                    if once.is_none() {
                        once = Some(held(run_over(stages.clone(), &self.from, &context)?)?);
                    }
                    self.attach(&row, once.iter().flatten().map(Ok))
                }
                Form::Pipeline { variables, raw, .. } => {
                    self.attach(&row, self.correlated(variables, raw, &row, &context)?)
                }
            }
        })))
    }

    /// The documents of the pipeline for one row.
    fn correlated(
        &self,
        bound: &[(String, Expression)],
        raw: &RawArrayBuf,
        row: &RawDocument,
        context: &StageContext,
    ) -> Result<Rows> {
        let mut variables: Variables = (*context.variables).clone();
        for (name, expression) in bound {
            let value = expression.evaluate(row, &context.variables)?;
            // A missing variable is not distinguished from null.
            variables.insert(name.as_str(), value.unwrap_or(Bson::Null));
        }
        let stages =
            stages(&documents_of(raw)?, &StageLimits::new(&variables), PipelinePosition::Sub("$lookup"))?;
        let context = StageContext { variables: variables.into(), ..context.clone() };
        run_over(stages, &self.from, &context)
    }

    fn attach<D: std::borrow::Borrow<RawDocumentBuf>>(
        &self,
        row: &RawDocument,
        found: impl Iterator<Item = Result<D>>,
    ) -> Result<RawDocumentBuf> {
        let mut bytes = row.as_bytes().len();
        let mut array = RawArrayBuf::new();
        for document in found {
            let document: D = document?;
            let document: &RawDocumentBuf = document.borrow();
            bytes += document.as_bytes().len();
            if bytes > MAX_DOCUMENT_BYTES {
                let message = format!(
                    "Total size of documents in {} matching pipeline's $lookup stage exceeds {MAX_DOCUMENT_BYTES} bytes",
                    self.from
                );
                return Err(Failure::new(Code(4568), message));
            }
            array.push(RawBsonRef::Document(document));
        }
        with(row, &self.into, &Value::Raw(RawBsonRef::Array(&array)))
    }
}

/// Collects rows that are used repeatedly, within the memory limit of a stage.
fn held(rows: Rows) -> Result<Vec<RawDocumentBuf>> {
    let mut memory = StageMemory::new("$lookup");
    rows.map(|row| {
        let row = row?;
        memory.take(row.as_bytes().len())?;
        Ok(row)
    })
    .collect()
}

/// The filter of the equality form: an array matches by any of its elements, a missing value as null.
fn equality(row: &RawDocument, local: &[String], foreign: &str) -> Result<RawDocumentBuf> {
    let filter: Document = match of_document(row, local)?.into_bson()? {
        None => doc! { foreign: { "$eq": null } },
        Some(Bson::Array(values))
            if values.iter().any(|value| matches!(value, Bson::RegularExpression(_))) =>
        {
            // $in would take a regular expression for a pattern.
            let each: Vec<Document> =
                values.into_iter().map(|value| doc! { foreign: { "$eq": value } }).collect();
            doc! { "$or": each }
        }
        Some(Bson::Array(values)) => doc! { foreign: { "$in": values } },
        Some(value) => doc! { foreign: { "$eq": value } },
    };
    RawDocumentBuf::try_from(&filter).map_err(malformed)
}

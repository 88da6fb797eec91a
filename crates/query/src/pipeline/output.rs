//! The stages that write: `$merge` adds the rows to a collection or merges them with its documents, and `$out` replaces
//! a collection by them.

use bson::{Bson, Document, RawArrayBuf, RawBsonRef, RawDocumentBuf, doc};

use super::context::{Rows, StageContext};
use super::parse::{PipelinePosition, StageLimits, documents_of, kind, members, object, refused, stages};
use super::stages::Stage;
use crate::expression::value::{decode_document, malformed};
use crate::{Code, Expression, Result, Variables};

/// `$merge`: its options, with defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct MergeStage {
    options: Document,
}

/// `$merge: "collection"` or `{into, on, let, whenMatched, whenNotMatched}`.
pub(super) fn parse_merge(
    _: &'static str,
    value: RawBsonRef<'_>,
    limits: &StageLimits<'_>,
) -> Result<Vec<Stage>> {
    let names = ["into", "on", "let", "whenMatched", "whenNotMatched"];
    let [into, on, variables, matched, not_matched] = match value {
        RawBsonRef::String(_) => [Some(value), None, None, None, None],
        RawBsonRef::Document(document) => {
            members(document, names, (40415, "BSON field '$merge' has an unknown field"))?
        }
        other => {
            return refused(
                51182,
                format!("$merge only supports a string or object argument, not {}", kind(other)),
            );
        }
    };
    let (matched, bound) = when_matched(matched, variables, limits)?;
    let not_matched = match not_matched {
        None => "insert",
        Some(RawBsonRef::String(mode @ ("insert" | "discard" | "fail"))) => mode,
        Some(_) => {
            let message = "Enumeration value for field '$merge.whenNotMatched' is not a valid value: insert, discard, fail";
            return refused(Code::BadValue.0, message);
        }
    };
    if let Bson::String(mode) = &matched
        && !supported(mode, not_matched)
    {
        let message = format!(
            "combination of $merge modes is not supported: whenMatched '{mode}' whenNotMatched '{not_matched}'"
        );
        return refused(51181, message);
    }
    let options = doc! {
        "into": target(into)?,
        "on": on_fields(on)?,
        "let": bound,
        "whenMatched": matched,
        "whenNotMatched": not_matched,
    };
    Ok(vec![Stage::Merge(MergeStage { options })])
}

/// Whether two modes can be combined (mongodb/mongo:src/mongo/db/pipeline/document_source_merge.cpp).
fn supported(matched: &str, not_matched: &str) -> bool {
    match matched {
        "keepExisting" => not_matched == "insert",
        "fail" => not_matched == "insert",
        _ => true,
    }
}

/// The target: `{coll}` or `{db, coll}`.
fn target(into: Option<RawBsonRef<'_>>) -> Result<Document> {
    let text = |value: Option<RawBsonRef<'_>>| value.and_then(RawBsonRef::as_str).map(str::to_owned);
    let (database, collection) = match into {
        Some(RawBsonRef::String(collection)) => (None, Some(collection.to_owned())),
        Some(RawBsonRef::Document(document)) => {
            let [database, collection] =
                members(document, ["db", "coll"], (40415, "BSON field 'into' has an unknown field"))?;
            (text(database), text(collection))
        }
        Some(other) => {
            let message = format!(
                "$merge 'into' field must be either a string or an object, but found {}",
                kind(other)
            );
            return refused(51178, message);
        }
        None => return refused(40414, "BSON field '$merge.into' is missing but a required field"),
    };
    let Some(collection) = collection.filter(|name| !name.is_empty()) else {
        return refused(51178, "$merge 'into' field must specify a 'coll' that is not empty");
    };
    Ok(match database {
        Some(database) => doc! { "db": database, "coll": collection },
        None => doc! { "coll": collection },
    })
}

/// The fields that identify a document; `_id` by default.
fn on_fields(on: Option<RawBsonRef<'_>>) -> Result<Vec<String>> {
    let wrong = |found: &str| {
        refused(
            51186,
            format!("$merge 'on' field must be either a string or an array of strings, but found {found}"),
        )
    };
    match on {
        None => Ok(vec!["_id".to_owned()]),
        Some(RawBsonRef::String(field)) => Ok(vec![field.to_owned()]),
        Some(RawBsonRef::Array(array)) => {
            let mut fields: Vec<String> = Vec::new();
            for item in array {
                match item.map_err(malformed)? {
                    RawBsonRef::String(field) if fields.iter().any(|known| known == field) => {
                        return refused(31465, format!("Found a duplicate field '{field}'"));
                    }
                    RawBsonRef::String(field) => fields.push(field.to_owned()),
                    other => return wrong(kind(other)),
                }
            }
            if fields.is_empty() {
                return refused(
                    51187,
                    "If explicitly specifying $merge 'on', must include at least one field",
                );
            }
            Ok(fields)
        }
        Some(other) => wrong(kind(other)),
    }
}

/// The mode, or the pipeline with its variables, by default `{new: "$$ROOT"}`.
fn when_matched(
    matched: Option<RawBsonRef<'_>>,
    variables: Option<RawBsonRef<'_>>,
    limits: &StageLimits<'_>,
) -> Result<(Bson, Document)> {
    let mode = match matched {
        None => "merge",
        Some(RawBsonRef::String(mode @ ("merge" | "replace" | "keepExisting" | "fail"))) => mode,
        Some(RawBsonRef::Array(array)) => {
            let mut bound = match variables {
                None => doc! { "new": "$$ROOT" },
                Some(value) => decode_document(object(
                    value,
                    Code::TypeMismatch.0,
                    "BSON field '$merge.let' must be an object",
                )?)?,
            };
            // $$new is always bound, unless the client binds the name.
            if !bound.contains_key("new") {
                bound.insert("new", "$$ROOT");
            }
            MergePipeline::new(&bound, array, limits.variables)?;
            let Bson::Array(stages) = crate::expression::value::decode(RawBsonRef::Array(array))? else {
                return refused(Code::FailedToParse.0, "'whenMatched' must be a pipeline");
            };
            return Ok((Bson::Array(stages), bound));
        }
        Some(RawBsonRef::String(mode)) => {
            let message =
                format!("Enumeration value '{mode}' for field '$merge.whenMatched' is not a valid value");
            return refused(Code::BadValue.0, message);
        }
        Some(other) => {
            let message = format!(
                "$merge 'whenMatched' field must be either a string or an array, but found {}",
                kind(other)
            );
            return refused(51191, message);
        }
    };
    if variables.is_some() {
        return refused(51199, format!("Cannot use 'let' variables with 'whenMatched: {mode}' mode"));
    }
    Ok((Bson::String(mode.to_owned()), Document::new()))
}

impl MergeStage {
    /// The target: the database, if it is named, and the collection.
    pub(super) fn target(&self) -> (Option<&str>, &str) {
        let into = self.options.get_document("into").ok();
        let text = |name: &str| into.and_then(|into| into.get_str(name).ok());
        (text("db"), text("coll").unwrap_or_default())
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Result<Rows> {
        context.host.merge(&self.options, rows)?;
        Ok(Box::new(std::iter::empty()))
    }
}

/// The pipeline of `whenMatched`, for the host that merges.
#[derive(Clone, Debug)]
pub struct MergePipeline {
    pub(crate) bound: Vec<(String, Expression)>,
    pub(crate) stages: RawArrayBuf,
    pub(crate) variables: Variables,
}

impl MergePipeline {
    /// Reads the options of [`super::ProcessInterface::merge`]; `None` if `whenMatched` is not a pipeline.
    pub fn from_options(options: &Document, variables: &Variables) -> Result<Option<MergePipeline>> {
        let (Some(Bson::Array(stages)), Some(Bson::Document(bound))) =
            (options.get("whenMatched"), options.get("let"))
        else {
            return Ok(None);
        };
        let stages = RawArrayBuf::try_from(stages).map_err(malformed)?;
        MergePipeline::new(bound, &stages, variables).map(Some)
    }

    fn new(bound: &Document, stages_of: &bson::RawArray, variables: &Variables) -> Result<MergePipeline> {
        let raw = RawDocumentBuf::try_from(bound).map_err(malformed)?;
        let mut expressions = Vec::new();
        let mut names = variables.clone();
        for element in raw.iter() {
            let (name, value) = element.map_err(malformed)?;
            Expression::check_name(name.as_str())?;
            expressions.push((name.as_str().to_owned(), Expression::parse_with(value, variables)?));
            names.insert(name.as_str(), Bson::Null);
        }
        stages(&documents_of(stages_of)?, &StageLimits::new(&names), PipelinePosition::Update)?;
        Ok(MergePipeline { bound: expressions, stages: stages_of.to_owned(), variables: variables.clone() })
    }
}

/// The target of `$out`.
#[derive(Clone, Debug)]
pub(super) struct OutTarget {
    database: Option<String>,
    collection: String,
}

/// `$out: "collection"` or `{db, coll}`.
pub(super) fn parse_out(_: &'static str, value: RawBsonRef<'_>, _: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let text = |value: Option<RawBsonRef<'_>>| value.and_then(RawBsonRef::as_str).map(str::to_owned);
    let (database, collection) = match value {
        RawBsonRef::String(collection) => (None, Some(collection.to_owned())),
        RawBsonRef::Document(document) => {
            let [database, collection] = members(
                document,
                ["db", "coll"],
                (16994, "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'"),
            )?;
            let (database, collection) = (text(database), text(collection));
            if database.is_none() || collection.is_none() {
                return refused(
                    16994,
                    "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'",
                );
            }
            (database, collection)
        }
        other => {
            return refused(
                16990,
                format!("$out only supports a string or object argument, but found {}", kind(other)),
            );
        }
    };
    match collection {
        Some(collection) if !collection.is_empty() => {
            Ok(vec![Stage::Out(OutTarget { database, collection })])
        }
        _ => refused(73, "Invalid $out target namespace: the collection has no name"),
    }
}

impl OutTarget {
    /// The target: the database, if it is named, and the collection.
    pub(super) fn target(&self) -> (Option<&str>, &str) {
        (self.database.as_deref(), &self.collection)
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Result<Rows> {
        context.host.out(self.database.as_deref(), &self.collection, rows)?;
        Ok(Box::new(std::iter::empty()))
    }
}

//! Pipelines over several shards: the leading stages that process one document at a time run on the shards, the others run here on
//! the shards' output.
//!
//! Stages that read or write other collections (`$lookup`, `$graphLookup`, `$unionWith`, `$out`, `$merge`) are refused by name
//! unless one shard can run the whole pipeline.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use fathom_query::{Pipeline, ProcessInterface, Query, Rows, Sort, Variables};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::instance::Instance;

/// Stages whose output for a document does not depend on other documents.
const PER_DOCUMENT: &[&str] = &[
    "$match",
    "$project",
    "$addFields",
    "$set",
    "$unset",
    "$unwind",
    "$replaceRoot",
    "$replaceWith",
    "$redact",
];

/// The way the shards' documents are combined.
#[derive(Debug)]
pub(crate) enum MergePlan {
    /// Unordered, or in the order of a sort.
    Documents(Option<Sort>),
    /// Only the number of documents on each shard.
    Counts(fathom_query::CountForm),
}

/// A pipeline cut in two.
#[derive(Debug)]
pub(crate) struct Split {
    /// The stages for each shard.
    pub(crate) on_shards: Vec<RawDocumentBuf>,
    pub(crate) gathering: MergePlan,
    /// The stages for the router.
    pub(crate) here: Pipeline,
    /// Whether each shard adds its name to its documents.
    pub(crate) names_shards: bool,
}

/// The name of a stage.
pub(crate) fn name_of(stage: &RawDocument) -> &str {
    stage
        .iter_elements()
        .next()
        .and_then(std::result::Result::ok)
        .map_or("", |element| element.key().as_str())
}

/// Splits a pipeline at the first stage that needs the documents of all shards.
pub(crate) fn split(stages: &[&RawDocument], variables: &Variables) -> Result<Split> {
    let whole = Pipeline::parse(stages, variables)?;
    if let Some(stage) = stages
        .iter()
        .map(|stage| name_of(stage))
        .find(|name| matches!(*name, "$lookup" | "$graphLookup" | "$unionWith" | "$out" | "$merge"))
    {
        let what = format!("{stage} is not in this router for a pipeline over several shards");
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    if !whole.collections_read().is_empty() {
        let what =
            "a $facet that reads other collections is not in this router for a pipeline over several shards";
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    let names_shards = whole.has_source();
    let leading = match names_shards {
        true => 1,
        false => stages.iter().take_while(|stage| PER_DOCUMENT.contains(&name_of(stage))).count(),
    };
    let (first, rest) = stages.split_at_checked(leading).unwrap_or((stages, &[]));
    let mut on_shards: Vec<RawDocumentBuf> = first.iter().map(|stage| (*stage).to_owned()).collect();
    let mut rest = rest.to_vec();
    let mut gathering = MergePlan::Documents(None);
    let mut here = Pipeline::parse(&rest, variables)?;
    if names_shards {
        return Ok(Split { on_shards, gathering, here, names_shards });
    }
    if let Some(form) = here.take_count() {
        on_shards.push(parse::raw_of(&doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 } } })?);
        return Ok(Split { on_shards, gathering: MergePlan::Counts(form), here, names_shards });
    }
    match rest.first().map(|stage| name_of(stage)) {
        Some("$sort") => {
            let sort = rest.remove(0);
            gathering =
                MergePlan::Documents(parse::document(sort, "$sort")?.map(Sort::parse).transpose()?.flatten());
            on_shards.push(sort.to_owned());
            push_limit(&rest, &mut on_shards);
            here = Pipeline::parse(&rest, variables)?;
        }
        Some("$limit") => push_limit(&rest, &mut on_shards),
        Some("$group" | "$sortByCount" | "$bucket" | "$bucketAuto") => {
            if let Some(fields) = here.needed_fields().filter(|fields| !fields.is_empty()) {
                let mut wanted: Document =
                    fields.iter().map(|field| (field.clone(), Bson::Int32(1))).collect();
                wanted.entry("_id".to_owned()).or_insert(Bson::Int32(0));
                let stage = parse::raw_of(&doc! { "$project": wanted })?;
                // Fields that a projection cannot name are sent with all the others.
                if Pipeline::parse(&[&stage], variables).is_ok() {
                    on_shards.push(stage);
                }
            }
        }
        _ => {}
    }
    Ok(Split { on_shards, gathering, here, names_shards })
}

/// Pushes a limit down: no shard need send more than the limit for all together.
fn push_limit(rest: &[&RawDocument], on_shards: &mut Vec<RawDocumentBuf>) {
    if let Some(limit) = rest.first().filter(|stage| name_of(stage) == "$limit") {
        on_shards.push((*limit).to_owned());
    }
}

/// The services for the stages that run here.
pub(crate) struct RouterHost(pub(crate) Arc<Instance>);

impl ProcessInterface for RouterHost {
    fn find(&self, _: &str, _: Query) -> Result<Rows> {
        Err(not_here())
    }

    fn out(&self, _: Option<&str>, _: &str, _: Rows) -> Result<()> {
        Err(not_here())
    }

    fn merge(&self, _: &Document, _: Rows) -> Result<()> {
        Err(not_here())
    }

    fn special(&self, _: Option<&str>, _: &str, _: &Document) -> Result<Vec<RawDocumentBuf>> {
        Err(not_here())
    }

    fn check(&self) -> Result<()> {
        if self.0.is_stopping() {
            return Err(Failure::new(Code::InterruptedAtShutdown, "interrupted at shutdown"));
        }
        Ok(())
    }

    fn random(&self) -> f64 {
        fathom_service::random::fraction()
    }
}

fn not_here() -> Failure {
    Failure::new(
        Code::CommandNotSupported,
        "a pipeline over several shards reads and writes one collection only",
    )
}

#[cfg(test)]
mod tests {
    use bson::DateTime;

    use super::*;

    fn cut(stages: &[Document]) -> Result<Split> {
        let raw: Vec<RawDocumentBuf> = stages.iter().map(|stage| parse::raw_of(stage).unwrap()).collect();
        let stages: Vec<&RawDocument> = raw.iter().map(AsRef::as_ref).collect();
        split(&stages, &Variables::at(DateTime::now()))
    }

    fn pushed(stages: &[Document]) -> Vec<String> {
        cut(stages).unwrap().on_shards.iter().map(|stage| name_of(stage).to_owned()).collect()
    }

    #[test]
    fn shards_run_what_looks_at_one_document() {
        let (only, make) = (doc! { "$match": { "a": 1 } }, doc! { "$addFields": { "b": 1 } });
        let (sort, limit) = (doc! { "$sort": { "a": 1 } }, doc! { "$limit": 3 });
        let group = doc! { "$group": { "_id": "$a", "s": { "$sum": "$b" } } };
        assert_eq!(
            pushed(&[only.clone(), make.clone(), sort.clone(), limit.clone()]),
            ["$match", "$addFields", "$sort", "$limit"]
        );
        assert_eq!(pushed(&[limit.clone(), only.clone()]), ["$limit"]);
        assert_eq!(pushed(&[only.clone(), group.clone()]), ["$match", "$project"]);
        assert_eq!(pushed(&[only.clone(), doc! { "$count": "n" }]), ["$match", "$group"]);
        assert_eq!(pushed(&[doc! { "$collStats": { "count": {} } }, only.clone()]), ["$collStats"]);
        assert!(cut(&[sort, limit]).unwrap().here.to_documents().count() == 1);
        assert!(matches!(cut(&[group]).unwrap().gathering, MergePlan::Documents(None)));
    }

    #[test]
    fn what_needs_other_collections_is_refused_by_name() {
        for (stage, name) in [
            (doc! { "$out": "x" }, "$out"),
            (
                doc! { "$lookup": { "from": "x", "localField": "a", "foreignField": "b", "as": "c" } },
                "$lookup",
            ),
            (doc! { "$unionWith": "x" }, "$unionWith"),
        ] {
            let failure = cut(&[stage]).unwrap_err();
            assert_eq!(failure.code(), Code::CommandNotSupported);
            assert!(failure.message().contains(name), "{failure}");
        }
    }
}

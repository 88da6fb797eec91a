//! Pipelines over several shards: the leading stages that look at one document at a time run there, the others here, on what the
//! shards send.
//!
//! What reads or writes other collections from here (`$lookup`, `$graphLookup`, `$unionWith`, `$out`, `$merge`) is refused by name
//! unless one shard can do all of it.

use std::sync::Arc;

use bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use fathom_query::{Host, Pipeline, Query, Rows, Sort, Variables};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::instance::Instance;

/// Stages that make documents of one document, whatever others there are.
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

/// How the shards' documents come together.
#[derive(Debug)]
pub(crate) enum Gathering {
    /// As they come, or in an order.
    Documents(Option<Sort>),
    /// Only how many there are on each.
    Counts(fathom_query::CountForm),
}

/// A pipeline cut in two.
#[derive(Debug)]
pub(crate) struct Split {
    /// What each shard runs.
    pub(crate) on_shards: Vec<RawDocumentBuf>,
    pub(crate) gathering: Gathering,
    /// What is left for the router.
    pub(crate) here: Pipeline,
    /// Whether each shard's documents are to say whose they are.
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

/// Cuts a pipeline where a stage needs the documents of all shards.
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
    let mut gathering = Gathering::Documents(None);
    let mut here = Pipeline::parse(&rest, variables)?;
    if names_shards {
        return Ok(Split { on_shards, gathering, here, names_shards });
    }
    if let Some(form) = here.take_count() {
        on_shards.push(parse::raw_of(&doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 } } })?);
        return Ok(Split { on_shards, gathering: Gathering::Counts(form), here, names_shards });
    }
    match rest.first().map(|stage| name_of(stage)) {
        Some("$sort") => {
            let sort = rest.remove(0);
            gathering =
                Gathering::Documents(parse::document(sort, "$sort")?.map(Sort::parse).transpose()?.flatten());
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
                // Names that no projection takes are sent with everything else.
                if Pipeline::parse(&[&stage], variables).is_ok() {
                    on_shards.push(stage);
                }
            }
        }
        _ => {}
    }
    Ok(Split { on_shards, gathering, here, names_shards })
}

/// No shard need send more than all together.
fn push_limit(rest: &[&RawDocument], on_shards: &mut Vec<RawDocumentBuf>) {
    if let Some(limit) = rest.first().filter(|stage| name_of(stage) == "$limit") {
        on_shards.push((*limit).to_owned());
    }
}

/// What the stages that run here may use.
pub(crate) struct RouterHost(pub(crate) Arc<Instance>);

impl Host for RouterHost {
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
        assert!(matches!(cut(&[group]).unwrap().gathering, Gathering::Documents(None)));
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

//! The writing stages of pipelines, `$out` and `$merge`.
//!
//! `$out` fills a temporary collection and then replaces the target with one rename, so that readers see all of the old or
//! all of the new data; the new collection gets the target's options and indexes. `$merge` makes one write for each row.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use fathom_query::{Code, Failure, Filter, MergePipeline, Rows, Update, Variables};

use super::expression_context::ServerHost;
use super::write::{UpdateRequest, WriteTarget, insert_documents, prepare, update};
use crate::Result;
use crate::cursors::FindQuery;
use crate::storage::{Collection, CollectionOptions, IndexSpec};

/// The numbers of rows and bytes written at once.
const MAX_GROUP_ROWS: usize = 1000;
const MAX_GROUP_BYTES: usize = 4 << 20;

/// Refuses a target that `$out` and `$merge` may not write to.
fn check_target(namespace: &str, stage: &str) -> Result<()> {
    crate::namespace::check(namespace)?;
    let database = namespace.split('.').next().unwrap_or_default();
    if crate::namespace::is_internal(namespace) {
        return Err(Failure::new(Code(17385), format!("Can't {stage} to special collection: {namespace}")));
    }
    if matches!(database, "admin" | "config" | "local") {
        return Err(Failure::new(Code(31321), format!("Can't {stage} to internal database: {database}")));
    }
    Ok(())
}

/// Serves the stage `$out`.
pub(super) fn replace(host: &ServerHost, namespace: &str, rows: Rows) -> Result<()> {
    check_target(namespace, "$out")?;
    let instance = host.context.instance();
    let (mut options, indexes) = like(host, namespace)?;
    options.set_temporary(true);
    let database = namespace.split('.').next().unwrap_or_default();
    let temporary = format!("{database}.tmp.agg_out.{}", bson::Uuid::new());
    let collection = instance.catalog.create(&temporary, options)?;
    let filled = add_indexes(host, &collection, indexes)
        .and_then(|()| fill(host, &temporary, rows))
        .and_then(|()| check_whole(host, &collection));
    let done = filled.and_then(|()| instance.catalog.rename(&temporary, namespace, true));
    if done.is_err() {
        // The client gets the original failure; a leftover collection would only take space.
        let _ = instance.catalog.drop_collection(&temporary);
    }
    done
}

/// Refuses a temporary collection that was dropped meanwhile, by a client or because this member became primary again: an insert
/// may have created another one with its name, which lacks the first rows.
fn check_whole(host: &ServerHost, collection: &Collection) -> Result<()> {
    let namespace = collection.namespace();
    match host.context.instance().catalog.get(namespace) {
        Some(now) if now.uuid() == collection.uuid() => Ok(()),
        _ => {
            Err(Failure::new(Code::NamespaceNotFound, format!("{namespace} was dropped while $out wrote it")))
        }
    }
}

/// The options and indexes of the collection being replaced.
fn like(host: &ServerHost, namespace: &str) -> Result<(CollectionOptions, Vec<IndexSpec>)> {
    let Some(target) = host.context.instance().catalog.get(namespace) else {
        return Ok((CollectionOptions::default(), Vec::new()));
    };
    let state = target.lock();
    if state.options.is_view() {
        return Err(Failure::new(
            Code::CommandNotSupportedOnView,
            format!("Namespace {namespace} is a view, not a collection"),
        ));
    }
    if state.options.is_capped() {
        return Err(Failure::new(
            Code(17152),
            format!("namespace '{namespace}' is capped so it can't be used for $out"),
        ));
    }
    let specs = state.indexes.iter().map(|index| index.spec()).filter(|spec| !spec.is_id());
    Ok((state.options.clone(), specs.cloned().collect()))
}

fn add_indexes(host: &ServerHost, collection: &Collection, specs: Vec<IndexSpec>) -> Result<()> {
    if specs.is_empty() {
        return Ok(());
    }
    let catalog = &host.context.instance().catalog;
    let mut state = collection.lock_exclusive();
    let defaults = state.options.index_defaults();
    let indexes: Result<Vec<_>> = specs
        .into_iter()
        .map(|spec| catalog.new_index(spec, &defaults, collection.namespace()).map(Arc::new))
        .collect();
    catalog.add_indexes(collection, &mut state, indexes?)
}

fn fill(host: &ServerHost, namespace: &str, rows: Rows) -> Result<()> {
    let mut group: Vec<RawDocumentBuf> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let row = row?;
        bytes += row.as_bytes().len();
        group.push(row);
        if group.len() >= MAX_GROUP_ROWS || bytes >= MAX_GROUP_BYTES {
            insert(host, namespace, &group)?;
            group.clear();
            bytes = 0;
        }
    }
    if group.is_empty() { Ok(()) } else { insert(host, namespace, &group) }
}

fn insert(host: &ServerHost, namespace: &str, group: &[RawDocumentBuf]) -> Result<()> {
    let documents: Vec<&RawDocument> = group.iter().map(AsRef::as_ref).collect();
    host.work(|op| {
        let _ticket = op.write_ticket()?;
        let (_, failures) = insert_documents(op, namespace, &documents, true, host.validate)?;
        failures.into_iter().next().map_or(Ok(()), |(_, failure)| Err(failure))
    })
}

/// The action of `$merge` on a row that matches a document.
enum MatchAction {
    Replace,
    Merge,
    Keep,
    Fail,
    Pipeline(MergePipeline),
}

pub(super) fn merge(host: &ServerHost, options: &Document, rows: Rows) -> Result<()> {
    let into = options.get_document("into").cloned().unwrap_or_default();
    let database = into.get_str("db").unwrap_or(host.database());
    let namespace = format!("{database}.{}", into.get_str("coll").unwrap_or_default());
    check_target(&namespace, "$merge")?;
    let on: Vec<String> = options
        .get_array("on")
        .map(|on| on.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    check_unique(host, &namespace, &on)?;
    let matched = match options.get("whenMatched") {
        Some(Bson::String(mode)) => match mode.as_str() {
            "replace" => MatchAction::Replace,
            "keepExisting" => MatchAction::Keep,
            "fail" => MatchAction::Fail,
            _ => MatchAction::Merge,
        },
        _ => match MergePipeline::from_options(options, &host.variables)? {
            Some(pipeline) => MatchAction::Pipeline(pipeline),
            None => MatchAction::Merge,
        },
    };
    let not_matched = options.get_str("whenNotMatched").unwrap_or("insert");
    for row in rows {
        let row = prepare(&row?)?.into_owned();
        merge_row(host, &namespace, &on, &matched, not_matched, &row)?;
    }
    Ok(())
}

/// Checks that the fields of `on`, which identify a document, are the fields of a unique index.
fn check_unique(host: &ServerHost, namespace: &str, on: &[String]) -> Result<()> {
    let Some(collection) = host.context.instance().catalog.get(namespace) else { return Ok(()) };
    let state = collection.lock();
    if state.options.is_view() {
        return Err(Failure::new(
            Code::CommandNotSupportedOnView,
            format!("Namespace {namespace} is a view, not a collection"),
        ));
    }
    let unique = state.indexes.iter().any(|index| {
        let fields = &index.pattern().fields;
        index.is_unique()
            && index.spec().partial().is_none()
            && fields.len() == on.len()
            && fields.iter().all(|field| on.contains(&field.path))
    });
    if unique {
        return Ok(());
    }
    Err(Failure::new(Code(51183), "Cannot find index to verify that join fields will be unique"))
}

fn merge_row(
    host: &ServerHost,
    namespace: &str,
    on: &[String],
    matched: &MatchAction,
    not_matched: &str,
    row: &RawDocument,
) -> Result<()> {
    let insert_row = || insert(host, namespace, &[row.to_owned()]);
    let Some(change) = change_of(matched, row)? else {
        return match (matched, insert_row()) {
            // The document exists, and must be kept.
            (MatchAction::Keep, Err(failure)) if failure.code() == Code::DuplicateKey => {
                keep_existing(host, namespace, on, row, failure)
            }
            (_, result) => result,
        };
    };
    if apply(host, namespace, on, row, change.clone())? {
        return Ok(());
    }
    match not_matched {
        "discard" => Ok(()),
        "fail" => Err(Failure::new(
            Code(13113),
            "$merge could not find a matching document in the target collection for at least one document in the source collection",
        )),
        _ => match insert_row() {
            // Another connection has inserted it meanwhile.
            Err(failure) if failure.code() == Code::DuplicateKey => {
                if apply(host, namespace, on, row, change)? { Ok(()) } else { Err(failure) }
            }
            result => result,
        },
    }
}

/// The update that a row requests when its document exists.
fn change_of(matched: &MatchAction, row: &RawDocument) -> Result<Option<Update>> {
    let variables = Variables::at(bson::DateTime::now());
    match matched {
        MatchAction::Keep | MatchAction::Fail => Ok(None),
        MatchAction::Replace => Update::parse(RawBsonRef::Document(row), &[], &variables).map(Some),
        MatchAction::Merge => {
            let set = crate::parse::raw_of(&doc! { "$set": crate::parse::owned(row)? })?;
            Update::parse(RawBsonRef::Document(&set), &[], &variables).map(Some)
        }
        MatchAction::Pipeline(pipeline) => pipeline.update_for(row).map(Some),
    }
}

/// Updates the document that matches a row; false if none exists.
fn apply(
    host: &ServerHost,
    namespace: &str,
    on: &[String],
    row: &RawDocument,
    change: Update,
) -> Result<bool> {
    let request = UpdateRequest {
        target: WriteTarget { filter: filter_of(on, row)?, hint: None, sort: None },
        update: change,
        multi: false,
        upsert: false,
        validate: host.validate,
    };
    host.work(|op| {
        let _ticket = op.write_ticket()?;
        Ok(update(op, namespace, &request)?.matched > 0)
    })
}

/// A duplicate key counts as `keepExisting` only if it is in the `on` fields.
fn keep_existing(
    host: &ServerHost,
    namespace: &str,
    on: &[String],
    row: &RawDocument,
    failure: Failure,
) -> Result<()> {
    let mut query = FindQuery::new(filter_of(on, row)?);
    query.limit = Some(1);
    match host.scan(namespace, query)?.next() {
        Some(there) => there.map(|_| ()),
        None => Err(failure),
    }
}

/// The filter that finds the document matching a row.
fn filter_of(on: &[String], row: &RawDocument) -> Result<Filter> {
    let document = crate::parse::owned(row)?;
    let mut filter = Document::new();
    for path in on {
        let value = at(&document, path);
        match value {
            None | Some(Bson::Null | Bson::Undefined) if path != "_id" => {
                let what = "$merge write error: 'on' field cannot be missing, null, undefined or an array";
                return Err(Failure::new(Code(51132), what));
            }
            Some(Bson::Array(_)) => {
                let what = "$merge write error: 'on' field cannot be missing, null, undefined or an array";
                return Err(Failure::new(Code(51185), what));
            }
            value => filter.insert(path, doc! { "$eq": value.cloned().unwrap_or(Bson::Null) }),
        };
    }
    Filter::parse(&crate::parse::raw_of(&filter)?, &Variables::at(bson::DateTime::now()))
}

fn at<'d>(document: &'d Document, path: &str) -> Option<&'d Bson> {
    match path.split_once('.') {
        None => document.get(path),
        Some((first, rest)) => at(document.get_document(first).ok()?, rest),
    }
}

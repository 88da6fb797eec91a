//! `validate`: checks a collection and its indexes through and through; counts that are off are put right.
//!
//! The collection is held alone meanwhile: reads and writes of it wait.

use bson::{Bson, Document, doc};
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;
use crate::storage::{Report, check};

/// Checks.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let namespace = request.namespace()?;
    op.figures.namespace.clone_from(&namespace);
    let full = parse::boolean(request.fields, "full")?;
    parse::boolean(request.fields, "scandata")?;
    if parse::boolean(request.fields, "background")? {
        return Err(Failure::new(
            Code::CommandNotSupported,
            "this server validates a collection while nobody else uses it: background must be false",
        ));
    }
    let exact = parse::boolean(request.fields, "enforceFastCount")?;
    let missing = || {
        let what = format!("Collection '{namespace}' does not exist to validate.");
        Failure::new(Code::NamespaceNotFound, what)
    };
    let collection = op.instance.catalog.get(&namespace).ok_or_else(missing)?;
    if collection.table().is_none() {
        return Err(Failure::new(Code::CommandNotSupportedOnView, "Cannot validate a view"));
    }
    let state = collection.lock_exclusive_unless(&|| op.check_interrupt())?;
    if state.gone {
        return Err(missing());
    }
    let mut report = check(op, &collection, &state, full)?;
    let counted = (collection.records(), collection.bytes());
    if counted.0 != report.records && exact {
        report.errors.push(format!(
            "fast count ({}) does not match number of records ({}) for collection '{namespace}'",
            counted.0, report.records
        ));
    }
    // A count that runs already puts things right itself.
    if !collection.recounting().load(std::sync::atomic::Ordering::Acquire)
        && counted != (report.records, report.bytes)
    {
        op.instance.catalog.before_write(&collection)?;
        collection.correct(report.records - counted.0, report.bytes - counted.1);
    }
    reply.string("ns", &namespace);
    write(&report, state.indexes.len(), reply);
    Ok(())
}

fn write(report: &Report, indexes: usize, reply: &mut Reply<'_>) {
    let strings = |texts: &[String]| -> Bson { texts.iter().cloned().map(Bson::String).collect() };
    reply.bson("nInvalidDocuments", &super::create::number(report.invalid));
    reply.bson("nrecords", &super::create::number(report.records));
    reply.i32("nIndexes", i32::try_from(indexes).unwrap_or(i32::MAX));
    let mut keys = reply.begin_document("keysPerIndex");
    for (name, index) in &report.indexes {
        keys.bson(name, &super::create::number(index.keys));
    }
    keys.end();
    let mut details = reply.begin_document("indexDetails");
    for (name, index) in &report.indexes {
        let mut detail: Document = doc! { "valid": index.errors.is_empty() };
        for (field, texts) in [("errors", &index.errors), ("warnings", &index.warnings)] {
            if !texts.is_empty() {
                detail.insert(field, strings(texts));
            }
        }
        details.bson(name, &Bson::Document(detail));
    }
    details.end();
    reply.bool("valid", report.is_valid());
    reply.bson("warnings", &strings(&report.warnings));
    reply.bson("errors", &strings(&report.errors));
    let documents = |documents: &[Document]| -> Bson { documents.iter().cloned().collect() };
    reply.bson("extraIndexEntries", &documents(&report.extra));
    reply.bson("missingIndexEntries", &documents(&report.missing));
}

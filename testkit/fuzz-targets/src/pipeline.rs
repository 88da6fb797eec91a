//! Fuzzes pipelines over documents: parsing, planning, explaining and running never panic, and the output consists of documents.
//!
//! The input is BSON documents, one after another: `{p: [<stages>]}`, and the rows. Other collections hold the same rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bson::{DateTime, Document, RawDocument, RawDocumentBuf, rawdoc};
use fathom_query::{Code, Failure, Pipeline, ProcessInterface, Query, Result, Rows, Variables};

/// The limit of rows and clock checks for an input: nested `$lookup` stages can be arbitrarily large.
const WORK: u32 = 20_000;

/// A server whose every collection holds the input's rows.
struct Stub {
    rows: Vec<RawDocumentBuf>,
    work: AtomicU32,
}

impl Stub {
    fn drain(mut rows: Rows) -> Result<()> {
        rows.try_for_each(|row| row.map(drop))
    }
}

impl ProcessInterface for Stub {
    fn find(&self, _collection: &str, query: Query) -> Result<Rows> {
        self.check()?;
        let matching =
            |row: &RawDocumentBuf| query.filter.matches(row).is_ok_and(|matched| matched.is_some());
        let most = query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let found: Vec<_> =
            self.rows.iter().filter(|row| matching(row)).take(most).cloned().map(Ok).collect();
        Ok(Box::new(found.into_iter()))
    }

    fn out(&self, _database: Option<&str>, _collection: &str, rows: Rows) -> Result<()> {
        Stub::drain(rows)
    }

    fn merge(&self, _options: &Document, rows: Rows) -> Result<()> {
        Stub::drain(rows)
    }

    fn special(
        &self,
        _collection: Option<&str>,
        _stage: &str,
        _options: &Document,
    ) -> Result<Vec<RawDocumentBuf>> {
        Ok(vec![rawdoc! { "a": 1 }])
    }

    fn check(&self) -> Result<()> {
        if self.work.fetch_add(1, Ordering::Relaxed) > WORK {
            return Err(Failure::new(Code::MaxTimeMSExpired, "enough"));
        }
        Ok(())
    }

    fn random(&self) -> f64 {
        0.5
    }
}

/// The documents of the input; those after a truncated one are left out.
fn split(mut input: &[u8]) -> Vec<&RawDocument> {
    let mut documents = Vec::new();
    while let Some(length) =
        input.first_chunk().and_then(|bytes| usize::try_from(i32::from_le_bytes(*bytes)).ok())
    {
        let Some((document, rest)) = input.split_at_checked(length) else { break };
        let Ok(document) = RawDocument::from_bytes(document) else { break };
        documents.push(document);
        input = rest;
    }
    documents
}

fn run(command: &RawDocument, rows: &[&RawDocument]) -> Option<()> {
    let stages: Vec<&RawDocument> =
        command.get_array("p").ok()?.into_iter().filter_map(|stage| stage.ok()?.as_document()).collect();
    let variables = Variables::at(DateTime::from_millis(0));
    if let Ok(update) = Pipeline::parse_update(&stages, &variables) {
        for row in rows {
            let _ = update.transform(row);
        }
    }
    let mut pipeline = Pipeline::parse(&stages, &variables).ok()?;
    let _ = (pipeline.to_documents().count(), pipeline.target(), pipeline.needed_fields(), pipeline.writes());
    let _ = (pipeline.collections_read(), pipeline.source(), pipeline.leading_sample());
    let _ = pipeline.clone().take_count();
    let _ = pipeline.take_query();
    let valid = rows.iter().all(|row| Document::try_from(*row).is_ok());
    let rows: Vec<RawDocumentBuf> = rows.iter().map(|&row| row.to_owned()).collect();
    let stub = Stub { rows: rows.clone(), work: AtomicU32::new(0) };
    let outcome = pipeline.run(Box::new(rows.into_iter().map(Ok)), Arc::new(stub)).ok()?;
    for row in outcome.take(WORK as usize) {
        let Ok(row) = row else { break };
        assert!(!valid || Document::try_from(row.as_ref() as &RawDocument).is_ok(), "{row:?}");
    }
    Some(())
}

pub(crate) fn take_input(input: &[u8]) {
    // Decoding by recursion is the library's, so the nesting is kept to what a short input can hold.
    if input.len() <= 4096
        && let Some((command, rows)) = split(input).split_first()
    {
        let _ = run(command, rows);
    }
}

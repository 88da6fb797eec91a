//! What a pipeline needs of the server: look-ups in other collections and views, and where `$out` and `$merge` write.

use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf};
use fathom_query::{Code, Failure, Filter, Host, Pipeline, Query, Rows, Sorter, Variables};

use super::errand::Errand;
use super::find::{FindQuery, FindState, SORT_MEMORY_BYTES};
use super::output;
use super::scan_rows::ScanRows;
use super::views::{self, VIEWS_DEEP};
use crate::Result;
use crate::diagnostics::stages;

/// The server as a pipeline sees it.
#[derive(Clone, Debug)]
pub(crate) struct ServerHost {
    pub(crate) errand: Arc<Errand>,
    /// `database.collection` that the command is about.
    pub(crate) namespace: String,
    /// What `$out` and `$merge` check documents with: not at all if `bypassDocumentValidation`.
    pub(crate) validate: bool,
    pub(crate) variables: Arc<Variables>,
    /// How many views this pipeline stands in.
    pub(crate) depth: usize,
}

impl ServerHost {
    /// The database of the command.
    pub(crate) fn database(&self) -> &str {
        self.namespace.split('.').next().unwrap_or_default()
    }

    /// The rows of a query over a collection, none if it is not there.
    pub(crate) fn scan(&self, namespace: &str, query: FindQuery) -> Result<Rows> {
        let Some(collection) = self.errand.instance().catalog.get(namespace) else {
            return Ok(Box::new(std::iter::empty()));
        };
        let session = self.errand.session()?;
        let find = self.errand.run(&*session, |op| FindState::new(op, &collection.lock(), query));
        self.errand.give_back(session);
        let find = Arc::new(parking_lot::Mutex::new(find?));
        Ok(Box::new(ScanRows::new(&self.errand, &collection, find)?))
    }

    /// The rows of a view: those of its pipeline, of which the query takes its own.
    fn view_rows(&self, resolved: views::Resolved, query: Query) -> Result<Rows> {
        if self.depth >= VIEWS_DEEP {
            let what = format!("View depth limit exceeded; maximum depth is {VIEWS_DEEP}");
            return Err(Failure::new(Code::ViewDepthLimitExceeded, what));
        }
        let parts: Vec<&RawDocument> = resolved.stages.iter().map(AsRef::as_ref).collect();
        let mut pipeline = Pipeline::parse(&parts, &self.variables)?;
        let (filter, sort, limit) = pipeline.take_query();
        let filter = Filter::parse(&crate::parse::raw_of(&filter)?, &self.variables)?;
        let mut base = FindQuery::of(filter);
        base.sort = sort;
        base.limit = limit;
        let plain = pipeline.is_empty() && base.sort.is_none() && base.limit.is_none();
        if plain {
            // A view that only filters: the indexes of what it stands on serve the query too.
            base.filter = base.filter.and(&query.filter);
        }
        let rows = self.scan(&resolved.namespace, base)?;
        let host = ServerHost { depth: self.depth + 1, ..self.clone() };
        let rows = pipeline.run(rows, Arc::new(host))?;
        take_query(rows, query, plain)
    }
}

/// Filters, sorts and limits rows that no plan did it for.
fn take_query(rows: Rows, query: Query, filtered: bool) -> Result<Rows> {
    let Query { filter, sort, limit } = query;
    let mut rows = rows;
    if !filtered && !filter.is_empty() {
        rows = Box::new(rows.filter_map(move |row| {
            let matched = row.and_then(|row| Ok(filter.matches(&row)?.map(|_| row)));
            matched.transpose()
        }));
    }
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if let Some(sort) = sort {
        let mut sorter = Sorter::new(sort, limit, SORT_MEMORY_BYTES);
        for row in rows {
            sorter.push(row?)?;
        }
        rows = Box::new(sorter.finish().into_iter().map(Ok));
    }
    Ok(match limit {
        Some(limit) => Box::new(rows.take(limit)),
        None => rows,
    })
}

impl Host for ServerHost {
    fn find(&self, collection: &str, query: Query) -> Result<Rows> {
        let namespace = format!("{}.{collection}", self.database());
        let resolved = views::resolve(&self.errand.instance().catalog, &namespace)?;
        if resolved.is_view {
            return self.view_rows(resolved, query);
        }
        let mut find = FindQuery::of(query.filter);
        find.sort = query.sort;
        find.limit = query.limit;
        self.scan(&namespace, find)
    }

    fn out(&self, database: Option<&str>, collection: &str, rows: Rows) -> Result<()> {
        let namespace = format!("{}.{collection}", database.unwrap_or(self.database()));
        output::replace(self, &namespace, rows)
    }

    fn merge(&self, options: &Document, rows: Rows) -> Result<()> {
        output::merge(self, options, rows)
    }

    fn special(
        &self,
        collection: Option<&str>,
        stage: &str,
        options: &Document,
    ) -> Result<Vec<RawDocumentBuf>> {
        let instance = self.errand.instance();
        let other = collection.map(|collection| format!("{}.{collection}", self.database()));
        let namespace = other.as_deref().unwrap_or(&self.namespace);
        let documents = match stage {
            "$collStats" => stages::coll_stats_stage(instance, namespace, options)?,
            "$indexStats" => stages::index_stats_stage(instance, namespace),
            "$currentOp" => stages::current_op_stage(instance, &self.errand.client(), options)?,
            _ => {
                let what = format!("this server does not have {stage}");
                return Err(Failure::new(Code::CommandNotSupported, what));
            }
        };
        documents.iter().map(crate::parse::raw_of).collect()
    }

    fn check(&self) -> Result<()> {
        self.errand.check()
    }

    fn random(&self) -> f64 {
        crate::random::fraction()
    }
}

//! The server's services for a pipeline: look-ups in other collections and views, and the targets of `$out` and `$merge`.

use std::sync::Arc;
use std::time::Instant;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocument, RawDocumentBuf, doc};
use fathom_query::{Code, Failure, Filter, Pipeline, ProcessInterface, Query, Rows, Sorter};

use super::expression_context::{ExpressionContext, ServerHost};
use super::find::MAX_SORT_BYTES;
use super::output;
use super::scan_rows::ScanRows;
use super::stages;
use super::views::{self, MAX_VIEW_DEPTH};
use crate::Result;
use crate::cursors::{FindQuery, FindState};
use crate::sessions::SessionOwner;

impl ServerHost {
    /// The rows of a query over a collection, none if it does not exist.
    pub(crate) fn scan(&self, namespace: &str, query: FindQuery) -> Result<Rows> {
        let Some(collection) = self.context.instance().catalog.get(namespace) else {
            return Ok(Box::new(std::iter::empty()));
        };
        let session = self.context.session()?;
        let find = self.context.run(&*session, |op| FindState::new(op, &collection.lock(), query));
        self.context.give_back(session);
        let find = Arc::new(parking_lot::Mutex::new(find?));
        Ok(Box::new(ScanRows::new(&self.context, &collection, find)?))
    }

    /// The rows of a query over a view, applied to the rows of its pipeline.
    fn view_rows(&self, resolved: views::ViewTarget, query: Query) -> Result<Rows> {
        if self.depth >= MAX_VIEW_DEPTH {
            let what = format!("View depth limit exceeded; maximum depth is {MAX_VIEW_DEPTH}");
            return Err(Failure::new(Code::ViewDepthLimitExceeded, what));
        }
        let parts: Vec<&RawDocument> = resolved.stages.iter().map(AsRef::as_ref).collect();
        let mut pipeline = Pipeline::parse(&parts, &self.variables)?;
        let (filter, sort, limit) = pipeline.take_query();
        let filter = Filter::parse(&crate::parse::raw_of(&filter)?, &self.variables)?;
        let mut base = FindQuery::new(filter);
        base.sort = sort;
        base.limit = limit;
        let plain = pipeline.is_empty() && base.sort.is_none() && base.limit.is_none();
        if plain {
            // If the view only filters, the indexes of its source serve the query too.
            base.filter = base.filter.and(&query.filter);
        }
        let rows = self.scan(&resolved.namespace, base)?;
        let host = ServerHost { depth: self.depth + 1, ..self.clone() };
        let rows = pipeline.run(rows, Arc::new(host))?;
        take_query(rows, query, plain)
    }
}

/// The recently used sessions: the client's own, or those of all users.
fn local_sessions(context: &ExpressionContext, options: &Document) -> Result<Vec<Document>> {
    if let Some(name) = options.keys().find(|name| *name != "allUsers") {
        let what = format!("this server does not have '{name}' of $listLocalSessions");
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    let all = options.get_bool("allUsers").unwrap_or(false);
    let user = context.client().users().into_iter().next();
    let own = user.map(|(name, database)| SessionOwner::new(&name, &database)).unwrap_or_default();
    let (now, today) = (Instant::now(), bson::DateTime::now().timestamp_millis());
    let sessions = context.instance().sessions.all(now).into_iter();
    let shown = sessions.filter(|(key, _)| all || key.owner == own).map(|(key, used)| {
        let ago = i64::try_from(now.saturating_duration_since(used).as_millis()).unwrap_or(i64::MAX);
        let uid = Binary { subtype: BinarySubtype::Generic, bytes: key.owner.bytes().to_vec() };
        doc! {
            "_id": { "id": bson::Uuid::from_bytes(key.id), "uid": uid },
            "lastUse": bson::DateTime::from_millis(today.saturating_sub(ago)),
        }
    });
    Ok(shown.collect())
}

/// Filters, sorts and limits rows for which no plan did it.
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
        let mut sorter = Sorter::new(sort, limit, MAX_SORT_BYTES);
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

impl ProcessInterface for ServerHost {
    fn find(&self, collection: &str, query: Query) -> Result<Rows> {
        let namespace = format!("{}.{collection}", self.database());
        let session = self.context.session()?;
        let resolved = self.context.run(&*session, |op| views::resolve(op, &namespace));
        self.context.give_back(session);
        let resolved = resolved?;
        if resolved.is_view {
            return self.view_rows(resolved, query);
        }
        let mut find = FindQuery::new(query.filter);
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
        let instance = self.context.instance();
        let other = collection.map(|collection| format!("{}.{collection}", self.database()));
        let namespace = other.as_deref().unwrap_or(&self.namespace);
        let documents = match stage {
            "$collStats" => stages::coll_stats_stage(instance, namespace, options)?,
            "$indexStats" => stages::index_stats_stage(instance, namespace),
            "$currentOp" => stages::current_op_stage(instance, &self.context.client(), options)?,
            "$listLocalSessions" => local_sessions(&self.context, options)?,
            _ => {
                let what = format!(
                    "{stage} may only be run against config.system.sessions, which a standalone server does not have"
                );
                return Err(Failure::new(Code::InvalidNamespace, what));
            }
        };
        documents.iter().map(crate::parse::raw_of).collect()
    }

    fn check(&self) -> Result<()> {
        self.context.check()
    }

    fn random(&self) -> f64 {
        crate::random::fraction()
    }
}

//! What the config servers hold, read and written: documents of the database `config`.
//!
//! Writes wait for a majority, so that no failover takes back what a shard acts upon.

use bson::{Bson, Document, RawDocument, doc};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::outgoing::Outgoing;
use crate::request::Sending;

/// The database that everything is in.
pub(crate) const CONFIG: &str = "config";

/// How a change ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Documents that were found, or inserted.
    pub(crate) matched: i64,
    /// Whether one was inserted by an upsert.
    pub(crate) upserted: bool,
}

impl Backend {
    /// All documents of a collection of `config` that match.
    pub(crate) fn config_find(
        &self,
        collection: &str,
        filter: Document,
        sort: Document,
    ) -> Result<Vec<Document>> {
        self.find_all(CONFIG, &doc! { "find": collection, "filter": filter, "sort": sort })
    }

    /// The one document of an `_id`.
    pub(crate) fn config_get(&self, collection: &str, id: impl Into<Bson>) -> Result<Option<Document>> {
        let command = doc! { "find": collection, "filter": { "_id": id.into() }, "limit": 1 };
        Ok(self.find_all(CONFIG, &command)?.into_iter().next())
    }

    /// All documents that a command with a cursor answers.
    pub(crate) fn find_all(&self, database: &str, command: &Document) -> Result<Vec<Document>> {
        let mut found = Vec::new();
        let sending = Sending::read();
        let mut outgoing = Outgoing::of(command)?;
        loop {
            let (id, collection) =
                call::call(self, database, &outgoing, &sending, |reply| read_batch(reply, &mut found))?;
            if id == 0 {
                return Ok(found);
            }
            outgoing = Outgoing::of(&doc! { "getMore": id, "collection": collection })?;
        }
    }

    /// Runs a command that changes something, with a majority where it does not say otherwise.
    pub(crate) fn change(&self, database: &str, command: Document) -> Result<Document> {
        let mut command = command;
        command.entry("writeConcern".to_owned()).or_insert_with(|| doc! { "w": "majority" }.into());
        let reply = self.command(database, &command, &Sending::write())?;
        if let Some(Bson::Document(error)) =
            reply.get_array("writeErrors").ok().and_then(|errors| errors.first())
        {
            let code = Code(error.get_i32("code").unwrap_or(Code::UnknownError.0));
            return Err(Failure::new(code, error.get_str("errmsg").unwrap_or_default().to_owned()));
        }
        if let Ok(error) = reply.get_document("writeConcernError") {
            let code = Code(error.get_i32("code").unwrap_or(Code::WriteConcernFailed.0));
            return Err(Failure::new(code, error.get_str("errmsg").unwrap_or_default().to_owned()));
        }
        Ok(reply)
    }

    /// Runs a command and gives back its reply.
    pub(crate) fn command(&self, database: &str, command: &Document, sending: &Sending) -> Result<Document> {
        let reply = call::ask(self, database, &Outgoing::of(command)?, sending)?;
        parse::owned(&reply)
    }

    /// Inserts documents in their order.
    pub(crate) fn config_insert(&self, collection: &str, documents: Vec<Document>) -> Result<()> {
        // Far below what a message holds, and below the limit of a batch.
        for part in documents.chunks(1000) {
            self.change(CONFIG, doc! { "insert": collection, "documents": part.to_vec() })?;
        }
        Ok(())
    }

    /// Updates one document, or inserts it.
    pub(crate) fn config_update(
        &self,
        collection: &str,
        filter: Document,
        change: Document,
        upsert: bool,
    ) -> Result<Changed> {
        let update = doc! { "q": filter, "u": change, "upsert": upsert };
        let reply = self.change(CONFIG, doc! { "update": collection, "updates": [update] })?;
        Ok(Changed { matched: count_of(&reply), upserted: reply.contains_key("upserted") })
    }

    /// Deletes all that match; how many there were.
    pub(crate) fn config_delete(&self, collection: &str, filter: Document) -> Result<i64> {
        let delete = doc! { "q": filter, "limit": 0 };
        let reply = self.change(CONFIG, doc! { "delete": collection, "deletes": [delete] })?;
        Ok(count_of(&reply))
    }
}

fn count_of(reply: &Document) -> i64 {
    match reply.get("n") {
        Some(Bson::Int32(count)) => i64::from(*count),
        Some(Bson::Int64(count)) => *count,
        _ => 0,
    }
}

/// Takes a batch's documents; the cursor's id and the collection that getMore must name.
fn read_batch(reply: &RawDocument, found: &mut Vec<Document>) -> Result<(i64, String)> {
    let wrong = || Failure::new(Code::InternalError, "a reply that should have a cursor has none");
    let cursor = parse::document(reply, "cursor")?.ok_or_else(wrong)?;
    let batch = match parse::documents(cursor, "firstBatch")? {
        Some(batch) => batch,
        None => parse::documents(cursor, "nextBatch")?.ok_or_else(wrong)?,
    };
    for document in batch {
        found.push(parse::owned(document)?);
    }
    let id = parse::integer(cursor, "id")?.unwrap_or(0);
    let namespace = parse::string(cursor, "ns")?.unwrap_or_default();
    Ok((id, namespace.split_once('.').map_or("", |(_, collection)| collection).to_owned()))
}

//! Reads and writes the documents of the config servers, in the database `config`.
//!
//! Writes wait for a majority, so that no failover rolls back a change that shards act upon.

use bson::{Bson, Document, RawDocument, doc};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::request::SendPolicy;
use crate::shard_command::ShardCommand;

/// The database that holds all the metadata.
pub(crate) const CONFIG: &str = "config";

/// The result of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeOutcome {
    /// Documents that matched or were inserted.
    pub(crate) matched: i64,
    /// Whether an upsert inserted a document.
    pub(crate) upserted: bool,
}

impl Backend {
    /// All matching documents of a collection of `config`.
    pub(crate) fn config_find(
        &self,
        collection: &str,
        filter: Document,
        sort: Document,
    ) -> Result<Vec<Document>> {
        self.find_all(CONFIG, &doc! { "find": collection, "filter": filter, "sort": sort })
    }

    /// The document with this `_id`.
    pub(crate) fn config_get(&self, collection: &str, id: impl Into<Bson>) -> Result<Option<Document>> {
        let command = doc! { "find": collection, "filter": { "_id": id.into() }, "limit": 1 };
        Ok(self.find_all(CONFIG, &command)?.into_iter().next())
    }

    /// All documents that a command with a cursor returns.
    pub(crate) fn find_all(&self, database: &str, command: &Document) -> Result<Vec<Document>> {
        let mut found = Vec::new();
        let sending = SendPolicy::read();
        let mut outgoing = ShardCommand::from_command(command)?;
        loop {
            let (id, collection) =
                call::call(self, database, &outgoing, &sending, |reply| read_batch(reply, &mut found))?;
            if id == 0 {
                return Ok(found);
            }
            outgoing = ShardCommand::from_command(&doc! { "getMore": id, "collection": collection })?;
        }
    }

    /// Runs a command that changes something, with a majority write concern unless the command sets one.
    pub(crate) fn change(&self, database: &str, command: Document) -> Result<Document> {
        let mut command = command;
        command.entry("writeConcern".to_owned()).or_insert_with(|| doc! { "w": "majority" }.into());
        let reply = self.command(database, &command, &SendPolicy::write())?;
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
    pub(crate) fn command(
        &self,
        database: &str,
        command: &Document,
        sending: &SendPolicy,
    ) -> Result<Document> {
        let reply = call::ask(self, database, &ShardCommand::from_command(command)?, sending)?;
        parse::owned(&reply)
    }

    /// Inserts documents in their order.
    pub(crate) fn config_insert(&self, collection: &str, documents: Vec<Document>) -> Result<()> {
        // 1000 documents are far below the limits of a message and of a batch.
        for part in documents.chunks(1000) {
            self.change(CONFIG, doc! { "insert": collection, "documents": part.to_vec() })?;
        }
        Ok(())
    }

    /// Updates one document, or inserts it if `upsert` is set.
    pub(crate) fn config_update(
        &self,
        collection: &str,
        filter: Document,
        change: Document,
        upsert: bool,
    ) -> Result<ChangeOutcome> {
        let update = doc! { "q": filter, "u": change, "upsert": upsert };
        let reply = self.change(CONFIG, doc! { "update": collection, "updates": [update] })?;
        Ok(ChangeOutcome { matched: count_of(&reply), upserted: reply.contains_key("upserted") })
    }

    /// Deletes all matching documents; returns how many it deleted.
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

/// Takes the documents of a batch; returns the cursor's id and the collection that getMore must name.
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

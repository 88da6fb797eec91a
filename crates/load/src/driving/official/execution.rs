//! Calls the driver, and rebuilds the server's reply from its result, since sources judge replies.
//!
//! An error with the server's own reply yields that reply. The driver's other errors about writes are assembled into a
//! reply. The remaining errors mean that a connection was lost or that a server was not found.

use std::io::ErrorKind as IoKind;

use bson::{RawDocument, RawDocumentBuf};
use fathom_wire::DocumentWriter;
use mongodb::error::{Error, ErrorKind, InsertManyError, WriteConcernError, WriteFailure};
use mongodb::{Collection, Cursor, Database};

use super::command::DriverCall;

/// The caller of the driver for one task.
#[derive(Debug)]
pub(super) struct Execution {
    database: Database,
    /// The collection of the last call, kept because a program keeps the handle too.
    collection: Option<Collection<RawDocumentBuf>>,
}

impl Execution {
    pub(super) fn new(database: Database) -> Execution {
        Execution { database, collection: None }
    }

    fn collection(&mut self, name: &str) -> Collection<RawDocumentBuf> {
        match &self.collection {
            Some(collection) if collection.name() == name => collection.clone(),
            _ => self.collection.insert(self.database.collection(name)).clone(),
        }
    }

    /// Carries a command out and writes its reply.
    pub(super) async fn execute(
        &mut self,
        command: DriverCall,
        reply: &mut Vec<u8>,
    ) -> Result<(), MissingReply> {
        let documents = command.documents();
        match self.call(command, reply).await {
            Ok(()) => Ok(()),
            Err(error) => refused(&error, documents, reply),
        }
    }

    async fn call(&mut self, command: DriverCall, reply: &mut Vec<u8>) -> Result<(), Error> {
        match command {
            DriverCall::FindOne { collection, filter, options } => {
                let document = self.collection(&collection).find_one(filter).with_options(options).await?;
                found(document.as_deref(), reply);
            }
            DriverCall::Find { collection, filter, options } => {
                let cursor = self.collection(&collection).find(filter).with_options(options).await?;
                all(cursor, reply).await?;
            }
            DriverCall::Aggregate { collection, pipeline, options } => {
                let cursor = self.collection(&collection).aggregate(pipeline).with_options(options).await?;
                all(cursor, reply).await?;
            }
            DriverCall::Insert { collection, documents, ordered } => {
                let collection = self.collection(&collection);
                let inserted = match documents.as_slice() {
                    [one] => collection.insert_one(one).await.map(|_| 1)?,
                    many => collection.insert_many(many).ordered(ordered).await?.inserted_ids.len(),
                };
                written(inserted as u64, reply);
            }
            DriverCall::Update { collection, filter, update, upsert, many } => {
                let collection = self.collection(&collection);
                let call = match many {
                    true => collection.update_many(filter, update),
                    false => collection.update_one(filter, update),
                };
                let result = if upsert { call.upsert(true).await? } else { call.await? };
                written(result.matched_count + u64::from(result.upserted_id.is_some()), reply);
            }
            DriverCall::Delete { collection, filter, many } => {
                let collection = self.collection(&collection);
                let call = if many { collection.delete_many(filter) } else { collection.delete_one(filter) };
                written(call.await?.deleted_count, reply);
            }
            DriverCall::Raw(command) => {
                let said = self.database.run_raw_command(command).await?;
                reply.extend_from_slice(RawDocumentBuf::try_from(&said)?.as_bytes());
            }
        }
        Ok(())
    }
}

/// Reads a cursor to its end; the driver asks for the batches.
async fn all<T>(mut cursor: Cursor<T>, reply: &mut Vec<u8>) -> Result<(), Error> {
    let mut documents: Vec<RawDocumentBuf> = Vec::new();
    while cursor.advance().await? {
        documents.push(cursor.current().to_owned());
    }
    found(documents.iter().map(|document| &**document), reply);
    Ok(())
}

/// The reason why no reply exists.
#[derive(Debug)]
pub(super) struct MissingReply {
    /// The kind that it is counted under.
    pub(super) kind: &'static str,
    /// The error message of the driver.
    pub(super) said: String,
}

/// Writes a reply with a count of written documents.
pub(super) fn written(n: u64, reply: &mut Vec<u8>) {
    let mut reply = DocumentWriter::new(reply);
    reply.i64("n", i64::try_from(n).unwrap_or(i64::MAX));
    reply.f64("ok", 1.0);
}

/// Writes a reply with a cursor's only batch, which holds `documents`.
pub(super) fn found<'d>(documents: impl IntoIterator<Item = &'d RawDocument>, reply: &mut Vec<u8>) {
    let mut reply = DocumentWriter::new(reply);
    let mut cursor = reply.begin_document("cursor");
    let mut batch = cursor.begin_array("firstBatch");
    documents.into_iter().for_each(|document| batch.document(document));
    batch.end();
    cursor.i64("id", 0);
    cursor.end();
    reply.f64("ok", 1.0);
}

/// Writes the reply for an error; a write was to write `documents` documents.
///
/// # Errors
/// An error without a reply of the server.
pub(super) fn refused(error: &Error, documents: usize, reply: &mut Vec<u8>) -> Result<(), MissingReply> {
    reply.clear();
    match &*error.kind {
        // An insert is one command or several, so its errors must be combined.
        ErrorKind::InsertMany(errors) => refused_inserts(errors, documents, reply),
        _ if error.server_response().is_some() => {
            reply.extend(error.server_response().into_iter().flat_map(|said| said.as_bytes()));
        }
        ErrorKind::Command(error) => {
            let mut reply = DocumentWriter::new(reply);
            reply.f64("ok", 0.0);
            reply.string("errmsg", &error.message);
            reply.i32("code", error.code);
            reply.string("codeName", &error.code_name);
        }
        ErrorKind::Write(WriteFailure::WriteError(error)) => {
            refused_writes(0, [(0, error.code, error.message.as_str())], None, reply);
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
            refused_writes(documents, [], Some(error), reply);
        }
        _ => return Err(lost(error)),
    }
    Ok(())
}

fn refused_inserts(errors: &InsertManyError, documents: usize, reply: &mut Vec<u8>) {
    let failed = errors.write_errors.as_deref().unwrap_or_default();
    let each = failed.iter().map(|error| (error.index, error.code, error.message.as_str()));
    let written = documents.saturating_sub(failed.len());
    refused_writes(written, each, errors.write_concern_error.as_ref(), reply);
}

fn refused_writes<'e>(
    written: usize,
    errors: impl IntoIterator<Item = (usize, i32, &'e str)>,
    concern: Option<&WriteConcernError>,
    reply: &mut Vec<u8>,
) {
    let mut reply = DocumentWriter::new(reply);
    reply.i64("n", i64::try_from(written).unwrap_or(i64::MAX));
    let mut errors = errors.into_iter().peekable();
    if errors.peek().is_some() {
        let mut list = reply.begin_array("writeErrors");
        for (index, code, message) in errors {
            let mut error = list.begin_document();
            error.i32("index", i32::try_from(index).unwrap_or(i32::MAX));
            error.i32("code", code);
            error.string("errmsg", message);
        }
    }
    if let Some(concern) = concern {
        let mut error = reply.begin_document("writeConcernError");
        error.i32("code", concern.code);
        error.string("errmsg", &concern.message);
    }
    reply.f64("ok", 1.0);
}

fn lost(error: &Error) -> MissingReply {
    let kind = match &*error.kind {
        ErrorKind::Io(error) => match error.kind() {
            IoKind::UnexpectedEof => "connection closed",
            IoKind::ConnectionReset | IoKind::BrokenPipe => "connection reset",
            _ => "connection failed",
        },
        ErrorKind::ConnectionPoolCleared { .. } => "connection closed",
        ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. } => "cannot connect",
        ErrorKind::Authentication { .. } => "not let in",
        ErrorKind::InvalidResponse { .. } => "protocol",
        _ => "the driver's own",
    };
    MissingReply { kind, said: error.kind.to_string() }
}

#[cfg(test)]
mod tests {
    use fathom_wire::Code;

    use super::*;
    use crate::reply::ReplyContent;

    fn answer(reply: &[u8]) -> ReplyContent<'_> {
        ReplyContent::from_reply(RawDocument::from_bytes(reply).unwrap())
    }

    #[test]
    fn replies_are_put_together_again() {
        let mut reply = Vec::new();
        written(3, &mut reply);
        assert!(answer(&reply).is_clean() && answer(&reply).n == 3);
        reply.clear();
        let one = bson::rawdoc! { "_id": 1 };
        found([&*one, &*one], &mut reply);
        let (batch, id) = answer(&reply).batch();
        assert_eq!((batch.unwrap().into_iter().count(), id), (2, 0));
    }

    #[test]
    fn errors_of_writes_keep_the_servers_code() {
        let mut reply = Vec::new();
        refused_writes(4, [(2, 11000, "twice")], None, &mut reply);
        let whole = RawDocument::from_bytes(&reply).unwrap();
        let answer = ReplyContent::from_reply(whole);
        assert_eq!((answer.ok, answer.n, answer.failed_writes()), (true, 4, 1));
        let failure = answer.failure(whole).unwrap();
        assert_eq!((failure.code(), failure.message()), (Code(11000), "twice"));
        let custom = Error::custom("of our own");
        assert_eq!(refused(&custom, 1, &mut reply).unwrap_err().kind, "the driver's own");
    }
}

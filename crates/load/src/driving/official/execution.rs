//! Calls of the driver, and what it answers as the reply that the server gave: sources judge replies.
//!
//! An error that comes with the server's own reply hands that on; the driver's other errors about writes are put
//! together again; what is left is a connection that was lost, or a server that was not found.

use std::io::ErrorKind as IoKind;

use bson::{RawDocument, RawDocumentBuf};
use fathom_wire::DocumentWriter;
use mongodb::error::{Error, ErrorKind, InsertManyError, WriteConcernError, WriteFailure};
use mongodb::{Collection, Cursor, Database};

use super::command::Command;

/// Who calls the driver for one task.
#[derive(Debug)]
pub(super) struct Execution {
    database: Database,
    /// The collection of the last call: a program keeps the handle.
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
    pub(super) async fn execute(&mut self, command: Command, reply: &mut Vec<u8>) -> Result<(), Lost> {
        let documents = command.documents();
        match self.call(command, reply).await {
            Ok(()) => Ok(()),
            Err(error) => refused(&error, documents, reply),
        }
    }

    async fn call(&mut self, command: Command, reply: &mut Vec<u8>) -> Result<(), Error> {
        match command {
            Command::FindOne { collection, filter, options } => {
                let document = self.collection(&collection).find_one(filter).with_options(options).await?;
                found(document.as_deref(), reply);
            }
            Command::Find { collection, filter, options } => {
                let cursor = self.collection(&collection).find(filter).with_options(options).await?;
                all(cursor, reply).await?;
            }
            Command::Aggregate { collection, pipeline, options } => {
                let cursor = self.collection(&collection).aggregate(pipeline).with_options(options).await?;
                all(cursor, reply).await?;
            }
            Command::Insert { collection, documents, ordered } => {
                let collection = self.collection(&collection);
                let inserted = match documents.as_slice() {
                    [one] => collection.insert_one(one).await.map(|_| 1)?,
                    many => collection.insert_many(many).ordered(ordered).await?.inserted_ids.len(),
                };
                written(inserted as u64, reply);
            }
            Command::Update { collection, filter, update, upsert, many } => {
                let collection = self.collection(&collection);
                let call = match many {
                    true => collection.update_many(filter, update),
                    false => collection.update_one(filter, update),
                };
                let result = if upsert { call.upsert(true).await? } else { call.await? };
                written(result.matched_count + u64::from(result.upserted_id.is_some()), reply);
            }
            Command::Delete { collection, filter, many } => {
                let collection = self.collection(&collection);
                let call = if many { collection.delete_many(filter) } else { collection.delete_one(filter) };
                written(call.await?.deleted_count, reply);
            }
            Command::Raw(command) => {
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

/// Why there is no reply.
#[derive(Debug)]
pub(super) struct Lost {
    /// The kind that it is counted under.
    pub(super) kind: &'static str,
    /// What the driver said.
    pub(super) said: String,
}

/// A count of written documents.
pub(super) fn written(n: u64, reply: &mut Vec<u8>) {
    let mut reply = DocumentWriter::new(reply);
    reply.i64("n", i64::try_from(n).unwrap_or(i64::MAX));
    reply.f64("ok", 1.0);
}

/// A cursor's only batch, of what `documents` puts in.
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

/// The reply that an error stands for; of a write, `documents` were to be written.
///
/// # Errors
/// Where the server did not reply.
pub(super) fn refused(error: &Error, documents: usize, reply: &mut Vec<u8>) -> Result<(), Lost> {
    reply.clear();
    match &*error.kind {
        // An insert is one command or several, so only its errors put together tell all.
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

fn lost(error: &Error) -> Lost {
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
    Lost { kind, said: error.kind.to_string() }
}

#[cfg(test)]
mod tests {
    use fathom_wire::Code;

    use super::*;
    use crate::reply::Answer;

    fn answer(reply: &[u8]) -> Answer<'_> {
        Answer::of(RawDocument::from_bytes(reply).unwrap())
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
        let answer = Answer::of(whole);
        assert_eq!((answer.ok, answer.n, answer.failed_writes()), (true, 4, 1));
        let failure = answer.failure(whole).unwrap();
        assert_eq!((failure.code(), failure.message()), (Code(11000), "twice"));
        let custom = Error::custom("of our own");
        assert_eq!(refused(&custom, 1, &mut reply).unwrap_err().kind, "the driver's own");
    }
}

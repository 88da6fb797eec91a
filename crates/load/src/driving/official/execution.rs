//! Calls of the driver, and their results as the server's reply.

use bson::RawDocumentBuf;
use mongodb::error::Error;
use mongodb::{Collection, Cursor, Database};

use super::answers::{self, Lost};
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
            Err(error) => answers::refused(&error, documents, reply),
        }
    }

    async fn call(&mut self, command: Command, reply: &mut Vec<u8>) -> Result<(), Error> {
        match command {
            Command::FindOne { collection, filter, options } => {
                let found = self.collection(&collection).find_one(filter).with_options(options).await?;
                answers::found(found.as_deref(), reply);
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
                answers::written(inserted as u64, reply);
            }
            Command::Update { collection, filter, update, upsert, many } => {
                let collection = self.collection(&collection);
                let call = match many {
                    true => collection.update_many(filter, update),
                    false => collection.update_one(filter, update),
                };
                let result = if upsert { call.upsert(true).await? } else { call.await? };
                answers::written(result.matched_count + u64::from(result.upserted_id.is_some()), reply);
            }
            Command::Delete { collection, filter, many } => {
                let collection = self.collection(&collection);
                let call = if many { collection.delete_many(filter) } else { collection.delete_one(filter) };
                answers::written(call.await?.deleted_count, reply);
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
    answers::found(documents.iter().map(|document| &**document), reply);
    Ok(())
}

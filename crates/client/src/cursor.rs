//! Iterates over the cursors that find, aggregate, listCollections and similar commands return, batch by batch.

use bson::{RawDocument, RawDocumentBuf, doc};

use crate::{CommandDocument, Connection, Error, Result};

impl Connection {
    /// Runs a command that returns a cursor, and iterates over its documents.
    pub fn cursor(
        &mut self,
        database: &str,
        command: &(impl CommandDocument + ?Sized),
    ) -> Result<RemoteCursor<'_>> {
        RemoteCursor::open(self, database, command)
    }
}

/// The documents of a cursor. It requests more when a batch is used up; a cursor that is not read to its end stays on the server
/// until [`RemoteCursor::close`], or until the server times it out.
#[derive(Debug)]
pub struct RemoteCursor<'c> {
    connection: &'c mut Connection,
    database: String,
    collection: String,
    id: i64,
    batch: std::vec::IntoIter<RawDocumentBuf>,
    batch_size: Option<i32>,
}

impl<'c> RemoteCursor<'c> {
    fn open(
        connection: &'c mut Connection,
        database: &str,
        command: &(impl CommandDocument + ?Sized),
    ) -> Result<RemoteCursor<'c>> {
        let reply = connection.run(database, command)?;
        let mut cursor = RemoteCursor {
            connection,
            database: database.to_owned(),
            collection: String::new(),
            id: 0,
            batch: Vec::new().into_iter(),
            batch_size: None,
        };
        cursor.load(&reply, "firstBatch")?;
        Ok(cursor)
    }

    /// Sets the number of documents in further batches.
    #[must_use]
    pub fn batch_size(mut self, count: i32) -> Self {
        self.batch_size = Some(count);
        self
    }

    /// The cursor's id on the server; 0 once it is exhausted.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Closes the cursor on the server, if it is open there.
    pub fn close(self) -> Result<()> {
        if self.id != 0 {
            let command = doc! { "killCursors": &self.collection, "cursors": [self.id] };
            self.connection.run(&self.database, &command)?;
        }
        Ok(())
    }

    fn get_more(&mut self) -> Result<()> {
        let mut command = doc! { "getMore": self.id, "collection": &self.collection };
        if let Some(count) = self.batch_size {
            command.insert("batchSize", count);
        }
        let reply = self.connection.run(&self.database, &command)?;
        self.load(&reply, "nextBatch")
    }

    fn load(&mut self, reply: &RawDocument, field: &str) -> Result<()> {
        let cursor = reply.get_document("cursor").map_err(Error::protocol)?;
        let batch = cursor.get_array(field).map_err(Error::protocol)?;
        let documents = batch.into_iter().map(|item| match item {
            Ok(value) => {
                value.as_document().map(RawDocument::to_owned).ok_or("a batch holds no documents".to_owned())
            }
            Err(cause) => Err(cause.to_string()),
        });
        self.batch = documents.collect::<Result<Vec<_>, _>>().map_err(Error::protocol)?.into_iter();
        self.id = cursor.get_i64("id").map_err(Error::protocol)?;
        // getMore names the collection, which the server may have invented (as for listCollections).
        if let Ok((_, collection)) =
            cursor.get_str("ns").map(|name| name.split_once('.').unwrap_or(("", name)))
        {
            collection.clone_into(&mut self.collection);
        }
        Ok(())
    }
}

impl Iterator for RemoteCursor<'_> {
    type Item = Result<RawDocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.batch.next() {
                return Some(Ok(document));
            }
            if self.id == 0 {
                return None;
            }
            if let Err(error) = self.get_more() {
                // Asking again would not help.
                self.id = 0;
                return Some(Err(error));
            }
        }
    }
}

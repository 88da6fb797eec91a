//! Goes through what find, aggregate, listCollections and their like answer, batch by batch.

use bson::{RawDocument, RawDocumentBuf, doc};

use crate::{Command, Connection, Error, Result};

impl Connection {
    /// Runs a command that answers with a cursor, and goes through its documents.
    pub fn cursor(&mut self, database: &str, command: &(impl Command + ?Sized)) -> Result<Cursor<'_>> {
        Cursor::open(self, database, command)
    }
}

/// The documents of a cursor. It asks for more when a batch is used up; a cursor that is not read to its end stays on the
/// server until [`Cursor::close`], or until the server gives it up.
#[derive(Debug)]
pub struct Cursor<'c> {
    connection: &'c mut Connection,
    database: String,
    collection: String,
    id: i64,
    batch: std::vec::IntoIter<RawDocumentBuf>,
    batch_size: Option<i32>,
}

impl<'c> Cursor<'c> {
    fn open(
        connection: &'c mut Connection,
        database: &str,
        command: &(impl Command + ?Sized),
    ) -> Result<Cursor<'c>> {
        let reply = connection.run(database, command)?;
        let mut cursor = Cursor {
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

    /// How many documents a further batch may have.
    #[must_use]
    pub fn batch_size(mut self, count: i32) -> Self {
        self.batch_size = Some(count);
        self
    }

    /// The server's number of the cursor; 0 when it has no more.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Ends the cursor on the server, if it is open there.
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
        // getMore names the collection, which the server may have made up (as for listCollections).
        if let Ok((_, collection)) =
            cursor.get_str("ns").map(|name| name.split_once('.').unwrap_or(("", name)))
        {
            collection.clone_into(&mut self.collection);
        }
        Ok(())
    }
}

impl Iterator for Cursor<'_> {
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

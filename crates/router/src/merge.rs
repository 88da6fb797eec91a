//! Merges the documents of several shards into one stream: as they arrive, or in the order of a sort that each shard has already
//! applied to its own documents.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf, doc};
use fathom_query::{Filter, Projection, Sort, Variables};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::request::SendPolicy;
use crate::shard_command::ShardCommand;

#[derive(Debug)]
struct ShardCursor {
    backend: Arc<Backend>,
    /// 0 when the shard is exhausted.
    id: i64,
    collection: String,
    batch: VecDeque<RawDocumentBuf>,
    /// The sort key of the first document of the batch, if documents are merged in order.
    key: Option<Vec<u8>>,
}

/// The processing of the documents at the router.
#[derive(Debug, Default)]
pub(crate) struct MergeShape {
    pub(crate) sort: Option<Sort>,
    pub(crate) skip: u64,
    pub(crate) limit: Option<u64>,
    /// A projection that the shards cannot apply, with the filter that decides the position of `$`.
    pub(crate) projection: Option<(Projection, Filter, Variables)>,
}

#[derive(Debug)]
pub(crate) struct ReplyMerge {
    database: String,
    streams: Vec<ShardCursor>,
    shape: MergeShape,
    sending: SendPolicy,
    batch_size: Option<i64>,
    skipped: u64,
    returned: u64,
    /// A document that did not fit into the last batch.
    kept: Option<RawDocumentBuf>,
}

impl ReplyMerge {
    /// Sends each shard a command that returns a cursor. If one fails, the cursors of the others are closed again.
    pub(crate) fn open(
        database: &str,
        commands: &[(Arc<Backend>, ShardCommand<'_>)],
        sending: SendPolicy,
        shape: MergeShape,
        batch_size: Option<i64>,
    ) -> Result<ReplyMerge> {
        let replies = call::ask_all(database, commands, &sending);
        let mut merge = ReplyMerge {
            database: database.to_owned(),
            streams: Vec::with_capacity(replies.len()),
            shape,
            sending,
            batch_size,
            skipped: 0,
            returned: 0,
            kept: None,
        };
        let mut failed = None;
        for (reply, (backend, _)) in replies.into_iter().zip(commands) {
            let stream = reply.and_then(|reply| {
                let mut stream = ShardCursor {
                    backend: Arc::clone(backend),
                    id: 0,
                    collection: String::new(),
                    batch: VecDeque::new(),
                    key: None,
                };
                stream.load(&reply)?;
                Ok(stream)
            });
            match stream {
                Ok(stream) => merge.streams.push(stream),
                Err(failure) => failed = Some(failed.unwrap_or(failure)),
            }
        }
        match failed {
            None => Ok(merge),
            Some(failure) => {
                merge.close();
                Err(failure)
            }
        }
    }

    /// Sets the size of further batches of a shard.
    pub(crate) fn set_batch_size(&mut self, batch_size: Option<i64>) {
        self.batch_size = batch_size;
    }

    /// Whether no documents are left.
    pub(crate) fn is_done(&self) -> bool {
        let used_up = self.streams.iter().all(|stream| stream.id == 0 && stream.batch.is_empty());
        self.kept.is_none() && (used_up || self.shape.limit.is_some_and(|limit| self.returned >= limit))
    }

    /// Puts back a document that did not fit into the last batch.
    pub(crate) fn put_back(&mut self, document: RawDocumentBuf) {
        self.kept = Some(document);
    }

    /// The next document as the client gets it.
    pub(crate) fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Some(kept) = self.kept.take() {
            return Ok(Some(kept));
        }
        if self.shape.limit.is_some_and(|limit| self.returned >= limit) {
            return Ok(None);
        }
        while let Some(document) = self.next_of_all()? {
            if self.skipped < self.shape.skip {
                self.skipped += 1;
                continue;
            }
            self.returned += 1;
            return self.projected(document).map(Some);
        }
        Ok(None)
    }

    fn projected(&self, document: RawDocumentBuf) -> Result<RawDocumentBuf> {
        let Some((projection, filter, variables)) = &self.shape.projection else { return Ok(document) };
        let matched = match projection.is_positional() {
            true => filter.matches(&document)?.unwrap_or_default(),
            false => fathom_query::FilterMatch::default(),
        };
        projection.apply(&document, matched, variables)
    }

    fn next_of_all(&mut self) -> Result<Option<RawDocumentBuf>> {
        match self.shape.sort.is_some() {
            true => self.next_in_order(),
            false => self.next_as_it_comes(),
        }
    }

    fn next_as_it_comes(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(document) = self.streams.iter_mut().find_map(|stream| stream.batch.pop_front()) {
                return Ok(Some(document));
            }
            if self.streams.iter().all(|stream| stream.id == 0) {
                return Ok(None);
            }
            self.fetch()?;
        }
    }

    /// The smallest of the first documents; of equal ones, that of the shard whose name sorts first.
    fn next_in_order(&mut self) -> Result<Option<RawDocumentBuf>> {
        while self.streams.iter().any(|stream| stream.batch.is_empty() && stream.id != 0) {
            self.fetch()?;
        }
        let Some(sort) = &self.shape.sort else { return Ok(None) };
        for stream in &mut self.streams {
            if stream.key.is_none() {
                stream.key = stream.batch.front().map(|document| sort.key(document));
            }
        }
        let with_key = self.streams.iter_mut().filter(|stream| stream.key.is_some());
        let Some(least) = with_key.min_by(|one, other| one.key.cmp(&other.key)) else { return Ok(None) };
        least.key = None;
        Ok(least.batch.pop_front())
    }

    /// Asks all shards whose batch is used up for more, all at once.
    fn fetch(&mut self) -> Result<()> {
        let mut commands = Vec::new();
        let mut asked = Vec::new();
        for (place, stream) in self.streams.iter().enumerate() {
            if !stream.batch.is_empty() || stream.id == 0 {
                continue;
            }
            let mut command = doc! { "getMore": stream.id, "collection": &stream.collection };
            if let Some(size) = self.batch_size.filter(|size| *size > 0) {
                command.insert("batchSize", size);
            }
            commands.push((Arc::clone(&stream.backend), ShardCommand::from_command(&command)?));
            asked.push(place);
        }
        // A batch that was lost in transit cannot be read again.
        let sending = SendPolicy { idempotent: false, ..self.sending.clone() };
        let replies = call::ask_all(&self.database, &commands, &sending);
        for (reply, place) in replies.into_iter().zip(asked) {
            if let Some(stream) = self.streams.get_mut(place) {
                stream.load(&reply?)?;
            }
        }
        Ok(())
    }

    /// Closes the cursors on the shards.
    pub(crate) fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        for stream in self.streams.drain(..).filter(|stream| stream.id != 0) {
            kill(&stream.backend, &self.database, &stream.collection, stream.id);
        }
    }
}

impl Drop for ReplyMerge {
    fn drop(&mut self) {
        self.end();
    }
}

impl ShardCursor {
    fn load(&mut self, reply: &RawDocument) -> Result<()> {
        let wrong =
            || Failure::new(Code::InternalError, "a shard's reply that should have a cursor has none");
        let cursor = parse::document(reply, "cursor")?.ok_or_else(wrong)?;
        let batch = match parse::documents(cursor, "firstBatch")? {
            Some(batch) => batch,
            None => parse::documents(cursor, "nextBatch")?.ok_or_else(wrong)?,
        };
        self.batch.extend(batch.into_iter().map(RawDocument::to_owned));
        self.id = parse::integer(cursor, "id")?.unwrap_or(0);
        let namespace = parse::string(cursor, "ns")?.unwrap_or_default();
        if let Some((_, collection)) = namespace.split_once('.') {
            collection.clone_into(&mut self.collection);
        }
        Ok(())
    }
}

/// Closes a shard's cursor; a shard that cannot be reached lets it time out.
pub(crate) fn kill(backend: &Backend, database: &str, collection: &str, id: i64) {
    let command = doc! { "killCursors": collection, "cursors": [id] };
    if let Ok(command) = ShardCommand::from_command(&command) {
        let _ = call::ask(backend, database, &command, &SendPolicy::write());
    }
}

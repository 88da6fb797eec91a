//! A command for a shard: its fields, its document sequences, and the versions that the shard compares with its own. Also passes
//! the shard's reply on to the client.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_sharding::ShardVersion;
use fathom_wire::{Code, DocumentWriter, Failure, OpMsgWriter};

use crate::Result;
use crate::request::Request;

/// Fields that apply to one hop only: the router sets its own.
const OF_THE_REQUEST: &[&str] =
    &["$db", "shardVersion", "databaseVersion", "$clusterTime", "$configServerState"];

/// The router's view of a shard.
#[derive(Clone, Debug)]
pub(crate) struct ShardVersions {
    /// The version of the collection on the shard.
    pub(crate) shard: ShardVersion,
    /// The version of the database, for collections on its primary shard.
    pub(crate) database: Option<Document>,
}

#[derive(Clone, Debug)]
pub(crate) struct ShardCommand<'a> {
    body: RawDocumentBuf,
    sequence: Option<(&'static str, Vec<&'a RawDocument>)>,
    versions: Option<ShardVersions>,
}

impl<'a> ShardCommand<'a> {
    /// A command whose fields `write` writes.
    pub(crate) fn written(write: impl FnOnce(&mut DocumentWriter<'_>)) -> Result<ShardCommand<'a>> {
        let mut bytes = Vec::with_capacity(256);
        let mut body = DocumentWriter::new(&mut bytes);
        write(&mut body);
        body.end();
        let body = RawDocumentBuf::from_bytes(bytes)
            .map_err(|error| Failure::new(Code::InternalError, format!("a command is not BSON: {error}")))?;
        Ok(ShardCommand { body, sequence: None, versions: None })
    }

    /// A command of the router itself.
    pub(crate) fn from_command(command: &Document) -> Result<ShardCommand<'a>> {
        ShardCommand::written(|body| body.extend(command))
    }

    /// A client's request, without the fields in `left_out`, and with the fields that `write` adds.
    pub(crate) fn forwarded(
        request: &Request<'_>,
        left_out: &[&str],
        write: impl FnOnce(&mut DocumentWriter<'_>),
    ) -> Result<ShardCommand<'a>> {
        ShardCommand::written(|body| {
            // The body was validated when it arrived: reading a field cannot fail.
            let _ = request.fields.each(|name, value| {
                if !OF_THE_REQUEST.contains(&name) && !left_out.contains(&name) {
                    body.value(name, value);
                }
                Ok(())
            });
            write(body);
        })
    }

    #[must_use]
    pub(crate) fn with_sequence(
        mut self,
        name: &'static str,
        documents: Vec<&'a RawDocument>,
    ) -> ShardCommand<'a> {
        self.sequence = Some((name, documents));
        self
    }

    /// Adds the document sequences of the request, if it has any.
    #[must_use]
    pub(crate) fn with_sequence_of(mut self, request: &Request<'a>) -> ShardCommand<'a> {
        self.sequence = request.sequence();
        self
    }

    /// Adds the versions that the shard compares with its own.
    #[must_use]
    pub(crate) fn with_versions(mut self, versions: Option<ShardVersions>) -> ShardCommand<'a> {
        self.versions = versions;
        self
    }

    /// Writes it as a message.
    pub(crate) fn write(&self, database: &str, message: &mut OpMsgWriter<'_>) {
        let mut body = message.body();
        body.extend_raw(&self.body);
        body.string("$db", database);
        if let Some(versions) = &self.versions {
            versions.shard.write(&mut body, "shardVersion");
            if let Some(version) = &versions.database {
                body.bson("databaseVersion", &Bson::Document(version.clone()));
            }
        }
        body.end();
        if let Some((name, documents)) = &self.sequence {
            let mut sequence = message.sequence(name);
            documents.iter().for_each(|document| sequence.document(document));
        }
    }
}

/// Copies the fields that `wanted` picks.
pub(crate) fn copy(document: &RawDocument, into: &mut DocumentWriter<'_>, wanted: impl Fn(&str) -> bool) {
    for (name, value) in fields_of(document) {
        if wanted(name) {
            into.value(name, value);
        }
    }
}

/// The fields of a document that was validated when it arrived.
pub(crate) fn fields_of(document: &RawDocument) -> impl Iterator<Item = (&str, RawBsonRef<'_>)> {
    document.iter().map_while(std::result::Result::ok).map(|(name, value)| (name.as_str(), value))
}

/// Fields of a shard's reply that apply to that hop only.
pub(crate) const OF_THE_REPLY: &[&str] =
    &["ok", "$clusterTime", "operationTime", "$configServerState", "$gleStats", "lastCommittedOpTime"];

/// Passes a shard's reply on to the client.
pub(crate) fn pass_on(answer: &RawDocument, reply: &mut DocumentWriter<'_>) {
    copy(answer, reply, |name| !OF_THE_REPLY.contains(&name));
}

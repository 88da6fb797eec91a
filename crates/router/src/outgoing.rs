//! A command on its way to a shard: its fields, documents beside it, and the versions that the shard is to compare with its own. The shard's reply
//! on its way to the client.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_sharding::ShardVersion;
use fathom_wire::{Code, DocumentWriter, Failure, OpMsgWriter};

use crate::Result;
use crate::request::Request;

/// Fields that belong to one hop: the router sets its own.
const OF_THE_REQUEST: &[&str] =
    &["$db", "shardVersion", "databaseVersion", "$clusterTime", "$configServerState"];

/// What the router believes of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    /// Of the collection.
    pub(crate) shard: ShardVersion,
    /// Of the database, for what lives on its primary shard.
    pub(crate) database: Option<Document>,
}

/// A command.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<'a> {
    body: RawDocumentBuf,
    sequence: Option<(&'static str, Vec<&'a RawDocument>)>,
    versions: Option<Versions>,
}

impl<'a> Outgoing<'a> {
    /// A command that `write` writes.
    pub(crate) fn written(write: impl FnOnce(&mut DocumentWriter<'_>)) -> Result<Outgoing<'a>> {
        let mut bytes = Vec::with_capacity(256);
        let mut body = DocumentWriter::new(&mut bytes);
        write(&mut body);
        body.end();
        let body = RawDocumentBuf::from_bytes(bytes)
            .map_err(|error| Failure::new(Code::InternalError, format!("a command is not BSON: {error}")))?;
        Ok(Outgoing { body, sequence: None, versions: None })
    }

    /// A command of the router's own.
    pub(crate) fn of(command: &Document) -> Result<Outgoing<'a>> {
        Outgoing::written(|body| body.extend(command))
    }

    /// A request as it came, without the fields in `left_out`, and with what `write` adds.
    pub(crate) fn forwarded(
        request: &Request<'_>,
        left_out: &[&str],
        write: impl FnOnce(&mut DocumentWriter<'_>),
    ) -> Result<Outgoing<'a>> {
        Outgoing::written(|body| {
            // The body was validated when it came: no field of it fails.
            let _ = request.fields.each(|name, value| {
                if !OF_THE_REQUEST.contains(&name) && !left_out.contains(&name) {
                    body.value(name, value);
                }
                Ok(())
            });
            write(body);
        })
    }

    /// With documents beside it.
    #[must_use]
    pub(crate) fn with_sequence(
        mut self,
        name: &'static str,
        documents: Vec<&'a RawDocument>,
    ) -> Outgoing<'a> {
        self.sequence = Some((name, documents));
        self
    }

    /// With the documents that came beside the request, if there were any.
    #[must_use]
    pub(crate) fn with_sequence_of(mut self, request: &Request<'a>) -> Outgoing<'a> {
        self.sequence = request.sequence();
        self
    }

    /// With the versions that the shard is to compare.
    #[must_use]
    pub(crate) fn with_versions(mut self, versions: Option<Versions>) -> Outgoing<'a> {
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

/// Fields of a shard's reply that are about that one hop.
pub(crate) const OF_THE_REPLY: &[&str] =
    &["ok", "$clusterTime", "operationTime", "$configServerState", "$gleStats", "lastCommittedOpTime"];

/// Hands a shard's reply on.
pub(crate) fn pass_on(answer: &RawDocument, reply: &mut DocumentWriter<'_>) {
    copy(answer, reply, |name| !OF_THE_REPLY.contains(&name));
}

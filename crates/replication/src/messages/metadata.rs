//! `$replData` and `$oplogQueryData`: what travels beside replies between members (mongodb/mongo:src/mongo/rpc/metadata/
//! repl_set_metadata.cpp, oplog_query_metadata.cpp).

use bson::oid::ObjectId;
use bson::{Document, doc};
use fathom_wire::Failure;

use crate::fields;
use crate::optime::{OpTime, check_term};

/// `$replData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicationMetadata {
    /// The sender's term.
    pub term: i64,
    /// The commit point that it knows.
    pub last_committed: OpTime,
    /// The newest entry that its clients may read.
    pub last_visible: OpTime,
    /// The version of its configuration.
    pub config_version: i64,
    /// The id of its set.
    pub replica_set_id: Option<ObjectId>,
    /// The index of the primary that it knows, in its configuration.
    pub primary_index: Option<usize>,
    /// The index of the member that it fetches from.
    pub sync_source_index: Option<usize>,
}

impl ReplicationMetadata {
    /// The value of the field.
    pub fn to_document(&self) -> Document {
        doc! {
            "term": self.term,
            "lastOpCommitted": self.last_committed.to_document(),
            "lastOpVisible": self.last_visible.to_document(),
            "configVersion": self.config_version,
            "replicaSetId": self.replica_set_id.unwrap_or(ObjectId::from_bytes([0; 12])),
            "primaryIndex": index_to_number(self.primary_index),
            "syncSourceIndex": index_to_number(self.sync_source_index),
        }
    }

    /// Reads the value of the field.
    pub fn from_document(document: &Document) -> Result<ReplicationMetadata, Failure> {
        Ok(ReplicationMetadata {
            term: check_term(fields::integer(document, "term")?.ok_or_else(|| fields::missing("term"))?)?,
            last_committed: OpTime::required(document, "lastOpCommitted")?,
            last_visible: OpTime::required(document, "lastOpVisible")?,
            config_version: fields::integer(document, "configVersion")?
                .ok_or_else(|| fields::missing("configVersion"))?,
            replica_set_id: fields::object_id(document, "replicaSetId")?.filter(|id| id.bytes() != [0; 12]),
            primary_index: index_in(document, "primaryIndex")?,
            sync_source_index: index_in(document, "syncSourceIndex")?,
        })
    }

    /// `$replData` of a command or reply, where it is a document: in a request a number asks for it.
    pub fn beside(document: &Document) -> Result<Option<ReplicationMetadata>, Failure> {
        match document.get("$replData") {
            Some(bson::Bson::Document(value)) => ReplicationMetadata::from_document(value).map(Some),
            _ => Ok(None),
        }
    }
}

/// `$oplogQueryData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OplogQueryMetadata {
    /// The commit point that the sync source knows.
    pub last_committed: OpTime,
    /// The newest entry that it applied.
    pub last_applied: OpTime,
    /// How often it has rolled back.
    pub rollback_id: i64,
    /// The index of the primary that it knows.
    pub primary_index: Option<usize>,
    /// The index of the member that it fetches from.
    pub sync_source_index: Option<usize>,
}

impl OplogQueryMetadata {
    /// The value of the field.
    pub fn to_document(&self) -> Document {
        doc! {
            "lastOpCommitted": self.last_committed.to_document(),
            "lastOpApplied": self.last_applied.to_document(),
            "rbid": fields::int_or_long(self.rollback_id),
            "primaryIndex": index_to_number(self.primary_index),
            "syncSourceIndex": index_to_number(self.sync_source_index),
        }
    }

    /// Reads the value of the field.
    pub fn from_document(document: &Document) -> Result<OplogQueryMetadata, Failure> {
        Ok(OplogQueryMetadata {
            last_committed: OpTime::required(document, "lastOpCommitted")?,
            last_applied: OpTime::required(document, "lastOpApplied")?,
            rollback_id: fields::integer(document, "rbid")?.ok_or_else(|| fields::missing("rbid"))?,
            primary_index: index_in(document, "primaryIndex")?,
            sync_source_index: index_in(document, "syncSourceIndex")?,
        })
    }

    /// `$oplogQueryData` of a reply.
    pub fn beside(document: &Document) -> Result<Option<OplogQueryMetadata>, Failure> {
        match document.get("$oplogQueryData") {
            Some(bson::Bson::Document(value)) => OplogQueryMetadata::from_document(value).map(Some),
            _ => Ok(None),
        }
    }
}

/// An index, or -1 for none.
fn index_to_number(index: Option<usize>) -> i32 {
    index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1)
}

fn index_in(document: &Document, name: &str) -> Result<Option<usize>, Failure> {
    Ok(fields::integer(document, name)?.and_then(|index| usize::try_from(index).ok()))
}

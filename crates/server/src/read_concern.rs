//! What a read wants to be sure of: the read concern of a command.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use crate::Result;
use crate::replication::stamp_of;

/// What a read wants to be sure of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadConcern {
    /// Nothing that could be rolled back.
    pub(crate) majority: bool,
    /// Also that no other primary has newer.
    pub(crate) linearizable: bool,
    /// Everything up to this cluster time.
    pub(crate) after: Option<u64>,
}

impl ReadConcern {
    /// Reads `{level, afterClusterTime}`.
    pub(crate) fn parse(value: RawBsonRef<'_>, in_set: bool) -> Result<ReadConcern> {
        let RawBsonRef::Document(concern) = value else {
            return Err(crate::parse::wrong_type("readConcern", value, "object"));
        };
        let mut read = ReadConcern::default();
        match crate::parse::field(concern, "afterClusterTime") {
            None => {}
            Some(_) if !in_set => {
                return Err(Failure::new(
                    Code::IllegalOperation,
                    "Cannot specify afterClusterTime readConcern on a standalone server",
                ));
            }
            Some(RawBsonRef::Timestamp(time)) => read.after = Some(stamp_of(time)),
            Some(other) => {
                return Err(crate::parse::wrong_type("readConcern.afterClusterTime", other, "timestamp"));
            }
        }
        match crate::parse::string(concern, "level")? {
            None | Some("local" | "available") => {}
            Some("majority") => read.majority = true,
            Some("linearizable") if in_set => read.linearizable = true,
            Some("snapshot") if in_set => {
                return Err(Failure::new(
                    Code::InvalidOptions,
                    "readConcern level snapshot is only valid in a transaction",
                ));
            }
            Some("linearizable" | "snapshot") => {
                return Err(Failure::new(
                    Code::NotAReplicaSet,
                    "node needs to be a replica set member to use this read concern",
                ));
            }
            Some(_) => {
                return Err(Failure::new(
                    Code::FailedToParse,
                    "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'",
                ));
            }
        }
        Ok(read)
    }
}

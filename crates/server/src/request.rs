//! A command from a client: the facts known before it runs (its name, the rights it needs, its fields), and the generic arguments that the server
//! reads, including read concern and write concern. The functions that run commands are in the table of `commands`, above this module.
//!
//! A standalone server accepts a write concern with `w` up to 1 or majority, `j` and `wtimeout`; a member of a set accepts all of it
//! (docs/methods.md#write-concern), and `fathom-replication` reads and judges it.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};
use fathom_replication::timestamp_from_bson;
use fathom_service::GENERIC_ARGUMENTS;

use crate::Result;
use crate::parse;
use crate::sessions::SessionId;

/// The class of an operation in `opLatencies` and for tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationClass {
    Read,
    Write,
    Command,
}

/// The kind of users that a command is for. The actions that it requires are in `auth::needs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandAccess {
    /// Any connection, logged in or not.
    Nobody,
    /// Any user who is logged in.
    Anybody,
    /// Users who may read the command's database.
    Read,
    /// Users who may write to the command's database.
    Write,
    /// Users who may administer the database (validate, profile, drop it).
    DatabaseAdmin,
    /// Users who may administer the users of the database.
    UserAdmin,
    /// Users who may monitor the server.
    Monitor,
    /// Users who may manage the server.
    Manage,
}

/// The server's facts on a command apart from its names.
#[derive(Debug)]
pub(crate) struct CommandRules {
    /// The users that it is for.
    pub(crate) access: CommandAccess,
    /// Its fields apart from the generic ones.
    pub(crate) fields: &'static [&'static str],
    /// Whether it accepts fields that cannot be listed: the conditions of `currentOp`, sections of `serverStatus`, and the
    /// fields of refused commands.
    pub(crate) any_fields: bool,
}

/// A row of the table of commands, without its function.
pub(crate) type Command = fathom_service::Command<OperationClass, CommandRules>;

/// All commands of the server, by row and by name.
pub(crate) type CommandRegistry = fathom_service::CommandRegistry<OperationClass, CommandRules>;

/// The fields that routers and other servers add to a command.
static ADDED_BY_SERVERS: &[&str] = &[
    "allowImplicitCollectionCreation",
    "shardVersion",
    "databaseVersion",
    "stmtId",
    "stmtIds",
    "coordinator",
    "$replData",
    "$oplogQueryData",
    "maxTimeMSOpOnly",
    "rawData",
];

/// Whether every command accepts a field with this name.
pub(crate) fn is_generic(name: &str) -> bool {
    GENERIC_ARGUMENTS.contains(&name) || ADDED_BY_SERVERS.contains(&name)
}

/// The reply being written.
pub(crate) type Reply<'a> = fathom_wire::DocumentWriter<'a>;

/// The label that a fail point puts on a failure to have the connection closed instead of answered.
pub(crate) const CLOSE_CONNECTION: &str = "FathomCloseConnection";

/// A command with its arguments.
pub(crate) type Request<'a> = fathom_service::Request<'a, OperationClass, CommandRules, GenericArguments>;

/// The arguments that every command accepts, as far as the server acts on them.
#[derive(Debug, Default)]
pub(crate) struct GenericArguments {
    pub(crate) write_concern: WriteConcern,
    pub(crate) max_time_ms: u64,
    pub(crate) read_concern: ReadConcern,
    /// The id in `lsid`.
    pub(crate) session: Option<SessionId>,
    /// `txnNumber`, which marks a retryable write.
    pub(crate) transaction: Option<i64>,
}

/// The guarantee that a read asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadConcern {
    /// Only data that cannot be rolled back.
    pub(crate) majority: bool,
    /// Additionally, that no other primary has newer data.
    pub(crate) linearizable: bool,
    /// Everything up to this cluster time.
    pub(crate) after: Option<u64>,
}

impl ReadConcern {
    /// Reads the document `{level, afterClusterTime}`.
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
            Some(RawBsonRef::Timestamp(time)) => read.after = Some(timestamp_from_bson(time)),
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

/// The condition that a write waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteConcern {
    /// Whether the journal must hold it. `w: "majority"` implies it, as `writeConcernMajorityJournalDefault` does.
    pub(crate) journal: bool,
    /// The condition on a member of a set; the set's default if none was given.
    pub(crate) of_set: Option<fathom_replication::WriteConcern>,
}

impl WriteConcern {
    /// Reads it as a member of a set.
    pub(crate) fn parse_for_set(value: RawBsonRef<'_>) -> Result<WriteConcern> {
        let RawBsonRef::Document(document) = value else {
            return Err(parse::wrong_type("writeConcern", value, "object"));
        };
        let of_set = match document.is_empty() {
            true => None,
            false => Some(fathom_replication::WriteConcern::parse(&parse::owned(document)?)?),
        };
        Ok(WriteConcern { journal: false, of_set })
    }

    /// Reads `{w, j, fsync, wtimeout}`.
    pub(crate) fn parse(value: RawBsonRef<'_>) -> Result<WriteConcern> {
        let RawBsonRef::Document(document) = value else {
            return Err(parse::wrong_type("writeConcern", value, "object"));
        };
        let mut concern = WriteConcern::default();
        let mut journal_given = None;
        for element in document {
            let (name, value) = element.map_err(|error| parse::malformed(&error))?;
            match name.as_str() {
                "w" => concern.journal |= check_w(value)?,
                "j" | "journal" => journal_given = Some(parse::truth_of(value)),
                "fsync" => concern.journal |= parse::truth_of(value),
                "wtimeout" | "wtimeoutMS" => {
                    parse::integer_of(value)
                        .ok_or_else(|| Failure::new(Code::FailedToParse, "wtimeout must be a number"))?;
                }
                "provenance" | "getLastError" | "wOpTime" | "wElectionId" => {}
                other => {
                    return Err(Failure::new(
                        Code::FailedToParse,
                        format!("unrecognized write concern field: {other}"),
                    ));
                }
            }
        }
        if let Some(journal) = journal_given {
            concern.journal = journal;
        }
        Ok(concern)
    }
}

/// Whether `w` implies the journal. A number above 1 would need other members.
fn check_w(value: RawBsonRef<'_>) -> Result<bool> {
    match value {
        RawBsonRef::String("majority") => Ok(true),
        RawBsonRef::String(mode) => Err(Failure::new(
            Code::BadValue,
            format!("cannot use non-majority 'w' mode {mode} when a host is not a member of a replica set"),
        )),
        value => match parse::integer_of(value) {
            Some(0 | 1) => Ok(false),
            Some(2..=50) => {
                Err(Failure::new(Code::BadValue, "cannot use 'w' > 1 when a host is not replicated"))
            }
            Some(_) => Err(Failure::new(
                Code::FailedToParse,
                "w has to be a non-negative number and not greater than 50",
            )),
            None => Err(Failure::new(Code::FailedToParse, "w has to be a number or a string")),
        },
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn parsed(document: RawDocumentBuf) -> Result<WriteConcern> {
        WriteConcern::parse(RawBsonRef::Document(&document))
    }

    #[test]
    fn majority_implies_the_journal_unless_told_otherwise() {
        assert_eq!(parsed(rawdoc! {}).unwrap(), WriteConcern::default());
        assert!(parsed(rawdoc! { "w": "majority" }).unwrap().journal);
        assert!(!parsed(rawdoc! { "w": "majority", "j": false }).unwrap().journal);
        assert!(parsed(rawdoc! { "w": 1, "j": true, "wtimeout": 5 }).unwrap().journal);
    }

    #[test]
    fn what_needs_other_members_is_refused() {
        for (concern, code) in [
            (rawdoc! { "w": 2 }, Code::BadValue),
            (rawdoc! { "w": "dc" }, Code::BadValue),
            (rawdoc! { "w": 51 }, Code::FailedToParse),
            (rawdoc! { "x": 1 }, Code::FailedToParse),
        ] {
            assert_eq!(parsed(concern).unwrap_err().code(), code);
        }
    }
}

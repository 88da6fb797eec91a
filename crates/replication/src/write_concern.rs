//! What a write waits for, and whether the members of a set have done it (mongodb/mongo:src/mongo/db/write_concern_options.cpp,
//! src/mongo/db/repl/topology_coordinator.cpp: haveNumNodesReachedOpTime, haveTaggedNodesReachedOpTime).
//!
//! It does not wait: the caller asks again whenever a member got further, and keeps the time of `wtimeout`.

use std::time::Duration;

use bson::{Bson, Document};
use fathom_wire::{Code, Failure};

use crate::config::{MAX_MEMBERS, Member, ReplicaSetConfig};
use crate::fields;
use crate::optime::OpTime;

/// Which members must have a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// `w: n`: so many members with data, this one included. 0 and 1 wait for nobody else.
    Members(u32),
    /// `w: "majority"`.
    Majority,
    /// `w: "name"`: a mode of `getLastErrorModes`.
    Mode(String),
}

/// A write concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteConcern {
    /// `w`.
    pub waits: Waits,
    /// `j`, where it was given.
    pub journal: Option<bool>,
    /// `wtimeout`; `None` for no end.
    pub timeout: Option<Duration>,
}

impl Default for WriteConcern {
    /// `{w: 1}`.
    fn default() -> Self {
        WriteConcern { waits: Waits::Members(1), journal: None, timeout: None }
    }
}

impl WriteConcern {
    /// Reads `{w, j, fsync, wtimeout}`; fails with FailedToParse.
    pub fn parse(document: &Document) -> Result<WriteConcern, Failure> {
        let mut concern = WriteConcern::default();
        let mut fsync = false;
        for (name, value) in document {
            match name.as_str() {
                "w" => concern.waits = parse_w(value)?,
                "j" | "journal" => concern.journal = Some(truth(name, value)?),
                "fsync" => fsync = truth(name, value)?,
                "wtimeout" | "wtimeoutMS" => concern.timeout = parse_timeout(value)?,
                // What drivers and members add for their own ends.
                "wElectionId" | "wOpTime" | "getLastError" | "provenance" => {}
                other => return Err(refused(format!("unrecognized write concern field: {other}"))),
            }
        }
        if fsync && concern.journal == Some(true) {
            return Err(refused("fsync and j options cannot be used together"));
        }
        if fsync {
            concern.journal = Some(true);
        }
        Ok(concern)
    }

    /// `{w, j, wtimeout}`, as replies and configurations show it.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        match &self.waits {
            Waits::Members(count) => document.insert("w", fields::int_or_long(i64::from(*count))),
            Waits::Majority => document.insert("w", "majority"),
            Waits::Mode(mode) => document.insert("w", mode.clone()),
        };
        if let Some(journal) = self.journal {
            document.insert("j", journal);
        }
        document.insert("wtimeout", fields::int_or_long(self.timeout.map_or(0, fields::millis)));
        document
    }

    /// Whether members count by what is in their journal. `j` unset means the journal for `w: "majority"` where the configuration
    /// says so, else none.
    pub fn needs_journal(&self, config: &ReplicaSetConfig) -> bool {
        self.journal.unwrap_or(self.waits == Waits::Majority && config.majority_journals)
    }

    /// Whether it waits for anybody but the server that took the write.
    pub fn needs_others(&self) -> bool {
        !matches!(self.waits, Waits::Members(0 | 1))
    }

    /// Whether all members together could fulfil it: UnsatisfiableWriteConcern (100; named CannotSatisfyWriteConcern before 4.2) if
    /// not, UnknownReplWriteConcern (79) for a mode that there is not.
    pub fn check_satisfiable(&self, config: &ReplicaSetConfig) -> Result<(), Failure> {
        match &self.waits {
            // A majority of the members with data can always be reached some day.
            Waits::Majority => Ok(()),
            Waits::Members(count) => {
                let data = config.members.iter().filter(|member| member.holds_data()).count();
                if usize::try_from(*count).is_ok_and(|count| count <= data) {
                    return Ok(());
                }
                Err(Failure::new(Code::UnsatisfiableWriteConcern, "Not enough data-bearing nodes"))
            }
            Waits::Mode(mode) => {
                if config.mode(mode)?.is_matched_by(config.members.iter()) {
                    return Ok(());
                }
                let what = format!("Not enough nodes match write concern mode \"{mode}\"");
                Err(Failure::new(Code::UnsatisfiableWriteConcern, what))
            }
        }
    }
}

/// How far a member is, as far as we know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest entry that it applied.
    pub applied: OpTime,
    /// The newest entry in its journal.
    pub durable: OpTime,
}

/// What is known of a set when somebody asks whether a write concern is fulfilled.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The configuration.
    pub config: &'a ReplicaSetConfig,
    /// How far each member is, in the order of the configuration; for this one what it knows itself.
    pub progress: &'a [Progress],
    /// How far this member is.
    pub own: Progress,
    /// The newest entry that majority reads see here.
    pub majority_snapshot: OpTime,
}

impl WriteConcern {
    /// Whether it is fulfilled for the entry at `optime`, which this member wrote in the present term. UnknownReplWriteConcern where
    /// the configuration has lost the mode.
    pub fn is_satisfied(&self, optime: OpTime, standing: &Standing<'_>) -> Result<bool, Failure> {
        let journal = self.needs_journal(standing.config);
        match &self.waits {
            Waits::Members(count) => {
                // What others have, and we have not, fulfils nothing.
                if at(&standing.own, journal) < optime {
                    return Ok(false);
                }
                let members = standing.having(optime, journal).filter(|member| member.holds_data()).count();
                Ok(usize::try_from(*count).is_ok_and(|count| count <= members))
            }
            Waits::Majority => {
                if standing.majority_snapshot < optime {
                    return Ok(false);
                }
                let voters = standing
                    .having(optime, journal)
                    .filter(|member| member.is_voter() && member.holds_data())
                    .count();
                Ok(voters >= standing.config.write_majority())
            }
            Waits::Mode(mode) => {
                let pattern = standing.config.mode(mode)?;
                Ok(pattern.is_matched_by(standing.having(optime, journal)))
            }
        }
    }
}

impl<'a> Standing<'a> {
    /// The members that have an entry of the present term. One that is in another term may hold another history, whatever its time.
    pub(crate) fn having(&self, optime: OpTime, journal: bool) -> impl Iterator<Item = &'a Member> {
        self.config.members.iter().zip(self.progress).filter_map(move |(member, progress)| {
            let reached = at(progress, journal);
            (reached.term == optime.term && reached.timestamp >= optime.timestamp).then_some(member)
        })
    }
}

fn at(progress: &Progress, journal: bool) -> OpTime {
    if journal { progress.durable } else { progress.applied }
}

fn refused(why: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(Code::FailedToParse, why)
}

fn truth(name: &str, value: &Bson) -> Result<bool, Failure> {
    match value {
        Bson::Boolean(value) => Ok(*value),
        value => fields::number(value)
            .map(|number| number != 0.0)
            .ok_or_else(|| refused(format!("{name} must be numeric or a boolean value"))),
    }
}

fn parse_w(value: &Bson) -> Result<Waits, Failure> {
    match value {
        Bson::String(text) if text == "majority" => return Ok(Waits::Majority),
        Bson::String(text) if !text.is_empty() => return Ok(Waits::Mode(text.clone())),
        // An empty name means the default, as in MongoDB.
        Bson::String(_) => return Ok(Waits::Members(1)),
        _ => {}
    }
    if fields::number(value).is_none() {
        return Err(refused("w has to be a number or a string"));
    }
    match fields::whole(value).and_then(|count| u32::try_from(count).ok()) {
        Some(count) if usize::try_from(count).is_ok_and(|count| count <= MAX_MEMBERS) => {
            Ok(Waits::Members(count))
        }
        _ => Err(refused("w has to be a non-negative number and not greater than 50")),
    }
}

/// Milliseconds; 0 and less for no end.
fn parse_timeout(value: &Bson) -> Result<Option<Duration>, Failure> {
    let millis = fields::whole(value).ok_or_else(|| refused("wtimeout must be a number"))?;
    Ok(u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis))
}

//! The write concern: the condition that a write waits for (mongodb/mongo:src/mongo/db/write_concern_options.cpp).

use std::time::Duration;

use bson::{Bson, Document};
use fathom_wire::{Code, Failure};

use crate::config::MAX_MEMBERS;
use crate::fields;
use crate::optime::OpTime;

pub use crate::set_progress::SetProgress;

/// The members that must have a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// `w: n`: this many data-bearing members, this one included. 0 and 1 wait for no other member.
    Members(u32),
    /// The write concern `w: "majority"`.
    Majority,
    /// `w: "name"`: a mode of `getLastErrorModes`.
    Mode(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteConcern {
    /// The members that `w` waits for.
    pub waits: Waits,
    /// `j`, if it was given.
    pub journal: Option<bool>,
    /// `wtimeout`; `None` for no limit.
    pub timeout: Option<Duration>,
}

impl Default for WriteConcern {
    /// The write concern `{w: 1}`.
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
                // Fields that drivers and members add for their own purposes.
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

    /// Whether it waits for members other than the server that took the write.
    pub fn needs_others(&self) -> bool {
        !matches!(self.waits, Waits::Members(0 | 1))
    }
}

/// The progress of a member, as far as we know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest entry that it applied.
    pub applied: OpTime,
    /// The newest entry in its journal.
    pub durable: OpTime,
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

/// Milliseconds; 0 and negative values mean no limit.
fn parse_timeout(value: &Bson) -> Result<Option<Duration>, Failure> {
    let millis = fields::whole(value).ok_or_else(|| refused("wtimeout must be a number"))?;
    Ok(u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis))
}

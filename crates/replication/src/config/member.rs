//! One member of a configuration (mongodb/mongo:src/mongo/db/repl/member_config.cpp).

use std::time::Duration;

use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

use crate::fields;
use crate::host::Host;

/// The maximum number of members (mongodb/mongo:src/mongo/db/repl/repl_set_config.h).
pub const MAX_MEMBERS: usize = 50;
/// The maximum number of voting members.
pub const MAX_VOTING_MEMBERS: usize = 7;
/// The longest delay: 366 days.
const MAX_DELAY: Duration = Duration::from_secs(3600 * 24 * 366);

const LEGAL: [&str; 10] = [
    "_id",
    "votes",
    "priority",
    "host",
    "hidden",
    "slaveDelay",
    // The name since MongoDB 5.0.
    "secondaryDelaySecs",
    "arbiterOnly",
    "buildIndexes",
    "tags",
];

/// The failure for an invalid configuration, with the reason.
pub(crate) fn invalid(reason: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(Code::InvalidReplicaSetConfig, reason)
}

/// The role and the rights of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// `_id`, 0 to 255; stays with the member when its place in the list changes.
    pub id: i32,
    pub host: Host,
    /// Its preference in elections, 0 (never primary) to 1000.
    pub priority: f64,
    /// Its votes in elections: 1 or 0.
    pub votes: i32,
    /// Hidden from clients: `hello` does not list it.
    pub hidden: bool,
    /// Votes and holds no data.
    pub arbiter: bool,
    /// Whether it has indexes other than the one on `_id`.
    pub build_indexes: bool,
    /// The time by which it deliberately lags behind.
    pub delay: Duration,
    /// Its tags, in the order given.
    pub tags: Vec<(String, String)>,
}

impl Member {
    /// A member with default values.
    pub fn new(id: i32, host: Host) -> Member {
        Member {
            id,
            host,
            priority: 1.0,
            votes: 1,
            hidden: false,
            arbiter: false,
            build_indexes: true,
            delay: Duration::ZERO,
            tags: Vec::new(),
        }
    }

    /// Reads a member, without the checks of its values.
    pub(super) fn parse(document: &Document) -> Result<Member, Failure> {
        fields::only("replica set member configuration", document, &LEGAL)?;
        let id = document.get("_id").ok_or_else(|| fields::missing("_id"))?;
        let id = fields::whole(id).and_then(|id| i32::try_from(id).ok()).ok_or_else(|| {
            let found = fields::type_name(id);
            Failure::new(Code::TypeMismatch, format!("_id field has no whole number but {found}"))
        })?;
        let host = fields::string(document, "host")?.ok_or_else(|| fields::missing("host"))?;
        let arbiter = fields::boolean(document, "arbiterOnly")?.unwrap_or(false);
        // An arbiter gets 0, even if the document states the default of other members.
        let priority = match fields::decimal(document, "priority")?.unwrap_or(1.0) {
            1.0 if arbiter => 0.0,
            priority => priority,
        };
        let votes = fields::integer(document, "votes")?.unwrap_or(1);
        let votes = i32::try_from(votes).unwrap_or(i32::MAX);
        let delay = match fields::integer(document, "slaveDelay")? {
            Some(delay) => Some(delay),
            None => fields::integer(document, "secondaryDelaySecs")?,
        };
        let delay = delay.unwrap_or(0);
        let delay = u64::try_from(delay).map_err(|_| out_of_range("slaveDelay", delay))?;
        Ok(Member {
            id,
            host: host.parse()?,
            priority,
            votes,
            hidden: fields::boolean(document, "hidden")?.unwrap_or(false),
            arbiter,
            build_indexes: fields::boolean(document, "buildIndexes")?.unwrap_or(true),
            delay: Duration::from_secs(delay),
            tags: read_tags(document)?,
        })
    }

    /// The document, with all defaults written out and in the order of mongod 4.0.
    pub(super) fn to_document(&self) -> Document {
        let tags: Document = self.tags.iter().map(|(key, value)| (key.clone(), value.into())).collect();
        doc! {
            "_id": self.id,
            "host": self.host.as_str(),
            "arbiterOnly": self.arbiter,
            "buildIndexes": self.build_indexes,
            "hidden": self.hidden,
            "priority": self.priority,
            "tags": tags,
            "slaveDelay": fields::seconds(self.delay),
            "votes": self.votes,
        }
    }

    /// The tags as the document that hello shows.
    pub(crate) fn tags_document(&self) -> Document {
        self.tags.iter().map(|(key, value)| (key.clone(), value.into())).collect()
    }

    pub fn is_voter(&self) -> bool {
        self.votes > 0
    }

    /// Whether it holds data.
    pub fn holds_data(&self) -> bool {
        !self.arbiter
    }

    /// Whether it may become primary.
    pub fn is_electable(&self) -> bool {
        !self.arbiter && self.priority > 0.0
    }

    /// Refuses values out of range, and combinations that contradict themselves.
    pub(super) fn validate(&self) -> Result<(), Failure> {
        if !(0..=255).contains(&self.id) {
            return Err(out_of_range("_id", self.id));
        }
        if !(0.0..=1000.0).contains(&self.priority) {
            return Err(out_of_range("priority", self.priority));
        }
        if self.votes != 0 && self.votes != 1 {
            let votes = self.votes;
            return Err(invalid(format!("votes field value is {votes} but must be 0 or 1")));
        }
        if self.delay > MAX_DELAY {
            return Err(out_of_range("slaveDelay", self.delay.as_secs()));
        }
        if self.arbiter {
            return self.validate_arbiter();
        }
        if self.priority != 0.0 {
            let against = [
                (self.votes == 0, "priority must be 0 when non-voting (votes:0)"),
                (self.delay > Duration::ZERO, "priority must be 0 when slaveDelay is used"),
                (self.hidden, "priority must be 0 when hidden=true"),
                (!self.build_indexes, "priority must be 0 when buildIndexes=false"),
            ];
            if let Some((_, reason)) = against.into_iter().find(|(is, _)| *is) {
                return Err(invalid(reason));
            }
        }
        Ok(())
    }

    fn validate_arbiter(&self) -> Result<(), Failure> {
        if !self.tags.is_empty() {
            return Err(invalid("Cannot set tags on arbiters."));
        }
        if !self.is_voter() {
            return Err(invalid("Arbiter must vote (cannot have 0 votes)"));
        }
        if self.priority != 0.0 {
            let (host, priority) = (&self.host, self.priority);
            let what = format!(
                "Member {host} is an arbiter but has priority {priority}. Arbiter must have priority 0 only."
            );
            return Err(invalid(what));
        }
        Ok(())
    }
}

fn out_of_range(field: &str, value: impl std::fmt::Display) -> Failure {
    invalid(format!("{field} field value of {value} is out of range"))
}

fn read_tags(document: &Document) -> Result<Vec<(String, String)>, Failure> {
    let mut tags = Vec::new();
    for (key, value) in fields::document(document, "tags")?.into_iter().flatten() {
        let Bson::String(value) = value else {
            let found = fields::type_name(value);
            let what = format!("tags.{key} field has non-string value of type {found}");
            return Err(Failure::new(Code::TypeMismatch, what));
        };
        tags.push((key.clone(), value.clone()));
    }
    Ok(tags)
}

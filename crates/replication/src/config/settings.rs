//! The field `settings` of a configuration: timeouts, chaining, and custom write concerns.
//!
//! A custom write concern is a mode: for each of some tags, the number of different values that the members with a write must have
//! (mongodb/mongo:src/mongo/db/repl/repl_set_tag.cpp).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use fathom_wire::{Code, Failure};

use super::Member;
use crate::fields;
use crate::write_concern::WriteConcern;

/// Settings of the whole set. Unknown fields are ignored, as mongod ignores them here.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether a secondary may sync from another secondary.
    pub chaining_allowed: bool,
    /// The interval between two heartbeats to a member.
    pub heartbeat_interval: Duration,
    /// The time limit for the reply to a heartbeat.
    pub heartbeat_timeout: Duration,
    /// The time without a primary after which a secondary calls an election, before the random part.
    pub election_timeout: Duration,
    /// The time limit of a new primary's catch-up, in which it fetches entries that it lacks; `None` for no limit, zero for no catch-up.
    pub catch_up_timeout: Option<Duration>,
    /// The time that a fresher secondary lets a primary catch up before it takes over; `None` for never.
    pub catch_up_takeover_delay: Option<Duration>,
    /// Custom write concern modes by name.
    pub modes: BTreeMap<String, TagPattern>,
    /// `getLastErrorDefaults`: the write concern of writes that specify none.
    pub default_write_concern: WriteConcern,
    /// Distinguishes this set from every other, even from one of the same name.
    pub replica_set_id: Option<ObjectId>,
}

impl Default for Settings {
    /// The defaults of mongod 4.0.
    fn default() -> Self {
        Settings {
            chaining_allowed: true,
            heartbeat_interval: Duration::from_millis(2000),
            heartbeat_timeout: Duration::from_secs(10),
            election_timeout: Duration::from_millis(10_000),
            catch_up_timeout: None,
            catch_up_takeover_delay: Some(Duration::from_millis(30_000)),
            modes: BTreeMap::new(),
            default_write_concern: WriteConcern::default(),
            replica_set_id: None,
        }
    }
}

impl Settings {
    /// Reads the document; the tags of the members decide whether modes are valid.
    pub(super) fn parse(document: &Document, members: &[Member]) -> Result<Settings, Failure> {
        let usual = Settings::default();
        let heartbeat_interval = match fields::integer(document, "heartbeatIntervalMillis")? {
            None => usual.heartbeat_interval,
            Some(millis) => u64::try_from(millis).map(Duration::from_millis).map_err(|_| {
                let what = format!(
                    "settings.heartbeatIntervalMillis field value must be non-negative, but found {millis}"
                );
                Failure::new(Code::BadValue, what)
            })?,
        };
        let election_timeout =
            positive(document, "electionTimeoutMillis", "election timeout must be greater than 0")?;
        let heartbeat_timeout =
            positive(document, "heartbeatTimeoutSecs", "heartbeat timeout must be greater than 0")?;
        let id = fields::object_id(document, "replicaSetId")?;
        if id.is_some_and(|id| id.bytes() == [0; 12]) {
            return Err(Failure::new(Code::BadValue, "replicaSetId field value cannot be null"));
        }
        Ok(Settings {
            chaining_allowed: fields::boolean(document, "chainingAllowed")?.unwrap_or(true),
            heartbeat_interval,
            heartbeat_timeout: heartbeat_timeout.map_or(usual.heartbeat_timeout, Duration::from_secs),
            election_timeout: election_timeout.map_or(usual.election_timeout, Duration::from_millis),
            catch_up_timeout: or_endless(
                document,
                "catchUpTimeoutMillis",
                "catch-up timeout must be positive, 0 (no catch-up) or -1 (infinite catch-up).",
                usual.catch_up_timeout,
            )?,
            catch_up_takeover_delay: or_endless(
                document,
                "catchUpTakeoverDelayMillis",
                "catch-up takeover delay must be -1 (no catch-up takeover) or greater than or equal to 0.",
                usual.catch_up_takeover_delay,
            )?,
            modes: read_modes(document, members)?,
            default_write_concern: match fields::document(document, "getLastErrorDefaults")? {
                None => usual.default_write_concern,
                Some(document) => WriteConcern::parse(document)?,
            },
            replica_set_id: id,
        })
    }

    /// The document, with all defaults written out and in the order of mongod 4.0.
    pub(super) fn to_document(&self) -> Document {
        let span = |span: Option<Duration>| fields::int_or_long(span.map_or(-1, fields::millis));
        let modes: Document =
            self.modes.iter().map(|(name, pattern)| (name.clone(), pattern.to_document().into())).collect();
        let mut document = doc! {
            "chainingAllowed": self.chaining_allowed,
            "heartbeatIntervalMillis": span(Some(self.heartbeat_interval)),
            "heartbeatTimeoutSecs": fields::int_or_long(fields::seconds(self.heartbeat_timeout)),
            "electionTimeoutMillis": span(Some(self.election_timeout)),
            "catchUpTimeoutMillis": span(self.catch_up_timeout),
            "catchUpTakeoverDelayMillis": span(self.catch_up_takeover_delay),
            "getLastErrorModes": modes,
            "getLastErrorDefaults": self.default_write_concern.to_document(),
        };
        if let Some(id) = self.replica_set_id {
            document.insert("replicaSetId", id);
        }
        document
    }
}

fn positive(document: &Document, name: &str, reason: &'static str) -> Result<Option<u64>, Failure> {
    match fields::integer(document, name)? {
        None => Ok(None),
        Some(value) => match u64::try_from(value) {
            Ok(value) if value > 0 => Ok(Some(value)),
            _ => Err(Failure::new(Code::BadValue, reason)),
        },
    }
}

/// Milliseconds, or -1 for no limit.
fn or_endless(
    document: &Document,
    name: &str,
    reason: &'static str,
    usual: Option<Duration>,
) -> Result<Option<Duration>, Failure> {
    match fields::integer(document, name)? {
        None => Ok(usual),
        Some(-1) => Ok(None),
        Some(millis) => match u64::try_from(millis) {
            Ok(millis) => Ok(Some(Duration::from_millis(millis))),
            Err(_) => Err(Failure::new(Code::BadValue, reason)),
        },
    }
}

fn read_modes(document: &Document, members: &[Member]) -> Result<BTreeMap<String, TagPattern>, Failure> {
    let mut modes = BTreeMap::new();
    for (name, value) in fields::document(document, "getLastErrorModes")?.into_iter().flatten() {
        let Bson::Document(value) = value else {
            let found = fields::type_name(value);
            let what = format!("Expected settings.getLastErrorModes.{name} to be an Object, not {found}");
            return Err(Failure::new(Code::TypeMismatch, what));
        };
        modes.insert(name.clone(), TagPattern::parse(name, value, members)?);
    }
    Ok(modes)
}

/// For each tag, the number of different values required: `{dc: 2, rack: 3}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPattern {
    wanted: Vec<(String, u32)>,
}

impl TagPattern {
    /// Reads the document of one mode, for a set with these members.
    pub(super) fn parse(mode: &str, document: &Document, members: &[Member]) -> Result<TagPattern, Failure> {
        let place = format!("settings.getLastErrorModes.{mode}");
        let mut wanted = Vec::new();
        for (key, value) in document {
            let Some(count) = fields::number(value) else {
                let found = fields::type_name(value);
                let what = format!("Expected {place}.{key} to be a number, not {found}");
                return Err(Failure::new(Code::TypeMismatch, what));
            };
            let count = Bson::Double(count.trunc());
            let count = fields::whole(&count).unwrap_or(0);
            let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else {
                let what = format!("Value of {place}.{key} must be positive, but found {value}");
                return Err(Failure::new(Code::BadValue, what));
            };
            if !members.iter().any(|member| member.tags.iter().any(|(tag, _)| tag == key)) {
                let what = format!(
                    "No replica set tag with key \"{key}\" is set on a member, but {place} asks for it"
                );
                return Err(Failure::new(Code::NoSuchKey, what));
            }
            wanted.push((key.clone(), count));
        }
        Ok(TagPattern { wanted })
    }

    /// The document `{tag: count}`.
    pub(super) fn to_document(&self) -> Document {
        self.wanted.iter().map(|(key, count)| (key.clone(), i64::from(*count).into())).collect::<Document>()
    }

    /// Whether these members together match it. A pattern without requirements needs at least one tagged member, as in MongoDB.
    pub fn is_matched_by<'m>(&self, members: impl Iterator<Item = &'m Member>) -> bool {
        let tags: BTreeSet<(&str, &str)> = members
            .flat_map(|member| &member.tags)
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        !tags.is_empty()
            && self.wanted.iter().all(|(key, count)| {
                let values = tags.iter().filter(|(tag, _)| tag == key).count();
                u32::try_from(values).is_ok_and(|values| values >= *count)
            })
    }
}

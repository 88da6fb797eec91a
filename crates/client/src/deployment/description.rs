//! Parses a server's reply to hello: its role, its set, the other members
//! (mongodb/specifications:source/server-discovery-and-monitoring/server-discovery-and-monitoring.md). Also holds what a deployment
//! keeps of it as a member, and decides which of two primaries is the newer one, when a deposed one has not noticed yet.

use std::cmp::Ordering;
use std::time::Duration;

use bson::RawDocument;
use fathom_errors::{Error, Kind, Result};

use crate::Address;

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A single, standalone server.
    Standalone,
    /// The member of a replica set that accepts writes.
    Primary,
    /// A member that follows the primary.
    Secondary,
    /// A member that votes and holds no data.
    Arbiter,
    /// A member that serves no clients at present: it starts, recovers or is hidden.
    Other,
    Router,
    /// A member of a replica set that was never initiated.
    Uninitiated,
    /// Not known, because it did not answer.
    Unknown,
}

impl Role {
    /// The kind that a server reports in its reply to hello.
    pub fn from_hello(hello: &RawDocument) -> Role {
        role(hello)
    }

    /// The name for use in a sentence about a server.
    pub fn name(self) -> &'static str {
        match self {
            Role::Standalone => "a standalone server",
            Role::Primary => "the primary",
            Role::Secondary => "a secondary",
            Role::Arbiter => "an arbiter",
            Role::Other => "neither primary nor secondary",
            Role::Router => "a mongos",
            Role::Uninitiated => "a member of a replica set that was never initiated",
            Role::Unknown => "unreachable",
        }
    }

    /// Whether it answers commands on data.
    pub(super) fn holds_data(self) -> bool {
        matches!(self, Role::Standalone | Role::Primary | Role::Secondary | Role::Router)
    }
}

/// A parsed reply to hello.
#[derive(Clone, Debug)]
pub(super) struct HelloReply {
    pub(super) role: Role,
    /// The replica set it belongs to.
    pub(super) set: Option<String>,
    /// All members that it knows: those that can become primary, those that cannot, and arbiters.
    pub(super) members: Vec<Address>,
    pub(super) tags: Vec<(String, String)>,
    pub(super) rank: ElectionRank,
    pub(super) round_trip: Duration,
}

/// The maximum number of members that MongoDB allows in a replica set.
const MAX_MEMBERS: usize = 50;

impl HelloReply {
    pub(super) fn from_hello(hello: &RawDocument, round_trip: Duration) -> Result<HelloReply> {
        let set = hello.get_str("setName").ok().map(str::to_owned);
        let mut members = Vec::new();
        for list in ["hosts", "passives", "arbiters"] {
            let Ok(names) = hello.get_array(list) else { continue };
            for name in names {
                let name = name.ok().and_then(|name| name.as_str()).unwrap_or_default();
                members.push(normal(name.parse().map_err(|cause: Error| misread(list).because(cause))?));
            }
        }
        if members.len() > MAX_MEMBERS {
            return Err(misread("more members than a replica set can have"));
        }
        members.sort();
        members.dedup();
        let mut tags = Vec::new();
        if let Ok(theirs) = hello.get_document("tags") {
            let pairs = theirs.into_iter().flatten();
            tags.extend(
                pairs.filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned()))),
            );
        }
        Ok(HelloReply {
            role: role(hello),
            set,
            members,
            tags,
            rank: ElectionRank::from_hello(hello),
            round_trip,
        })
    }
}

/// Lower-cases the host, since host names ignore case.
pub(super) fn normal(address: Address) -> Address {
    Address::new(address.host.to_ascii_lowercase(), address.port)
}

fn role(hello: &RawDocument) -> Role {
    let is = |name: &str| hello.get_bool(name).unwrap_or(false);
    let is_primary = is("isWritablePrimary") || is("ismaster");
    if hello.get_str("msg").is_ok_and(|message| message == "isdbgrid") {
        Role::Router
    } else if is("isreplicaset") {
        Role::Uninitiated
    } else if hello.get_str("setName").is_err() {
        Role::Standalone
    } else if is_primary {
        Role::Primary
    } else if is("hidden") {
        Role::Other
    } else if is("secondary") {
        Role::Secondary
    } else if is("arbiterOnly") {
        Role::Arbiter
    } else {
        Role::Other
    }
}

fn misread(what: &str) -> Error {
    Error::new(Kind::Malformed, format!("the server's reply to hello is invalid at {what}"))
}

/// The election of a primary, as it reports it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ElectionRank {
    /// `electionId`: grows with each election.
    election: Option<[u8; 12]>,
    /// `setVersion`: grows with each change of the configuration.
    set_version: Option<i32>,
    /// The term of the last write: for servers that report no electionId.
    term: Option<i64>,
    /// From MongoDB 6.0 (wire version 17) the election counts first, since a configuration may be changed without one.
    election_first: bool,
}

/// The wire version of MongoDB 6.0, whose servers compare election times before set versions.
const WIRE_VERSION_OF_ELECTION_FIRST: i32 = 17;

impl ElectionRank {
    /// Reads a reply to hello.
    pub(super) fn from_hello(hello: &RawDocument) -> ElectionRank {
        let last = hello.get_document("lastWrite").and_then(|last| last.get_document("opTime"));
        ElectionRank {
            election: hello.get_object_id("electionId").ok().map(|id| id.bytes()),
            set_version: hello.get_i32("setVersion").ok(),
            term: last.and_then(|last| last.get_i64("t")).ok(),
            election_first: hello.get_i32("maxWireVersion").unwrap_or(0) >= WIRE_VERSION_OF_ELECTION_FIRST,
        }
    }

    /// Compares the fields that both report.
    pub(super) fn compare(&self, other: &ElectionRank) -> Ordering {
        let election = both(self.election, other.election);
        let set_version = both(self.set_version, other.set_version);
        let first = if self.election_first && other.election_first {
            election.then(set_version)
        } else {
            set_version.then(election)
        };
        first.then(both(self.term, other.term))
    }
}

fn both<T: Ord>(one: Option<T>, other: Option<T>) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => Ordering::Equal,
    }
}

/// The kind of the deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeploymentKind {
    Standalone,
    /// A replica set; with `directConnection=true`, one member of it.
    ReplicaSet {
        name: String,
    },
    /// Routers (mongos) in front of shards.
    Sharded,
}

/// A server of the deployment, as of the last time it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentServer {
    /// Its name in the replica set, or in the connection string.
    pub address: Address,
    pub role: Role,
    /// Its tags, name and value.
    pub tags: Vec<(String, String)>,
    /// The duration of hello, if it answered.
    pub round_trip: Option<Duration>,
    /// The reason why it cannot be used now.
    pub fault: Option<String>,
    /// Whether this machine can resolve the name.
    pub is_resolvable: bool,
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::rawdoc;

    use super::*;

    fn read(hello: &RawDocument) -> HelloReply {
        HelloReply::from_hello(hello, Duration::from_millis(1)).unwrap()
    }

    #[test]
    fn roles() {
        for (hello, expected) in [
            (rawdoc! { "isWritablePrimary": true }, Role::Standalone),
            (rawdoc! { "ismaster": true, "setName": "rs" }, Role::Primary),
            (rawdoc! { "isWritablePrimary": true, "setName": "rs" }, Role::Primary),
            (rawdoc! { "ismaster": false, "secondary": true, "setName": "rs" }, Role::Secondary),
            (rawdoc! { "secondary": true, "hidden": true, "setName": "rs" }, Role::Other),
            (rawdoc! { "arbiterOnly": true, "setName": "rs" }, Role::Arbiter),
            (rawdoc! { "secondary": false, "setName": "rs" }, Role::Other),
            (rawdoc! { "isreplicaset": true }, Role::Uninitiated),
            (rawdoc! { "ismaster": true, "msg": "isdbgrid" }, Role::Router),
        ] {
            assert_eq!(read(&hello).role, expected, "{hello:?}");
        }
    }

    #[test]
    fn members_and_tags() {
        let hello = rawdoc! {
            "setName": "rs", "hosts": ["B:2", "a:1"], "passives": ["c:3"], "arbiters": ["d:4"],
            "tags": { "dc": "ny", "odd": 1 },
        };
        let description = read(&hello);
        let expected = [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(host, port)| Address::new(host, port));
        assert_eq!(description.members, expected);
        assert_eq!(description.tags, [("dc".to_owned(), "ny".to_owned())]);
        assert_eq!(description.set.as_deref(), Some("rs"));
        let error = HelloReply::from_hello(&rawdoc! { "hosts": ["a b"] }, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("hosts"), "{error}");
    }

    fn rank(wire: i32, set_version: i32, election: u8) -> ElectionRank {
        let id = ObjectId::from_bytes([election; 12]);
        ElectionRank::from_hello(
            &rawdoc! { "maxWireVersion": wire, "setVersion": set_version, "electionId": id },
        )
    }

    #[test]
    fn elections_count_before_configurations_since_6_0() {
        assert_eq!(rank(21, 1, 9).compare(&rank(21, 2, 8)), Ordering::Greater);
        assert_eq!(rank(9, 1, 9).compare(&rank(9, 2, 8)), Ordering::Less);
        assert_eq!(rank(9, 1, 9).compare(&rank(21, 2, 8)), Ordering::Less);
        assert_eq!(rank(9, 2, 9).compare(&rank(9, 2, 8)), Ordering::Greater);
        assert_eq!(rank(21, 2, 8).compare(&rank(21, 1, 8)), Ordering::Greater);
    }

    #[test]
    fn terms_decide_where_nothing_else_is_said() {
        let term =
            |term: i64| ElectionRank::from_hello(&rawdoc! { "lastWrite": { "opTime": { "t": term } } });
        assert_eq!(term(3).compare(&term(2)), Ordering::Greater);
        assert_eq!(ElectionRank::default().compare(&term(2)), Ordering::Equal);
    }
}

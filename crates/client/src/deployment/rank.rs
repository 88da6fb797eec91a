//! Which of two primaries is the newer one, when a deposed one has not noticed yet.

use std::cmp::Ordering;

use bson::RawDocument;

/// What a primary says of its election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rank {
    /// `electionId`: grows with each election.
    election: Option<[u8; 12]>,
    /// `setVersion`: grows with each change of the configuration.
    set_version: Option<i32>,
    /// The term of the last write: of servers that say no electionId.
    term: Option<i64>,
    /// From MongoDB 6.0 (wire version 17) the election counts first, since a configuration may be changed without one.
    election_first: bool,
}

/// MongoDB 6.0.
const WIRE_VERSION_OF_ELECTION_FIRST: i32 = 17;

impl Rank {
    /// Reads a reply to hello.
    pub(super) fn of(hello: &RawDocument) -> Rank {
        let last = hello.get_document("lastWrite").and_then(|last| last.get_document("opTime"));
        Rank {
            election: hello.get_object_id("electionId").ok().map(|id| id.bytes()),
            set_version: hello.get_i32("setVersion").ok(),
            term: last.and_then(|last| last.get_i64("t")).ok(),
            election_first: hello.get_i32("maxWireVersion").unwrap_or(0) >= WIRE_VERSION_OF_ELECTION_FIRST,
        }
    }

    /// Compares by what both say.
    pub(super) fn compare(&self, other: &Rank) -> Ordering {
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

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::rawdoc;

    use super::*;

    fn rank(wire: i32, set_version: i32, election: u8) -> Rank {
        let id = ObjectId::from_bytes([election; 12]);
        Rank::of(&rawdoc! { "maxWireVersion": wire, "setVersion": set_version, "electionId": id })
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
        let term = |term: i64| Rank::of(&rawdoc! { "lastWrite": { "opTime": { "t": term } } });
        assert_eq!(term(3).compare(&term(2)), Ordering::Greater);
        assert_eq!(Rank::default().compare(&term(2)), Ordering::Equal);
    }
}

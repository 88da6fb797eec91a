//! The invariants of every schedule, checked at each event that could break them.

use std::collections::BTreeMap;

use fathom_replication::OpTime;

/// All promises made so far in a schedule.
#[derive(Default)]
pub(crate) struct Checks {
    /// The leader of each term, and its log.
    leaders: BTreeMap<i64, (usize, Vec<OpTime>)>,
    /// The vote of each member in each term, across its restarts.
    votes: BTreeMap<(usize, i64), i64>,
    /// The longest committed prefix of a primary's log.
    committed: Vec<OpTime>,
    /// The writer of each entry.
    writers: BTreeMap<OpTime, usize>,
    pub(crate) elections: usize,
    pub(crate) rolled_back: usize,
}

impl Checks {
    pub(crate) fn wrote(&mut self, member: usize, optime: OpTime) {
        let other = self.writers.insert(optime, member);
        assert!(other.is_none(), "{optime:?} was written by {other:?} and {member}");
        let leader = self.leaders.get(&optime.term).map(|(leader, _)| *leader);
        assert_eq!(leader, Some(member), "{optime:?} was written by one who does not lead its term");
    }

    pub(crate) fn voted(&mut self, member: usize, term: i64, candidate: i64) {
        let before = self.votes.insert((member, term), candidate);
        assert!(
            before.is_none(),
            "member {member} voted twice in term {term}: for {before:?} and {candidate}"
        );
    }

    /// Checks that a term has at most one leader, and that it has all entries committed before.
    pub(crate) fn leads(&mut self, member: usize, term: i64, log: &[OpTime]) {
        self.elections += 1;
        let before = self.leaders.insert(term, (member, log.to_vec()));
        assert!(
            before.is_none(),
            "term {term} has two primaries: {:?} and {member}",
            before.map(|(other, _)| other)
        );
        let earlier = self.committed.iter().take_while(|optime| optime.term < term).count();
        assert!(
            log.starts_with(&self.committed[..earlier]),
            "the primary {member} of term {term} lacks what was committed: {:?}",
            self.committed[..earlier].last()
        );
    }

    /// A member reports that all entries up to `optime` are committed; `leads` if it decided so as primary.
    pub(crate) fn committed(&mut self, member: usize, optime: OpTime, log: &[OpTime], leads: bool) {
        if !leads {
            let known = self.committed.binary_search(&optime).is_ok();
            assert!(known, "member {member} takes {optime:?} for committed, which no primary committed");
            return;
        }
        let place = log
            .binary_search(&optime)
            .unwrap_or_else(|_| panic!("{member} committed {optime:?} and lacks it"));
        let prefix = &log[..=place];
        let shorter = prefix.len().min(self.committed.len());
        assert_eq!(prefix[..shorter], self.committed[..shorter], "two histories were committed");
        for (term, (leader, log)) in self.leaders.range(optime.term + 1..) {
            assert!(
                log.starts_with(prefix),
                "{optime:?} is committed, but the primary {leader} of term {term} lacks it"
            );
        }
        if prefix.len() > self.committed.len() {
            self.committed = prefix.to_vec();
        }
    }

    /// A member rolls back these entries. It may roll back entries that others have since committed, as long as it does not know of the commit and is
    /// not needed for it.
    pub(crate) fn rolls_back(&mut self, member: usize, cut: &[OpTime], known_committed: OpTime) {
        self.rolled_back += cut.len();
        let lost = cut.first().filter(|first| **first <= known_committed);
        assert!(
            lost.is_none(),
            "member {member} rolls back {lost:?}, and knows {known_committed:?} to be committed"
        );
    }

    pub(crate) fn committed_entries(&self) -> usize {
        self.committed.len()
    }

    pub(crate) fn committed_log(&self) -> &[OpTime] {
        &self.committed
    }
}

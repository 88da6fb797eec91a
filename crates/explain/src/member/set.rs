//! A replica set as the run's facts and series tell it: its primary, who votes, how many make a majority, and moments of how far
//! each member's journal is.

use std::collections::BTreeMap;

use crate::Evidence;
use crate::client::points;
use crate::member::{PRIMARY, fact};

/// A set under one primary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) primary: String,
    /// All members that were watched, the primary too.
    pub(crate) members: Vec<String>,
    /// Those that count for a majority.
    pub(crate) voters: Vec<String>,
    /// How many of them must have a write.
    pub(crate) majority: usize,
}

/// A moment: how many entries each member lacks, by its number.
pub(crate) type Moment = BTreeMap<String, f64>;

impl Set {
    /// The sets whose members tell how far they are, each with who was its primary for most of the window.
    pub(crate) fn all(evidence: &Evidence) -> Vec<Set> {
        let members = evidence.members();
        let mut sets: Vec<Set> = Vec::new();
        for member in &members {
            let Some(name) = fact(evidence, member, "set") else { continue };
            if sets.iter().any(|set| set.name == name) {
                continue;
            }
            let of_set = |one: &&String| fact(evidence, one, "set") == Some(name);
            let own: Vec<String> = members.iter().filter(of_set).cloned().collect();
            let leads = |one: &str| {
                let states = points(evidence, &format!("server.{one}.replication.state"));
                states.iter().filter(|point| point.value == PRIMARY).count()
            };
            let Some(primary) = own.iter().max_by_key(|one| leads(one)).filter(|one| leads(one) > 0).cloned()
            else {
                continue;
            };
            let votes = |one: &&String| fact(evidence, one, "votes") != Some("0");
            let voters: Vec<String> = own.iter().filter(votes).cloned().collect();
            let majority = fact(evidence, &primary, "majority").and_then(|text| text.parse().ok());
            let majority = majority.unwrap_or(voters.len() / 2 + 1);
            sets.push(Set { name: name.to_owned(), primary, members: own, voters, majority });
        }
        sets
    }

    /// The set that a server leads.
    pub(crate) fn led_by(evidence: &Evidence, member: &str) -> Option<Set> {
        Set::all(evidence).into_iter().find(|set| set.primary == member)
    }

    /// What the primary knew of all of them at one moment, each time it was asked.
    pub(crate) fn moments(&self, evidence: &Evidence) -> Vec<Moment> {
        let mut moments: BTreeMap<u64, Moment> = BTreeMap::new();
        for member in &self.members {
            for point in points(evidence, &format!("server.{member}.replication.behind")) {
                if point.value.is_finite() {
                    moments.entry(point.end_ns).or_default().insert(member.clone(), point.value);
                }
            }
        }
        moments.into_values().collect()
    }

    /// Documents that the primary wrote a second: entries of its oplog.
    pub(crate) fn writes_per_s(&self, evidence: &Evidence) -> Option<f64> {
        let (mut written, mut seconds) = (0.0, 0.0);
        for (at, kind) in ["inserted", "updated", "deleted"].into_iter().enumerate() {
            for point in points(evidence, &format!("server.{}.documents.{kind}", self.primary)) {
                written += point.value;
                if at == 0 {
                    seconds += point.end_ns.saturating_sub(point.begin_ns) as f64 / 1e9;
                }
            }
        }
        (written > 0.0 && seconds > 0.0).then(|| written / seconds)
    }
}

/// The mean time in microseconds that a write needs to get into a member's journal: by Little's law the entries that it lacks on
/// average over the rate at which they come.
pub(crate) fn behind_us(moments: &[Moment], member: &str, writes_per_s: f64) -> Option<f64> {
    let known: Vec<f64> = moments.iter().filter_map(|moment| moment.get(member)).copied().collect();
    Some(fathom_stats::mean(&known)? / writes_per_s * 1e6)
}

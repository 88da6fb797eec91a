//! A server of a run and its replica set: its name, its role, and whether clients reach it; the voters, the size of a
//! majority, and the progress of each member's journal at each reading.
//!
//! If voters are down, a majority needs every voter that is left, and the slowest of these holds the commit point. Flow
//! control holds writes back while the commit point lags (`flowControlTargetLagSeconds`). It looks like slow storage of
//! a member, and the remedy is to bring back the members that are down.

pub(crate) mod majority_wait;

use std::collections::BTreeMap;

use fathom_record::{Confidence, Finding};

use crate::Evidence;
use crate::client::points;

pub(crate) use majority_wait::{name_it, split};

/// The state of a primary, as `replSetGetStatus` counts states.
pub(crate) const PRIMARY: f64 = 1.0;

/// Whether a server is a router.
pub(crate) fn is_router(evidence: &Evidence, member: &str) -> bool {
    fact(evidence, member, "role") == Some("router")
}

/// The routers that were watched.
pub(crate) fn routers(evidence: &Evidence) -> Vec<String> {
    evidence.members().into_iter().filter(|member| is_router(evidence, member)).collect()
}

/// Whether a server was a member of a set all the time and never its primary.
pub(crate) fn follows(evidence: &Evidence, member: &str) -> bool {
    let states = points(evidence, &format!("server.{member}.replication.state"));
    !states.is_empty() && states.iter().all(|point| point.value != PRIMARY)
}

/// Whether this member alone is a majority of its set, so that a write waits for no other.
pub(crate) fn is_alone(evidence: &Evidence, member: &str) -> bool {
    fact(evidence, member, "majority") == Some("1")
}

/// Whether clients send their operations to this server. Behind routers they send them only to routers, and in a set not to members
/// that were never asked.
pub(crate) fn meets_clients(evidence: &Evidence, member: &str) -> bool {
    let routers = routers(evidence);
    if !routers.is_empty() {
        return routers.iter().any(|router| router == member);
    }
    !follows(evidence, member) || is_read(evidence, member)
}

/// Whether clients read from a member that follows: it has more reads of the watched collection than monitoring itself makes, which asks
/// for its latencies each second and its sizes twice a minute.
pub(crate) fn is_read(evidence: &Evidence, member: &str) -> bool {
    const MAX_MONITORING_PER_S: f64 = 3.0;
    let points = points(evidence, &format!("server.{member}.collection.reads.operations"));
    let seconds: f64 = points.iter().map(|one| one.end_ns.saturating_sub(one.begin_ns) as f64 / 1e9).sum();
    points.iter().map(|point| point.value).sum::<f64>() > MAX_MONITORING_PER_S * seconds
}

/// A server's name in findings: its number, its role, its engine.
pub(crate) fn name_of(evidence: &Evidence, member: &str) -> String {
    let address = evidence.environment.get(&format!("server.{member}"));
    let words: Vec<&str> =
        address.map(String::as_str).into_iter().chain(fact(evidence, member, "engine")).collect();
    if words.is_empty() {
        format!("server {member}")
    } else {
        format!("server {member} ({})", words.join(", "))
    }
}

/// A fact on a server from the environment of the run, such as `role` or `engine`.
pub(crate) fn fact<'e>(evidence: &'e Evidence, member: &str, what: &str) -> Option<&'e str> {
    evidence.environment.get(&format!("server.{member}.{what}")).map(String::as_str)
}

/// A set under one primary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) primary: String,
    /// All members that were watched, the primary too.
    pub(crate) members: Vec<String>,
    /// The members that count for a majority.
    pub(crate) voters: Vec<String>,
    /// The number of voters that must have a write.
    pub(crate) majority: usize,
}

/// A moment: how many entries each member lacks, by its number.
pub(crate) type EntriesBehind = BTreeMap<String, f64>;

impl Set {
    /// The sets whose members report their progress, each with its primary for most of the window.
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

    /// The primary's knowledge of all members at each moment that it was asked.
    pub(crate) fn moments(&self, evidence: &Evidence) -> Vec<EntriesBehind> {
        let mut moments: BTreeMap<u64, EntriesBehind> = BTreeMap::new();
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
pub(crate) fn behind_us(moments: &[EntriesBehind], member: &str, writes_per_s: f64) -> Option<f64> {
    let known: Vec<f64> = moments.iter().filter_map(|moment| moment.get(member)).copied().collect();
    Some(fathom_stats::mean(&known)? / writes_per_s * 1e6)
}

/// At this mean number of voters down, the set was short of a voter for most of the time.
const MIN_VOTERS_DOWN: f64 = 0.5;

/// Adds to a finding on a primary's writes that voters are down, if the majority needs every voter that is up.
pub(crate) fn name_down_voters(evidence: &Evidence, primary: &str, finding: &mut Finding) {
    let name = format!("server.{primary}.replication.voters_down");
    let Some(down) = evidence.mean(&name).filter(|down| *down >= MIN_VOTERS_DOWN).map(f64::round) else {
        return;
    };
    let number = |name: &str| fact(evidence, primary, name).and_then(|text| text.parse::<f64>().ok());
    let Some((voters, majority)) = number("voters").zip(number("majority")) else { return };
    let up = voters - down;
    if up > majority {
        return;
    }
    finding.evidence.push(format!(
        "{down:.0} of {voters:.0} voters with data are down, and a majority is {majority:.0}: every voter that is left is needed."
    ));
    finding.series.push(name);
    if finding.id == "flow-control-on-path" {
        finding.claim = format!(
            "The server holds writes back: {down:.0} of {voters:.0} voters are down, and the slowest of the others holds the commit point."
        );
        finding.advice = Some(
            "Bring the voters that are down back, or remove them from the configuration; no storage holds these writes back.".to_owned(),
        );
        // The evidence is the server's own counter of the wait and the set's own state.
        finding.confidence = Confidence::Likely;
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet, Severity};

    use super::*;

    fn named(id: &'static str, down: f64) -> Finding {
        let mut series = SeriesSet::default();
        let window_ns = (0, 30_000_000_000);
        let point = Point { begin_ns: 0, end_ns: window_ns.1, value: down };
        series.add("server.0.replication.voters_down", "1", point);
        let environment = [("server.0.voters", "5"), ("server.0.majority", "3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let evidence = Evidence { series, window_ns, environment, ..Evidence::default() };
        let mut finding = Finding::new(id, Severity::Warning, "Writes are held back.");
        name_down_voters(&evidence, "0", &mut finding);
        finding
    }

    #[test]
    fn voters_that_are_down_are_the_cause_once_none_of_the_others_can_be_spared() {
        let two = named("flow-control-on-path", 2.0);
        assert!(two.claim.contains("2 of 5 voters are down"), "{two:#?}");
        assert!(two.advice.unwrap().starts_with("Bring the voters that are down back"));
        assert_eq!(named("flow-control-on-path", 1.0).claim, "Writes are held back.");
        let waits = named("replication-on-path", 2.0);
        assert_eq!((waits.claim.as_str(), waits.evidence.len()), ("Writes are held back.", 1));
    }
}

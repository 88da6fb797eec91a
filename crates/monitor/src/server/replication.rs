//! The sampler of a replica set: reads the state and the lag of every member, the voters that make a majority, and changes.
//!
//! The primary is asked each second for the progress of the members' journals (`progress`). If a server does not show that, the
//! lag is that of heartbeats, as one member sees it.
//!
//! `writeConcern: majority` is satisfied by as many data-bearing voting members as make a majority of all votes, or by
//! all of them if arbiters vote too and they are fewer (docs/methods.md#write-concern).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use fathom_client::Address;
use fathom_errors::Result;
use fathom_record::disk::Entry;
use fathom_record::{ServerEvent, ServerEventKind};

use super::collection::number_at;
use super::link::{Refusal, ServerLink, WatchedServer};
use super::progress::{OptimeProgress, number_of};
use super::server_status;
use crate::sampler::{Notes, PeriodTimer};
use crate::{Batch, Sampler};

/// The state that replSetGetStatus gives the primary.
const PRIMARY: f64 = 1.0;
/// Members exchange heartbeats every two seconds.
const STATUS_PERIOD: Duration = Duration::from_secs(2);
/// A set is seldom reconfigured.
const CONFIG_PERIOD: Duration = Duration::from_secs(30);

/// The sampler of one set.
#[derive(Debug)]
pub(crate) struct Replication {
    set: String,
    members: Vec<(Address, usize)>,
    links: Vec<ServerLink>,
    /// The link to ask; the next one if it fails.
    at: usize,
    /// The link to the last known primary.
    primary: Option<usize>,
    progress: OptimeProgress,
    /// Shows whether the primary reports the members' progress; `None` before it was asked.
    has_progress: Option<bool>,
    states: HashMap<usize, f64>,
    standings: BTreeMap<String, String>,
    /// The names of voters with data, as the configuration has them.
    voters: Vec<String>,
    status_due: PeriodTimer,
    config_due: PeriodTimer,
    progress_command: RawDocumentBuf,
    notes: Notes,
}

/// A member in the reply.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MemberEntry<'r> {
    name: &'r str,
    state: f64,
    /// The time at which its last operation was applied, in milliseconds since 1970.
    applied_ms: Option<i64>,
    /// True if `applied_ms` has a resolution of one second.
    is_coarse: bool,
}

impl Replication {
    /// A sampler of the set that all of `members` belong to, the primary first.
    pub(crate) fn new(set: &str, members: &[&WatchedServer]) -> Replication {
        Replication {
            set: set.to_owned(),
            members: members.iter().map(|member| (member.address.clone(), member.number)).collect(),
            links: members
                .iter()
                .map(|member| ServerLink::new(member.number, member.address.clone(), &member.target))
                .collect(),
            at: 0,
            primary: None,
            progress: OptimeProgress::default(),
            has_progress: None,
            states: HashMap::new(),
            standings: BTreeMap::new(),
            voters: Vec::new(),
            status_due: PeriodTimer::new(STATUS_PERIOD),
            config_due: PeriodTimer::new(CONFIG_PERIOD),
            progress_command: server_status::of_progress(),
            notes: Notes::default(),
        }
    }

    fn read_status(&mut self, batch: &mut Batch) {
        let begin_ns = batch.clock.now_ns();
        let count = self.links.len().max(1);
        let Some(link) = self.links.get_mut(self.at % count) else { return };
        match link.ask("admin", &rawdoc! { "replSetGetStatus": 1 }) {
            Ok(reply) => {
                let window = (begin_ns, batch.clock.now_ns());
                let states = report(reply, &self.members, self.has_progress == Some(false), window, batch);
                let down = voters_down(reply, &self.voters);
                let primary = states.iter().find(|(_, state)| *state == PRIMARY).map(|(number, _)| *number);
                if let Some((number, down)) = primary.zip(down) {
                    let name = format!("server.{number}.replication.voters_down");
                    batch.put(name, "1", window, down);
                }
                self.primary = self.members.iter().position(|(_, number)| Some(*number) == primary);
                for (number, state) in states {
                    let before = self.states.insert(number, state);
                    if let Some(before) = before.filter(|before| *before != state) {
                        let line = format!(
                            "{} is {} now, was {}",
                            self.name_of(number),
                            state_name(state),
                            state_name(before)
                        );
                        batch.entries.push(changed(number, window.1, line));
                    }
                }
            }
            // The samplers of the servers report which one does not answer.
            Err(Refusal::Lost(_)) => self.at = (self.at + 1) % count,
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::Denied => {
                        "the user may not run replSetGetStatus (the role clusterMonitor is enough)"
                    }
                    _ => "no member tells",
                };
                self.notes.once(batch, format!(
                    "the state of the replica set '{}' is not known ({reason}): lag and elections are not found as causes",
                    self.set
                ));
            }
        }
    }

    fn read_progress(&mut self, batch: &mut Batch) {
        let Some(link) = self.primary.and_then(|at| self.links.get_mut(at)) else { return };
        let begin_ns = batch.clock.now_ns();
        match link.ask("admin", &self.progress_command) {
            Ok(status) => {
                let window = (begin_ns, batch.clock.now_ns());
                let tells = self.progress.report(status, &self.members, window, batch);
                self.has_progress = Some(tells);
                if !tells && self.members.len() > 1 {
                    self.notes.once(batch, format!(
                        "the primary of '{}' does not tell how far the journals of the members are (serverStatus with repl: 1): \
                         which member a majority waits for is not found",
                        self.set
                    ));
                }
            }
            // The primary is looked for again.
            Err(_) => self.primary = None,
        }
    }

    /// Reads the voters and the size of a majority; they are facts, added when they change.
    fn read_config(&mut self, batch: &mut Batch) {
        let count = self.links.len().max(1);
        let Some(link) = self.links.get_mut(self.at % count) else { return };
        match link.ask("admin", &rawdoc! { "replSetGetConfig": 1 }) {
            Ok(reply) => {
                self.voters = voters_with_data(reply);
                for (name, value) in standing_facts(reply, &self.set, &self.members) {
                    if self.standings.insert(name.clone(), value.clone()).as_ref() != Some(&value) {
                        batch.facts.push((name, value));
                    }
                }
            }
            Err(Refusal::Lost(_)) => {}
            Err(_) => self.notes.once(batch, format!(
                "the configuration of '{}' may not be read (replSetGetConfig; the role clusterMonitor is enough): every member \
                 counts as a voter",
                self.set
            )),
        }
    }

    fn name_of(&self, number: usize) -> String {
        let address = self.members.iter().find(|(_, one)| *one == number).map(|(address, _)| address);
        address.map_or_else(|| format!("server {number}"), |address| format!("server {number} ({address})"))
    }
}

impl Sampler for Replication {
    fn name(&self) -> String {
        format!("replication.{}", self.set)
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        if self.config_due.due(batch.clock.now_ns()) {
            self.read_config(batch);
        }
        if self.primary.is_none() || self.status_due.due(batch.clock.now_ns()) {
            self.read_status(batch);
        }
        self.read_progress(batch);
        self.links.iter_mut().for_each(|link| link.account(batch));
        Ok(())
    }
}

/// An event of a member.
pub(crate) fn changed(server: usize, at_ns: u64, line: String) -> Entry {
    Entry::ServerEvent(ServerEvent { server, at_ns, kind: ServerEventKind::Member, line })
}

/// The state of a member as `rs.status()` words it.
pub fn state_name(state: f64) -> &'static str {
    #[expect(clippy::cast_possible_truncation, reason = "a small number")]
    match state as i64 {
        0 => "startup",
        1 => "primary",
        2 => "secondary",
        3 => "recovering",
        5 => "startup2",
        6 => "unknown",
        7 => "arbiter",
        8 => "down",
        9 => "rollback",
        10 => "removed",
        _ => "in a state not known",
    }
}

/// Writes states, and lag where `has_lag`; the states by the members' numbers.
fn report(
    reply: &RawDocument,
    members: &[(Address, usize)],
    has_lag: bool,
    window: (u64, u64),
    batch: &mut Batch,
) -> Vec<(usize, f64)> {
    let seen: Vec<MemberEntry<'_>> = seen(reply);
    let primary = seen.iter().find(|member| member.state == PRIMARY);
    let mut states = Vec::new();
    for member in &seen {
        let Some(number) = number_of(member.name, members) else { continue };
        batch.put(format!("server.{number}.replication.state"), "1", window, member.state);
        states.push((number, member.state));
        let lag = primary.and_then(|primary| {
            // Two times of different resolution must not be compared.
            let comparable = primary.is_coarse == member.is_coarse;
            Some(primary.applied_ms?.saturating_sub(member.applied_ms?)).filter(|_| comparable)
        });
        if let Some(lag_ms) = lag.filter(|_| has_lag) {
            #[expect(clippy::cast_precision_loss, reason = "a lag is small")]
            let lag_ms = lag_ms.max(0) as f64;
            batch.put(format!("server.{number}.replication.lag_ms"), "ms", window, lag_ms);
        }
    }
    states
}

/// The number of data-bearing voters whose state is down (8) or unknown (6) for the answering member. `None` if the voters are unknown.
fn voters_down(reply: &RawDocument, voters: &[String]) -> Option<f64> {
    let seen = seen(reply);
    let is_down = |one: &&MemberEntry<'_>| {
        [6.0, 8.0].contains(&one.state) && voters.iter().any(|name| name == one.name)
    };
    #[expect(clippy::cast_precision_loss, reason = "a set has 50 members at most")]
    let count = seen.iter().filter(is_down).count() as f64;
    (!voters.is_empty()).then_some(count)
}

/// `lastAppliedWallTime` is exact to the millisecond and came with 5.0; `optimeDate` is the second of the operation's time.
fn seen(reply: &RawDocument) -> Vec<MemberEntry<'_>> {
    let Ok(members) = reply.get_array("members") else { return Vec::new() };
    let documents = members.into_iter().flatten().filter_map(|value| value.as_document());
    let read = |member| {
        let exact = date(member, "lastAppliedWallTime");
        Some(MemberEntry {
            name: RawDocument::get_str(member, "name").ok()?,
            state: number_at(member, &["state"])?,
            applied_ms: exact.or_else(|| date(member, "optimeDate")),
            is_coarse: exact.is_none(),
        })
    };
    documents.filter_map(read).collect()
}

fn date(document: &RawDocument, field: &str) -> Option<i64> {
    match document.get(field) {
        // A member that has not applied an operation yet has the start of 1970.
        Ok(Some(RawBsonRef::DateTime(date))) => Some(date.timestamp_millis()).filter(|ms| *ms > 0),
        _ => None,
    }
}

/// `server.N.set`, `.votes`, `.majority`, `.voters` (those with data) and, of hidden members, `.hidden`, for each member that is watched.
pub(crate) fn standing_facts(
    reply: &RawDocument,
    set: &str,
    watched: &[(Address, usize)],
) -> Vec<(String, String)> {
    let Ok(members) = reply.get_document("config").and_then(|config| config.get_array("members")) else {
        return Vec::new();
    };
    let members: Vec<&RawDocument> =
        members.into_iter().flatten().filter_map(|one| one.as_document()).collect();
    let voters = members.iter().filter(|one| votes(one)).count();
    let with_data = voters_with_data(reply).len();
    let majority = (voters / 2 + 1).min(with_data);
    let mut facts = Vec::new();
    for member in members {
        let Some(number) = member.get_str("host").ok().and_then(|host| number_of(host, watched)) else {
            continue;
        };
        let mut fact = |name: &str, value: String| facts.push((format!("server.{number}.{name}"), value));
        fact("set", set.to_owned());
        fact("votes", u8::from(votes(member)).to_string());
        fact("majority", majority.to_string());
        fact("voters", with_data.to_string());
        if member.get_bool("hidden").unwrap_or(false) {
            fact("hidden", true.to_string());
        }
    }
    facts
}

/// The names of the members that vote and have data.
pub(crate) fn voters_with_data(reply: &RawDocument) -> Vec<String> {
    let Ok(members) = reply.get_document("config").and_then(|config| config.get_array("members")) else {
        return Vec::new();
    };
    let members = members.into_iter().flatten().filter_map(|one| one.as_document());
    members
        .filter(|one| votes(one) && !one.get_bool("arbiterOnly").unwrap_or(false))
        .filter_map(|one| Some(RawDocument::get_str(one, "host").ok()?.to_owned()))
        .collect()
}

fn votes(member: &RawDocument) -> bool {
    number_at(member, &["votes"]).unwrap_or(1.0) > 0.0
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bson::{DateTime, rawdoc};

    use super::*;
    use crate::Clock;

    #[test]
    fn lag_is_how_far_a_member_is_behind_the_primary() {
        let at = DateTime::from_millis;
        let reply = rawdoc! { "set": "rs0", "myState": 1, "members": [
            { "name": "A:1", "state": 1, "optimeDate": at(9_000), "lastAppliedWallTime": at(9_900) },
            { "name": "b:1", "state": 2, "optimeDate": at(8_000), "lastAppliedWallTime": at(8_250) },
            { "name": "c:1", "state": 2, "optimeDate": at(9_000) },
            { "name": "d:1", "state": 8, "optimeDate": at(0) },
            { "name": "hidden:1", "state": 2, "optimeDate": at(1_000) },
            { "name": "[", "state": 2 },
        ] };
        let members: Vec<(Address, usize)> =
            ["a:1", "b:1", "c:1", "d:1"].iter().enumerate().map(|(n, a)| (a.parse().unwrap(), n)).collect();
        let voters = ["A:1", "b:1", "d:1"].map(str::to_owned);
        assert_eq!(voters_down(&reply, &voters), Some(1.0));
        assert_eq!(voters_down(&reply, &voters[..2]), Some(0.0));
        assert_eq!(voters_down(&reply, &[]), None);
        let mut batch = Batch::new(Clock::since(Instant::now()));
        let states = report(&reply, &members, true, (1, 2), &mut batch);
        assert_eq!(states, [(0, 1.0), (1, 2.0), (2, 2.0), (3, 8.0)]);
        let told: Vec<(&str, f64)> = batch.readings.iter().map(|r| (r.name.as_str(), r.value)).collect();
        let expected = [
            ("server.0.replication.state", 1.0),
            ("server.0.replication.lag_ms", 0.0),
            ("server.1.replication.state", 2.0),
            ("server.1.replication.lag_ms", 1650.0),
            ("server.2.replication.state", 2.0),
            ("server.3.replication.state", 8.0),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_majority_is_of_votes_and_of_members_with_data() {
        let watched: Vec<(Address, usize)> =
            ["a:1", "b:1", "c:1"].iter().enumerate().map(|(n, a)| (a.parse().unwrap(), n)).collect();
        let majority = |reply: &RawDocument| {
            let facts = standing_facts(reply, "rs", &watched);
            let of = |name: &str| facts.iter().find(|(one, _)| one == name).map(|(_, value)| value.clone());
            (of("server.0.majority"), of("server.1.votes"), of("server.2.hidden"))
        };
        let one = |votes: i32| Some(votes.to_string());
        let three = rawdoc! { "config": { "members": [
            { "host": "a:1" }, { "host": "b:1", "votes": 1 }, { "host": "c:1", "votes": 0, "hidden": true },
        ] } };
        assert_eq!(majority(&three), (one(2), one(1), Some("true".to_owned())));
        // Two with data and two arbiters: three votes are a majority, but only two can have the data.
        let arbiters = rawdoc! { "config": { "members": [
            { "host": "a:1" }, { "host": "b:1" }, { "host": "d:1", "arbiterOnly": true }, { "host": "e:1", "arbiterOnly": true },
        ] } };
        assert_eq!(majority(&arbiters), (one(2), one(1), None));
        assert!(standing_facts(&rawdoc! { "ok": 1 }, "rs", &watched).is_empty());
    }
}

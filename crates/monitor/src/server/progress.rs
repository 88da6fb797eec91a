//! Computes how far the journal of each member is behind the primary's newest write, from the primary's knowledge at one moment.
//!
//! `replSetGetStatus` shows data of heartbeats, which is up to two seconds old and cannot show a wait of milliseconds. `serverStatus` with `repl: 1`
//! shows what members report whenever they make progress (`replicationProgress`: the newest entry in each member's journal;
//! mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, fillMemberData). The lag is counted in entries, not time: by Little's law their mean
//! number divided by the rate of writes is the time that a write needs to reach the member, at any rate.

use std::collections::VecDeque;

use bson::{RawBsonRef, RawDocument, Timestamp};
use fathom_client::Address;

use super::collection::number_at;
use crate::Batch;

/// The number of readings of the primary that are kept: a member that is further behind is reported as far behind as the oldest of them.
const MAX_PRIMARY_READINGS: usize = 900;
/// A member that is behind the first of this many readings has been behind for longer than an entry takes to arrive.
const MIN_READINGS_BEHIND: usize = 3;

/// A reading of the primary.
#[derive(Clone, Copy, Debug)]
struct PrimaryReading {
    at_ns: u64,
    newest: Timestamp,
    /// The documents written since it started, which are the entries of its oplog.
    documents: f64,
}

/// The optimes that the primary has shown.
#[derive(Debug, Default)]
pub(crate) struct OptimeProgress {
    looks: VecDeque<PrimaryReading>,
}

/// A member's place behind the primary.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MemberLag {
    entries: f64,
    /// The age of the oldest entry that it lacks, in milliseconds.
    lag_ms: f64,
}

impl OptimeProgress {
    /// Takes a reply, and returns whether it showed the members.
    pub(crate) fn report(
        &mut self,
        status: &RawDocument,
        members: &[(Address, usize)],
        window: (u64, u64),
        batch: &mut Batch,
    ) -> bool {
        let Some(look) = look(status, window.0.midpoint(window.1)) else { return false };
        let Ok(progress) = status.get_document("repl").and_then(|repl| repl.get_array("replicationProgress"))
        else {
            return false;
        };
        // Another primary counts from elsewhere.
        if self.looks.back().is_some_and(|last| look.documents < last.documents || look.newest < last.newest)
        {
            self.looks.clear();
        }
        if self.looks.len() >= MAX_PRIMARY_READINGS {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
        for entry in progress.into_iter().flatten().filter_map(|value| value.as_document()) {
            let Some((number, journaled)) = journaled(entry, members) else { continue };
            let Some(MemberLag { entries, lag_ms }) = self.behind(journaled) else { continue };
            batch.put(format!("server.{number}.replication.behind"), "1", window, entries);
            batch.put(format!("server.{number}.replication.lag_ms"), "ms", window, lag_ms);
        }
        let committed = timestamp(status, &["repl", "lastWrite", "majorityOpTime"], "ts");
        if let Some((committed, primary)) = committed.zip(primary(status, members))
            && let Some(behind) = self.behind(committed)
        {
            batch.put(format!("server.{primary}.replication.uncommitted"), "1", window, behind.entries);
        }
        true
    }

    /// Returns how far a place in the oplog is behind the newest reading: exact within one second of the oplog, else interpolated between readings.
    fn behind(&self, place: Timestamp) -> Option<MemberLag> {
        let newest = self.looks.back()?;
        if place >= newest.newest {
            return Some(MemberLag { entries: 0.0, lag_ms: 0.0 });
        }
        // The last reading at which the primary had no more than this.
        let at = self.looks.partition_point(|look| look.newest <= place);
        let Some(before) = at.checked_sub(1).and_then(|at| self.looks.get(at)) else {
            // Further behind than the oldest reading: at least that far. But a set that was idle for an hour has an hour between
            // its last two entries until the newest has arrived.
            let oldest = self.looks.front()?;
            let seen_ms = ms(newest.at_ns - oldest.at_ns);
            let has_arrived = self.looks.len() > MIN_READINGS_BEHIND;
            if place.time == newest.newest.time {
                let lag_ms = if has_arrived { seen_ms } else { 0.0 };
                return Some(MemberLag { entries: between(place, newest.newest), lag_ms });
            }
            return has_arrived.then(|| MemberLag {
                entries: newest.documents - oldest.documents,
                lag_ms: seen_ms.max(1000.0 * seconds_apart(place, newest.newest)),
            });
        };
        let after = self.looks.get(at)?;
        let inner = (after.documents - before.documents).max(1.0);
        let of_inner = if place.time == before.newest.time {
            between(before.newest, place)
        } else if place.time == after.newest.time {
            inner - between(place, after.newest)
        } else {
            let span = seconds_apart(before.newest, after.newest).max(1.0);
            inner * seconds_apart(before.newest, place) / span
        };
        let of_inner = of_inner.clamp(0.0, inner);
        let entries = if place.time == newest.newest.time {
            between(place, newest.newest)
        } else {
            newest.documents - before.documents - of_inner
        };
        let reached_ns = before.at_ns as f64 + of_inner / inner * (after.at_ns - before.at_ns) as f64;
        Some(MemberLag {
            entries: entries.max(1.0),
            lag_ms: ((newest.at_ns as f64 - reached_ns) / 1e6).max(0.0),
        })
    }
}

fn look(status: &RawDocument, at_ns: u64) -> Option<PrimaryReading> {
    let written =
        ["inserted", "updated", "deleted"].map(|kind| number_at(status, &["metrics", "document", kind]));
    let newest = timestamp(status, &["repl", "lastWrite", "opTime"], "ts")?;
    Some(PrimaryReading { at_ns, newest, documents: written.into_iter().flatten().sum() })
}

/// A member's number and the newest entry in its journal.
fn journaled(entry: &RawDocument, members: &[(Address, usize)]) -> Option<(usize, Timestamp)> {
    let number = number_of(entry.get_str("host").ok()?, members)?;
    // A member without contact and an arbiter have the timestamp 0.
    Some((number, timestamp(entry, &["optime"], "ts")?)).filter(|(_, stamp)| stamp.time > 0)
}

/// The number of the member that answers.
fn primary(status: &RawDocument, members: &[(Address, usize)]) -> Option<usize> {
    number_of(status.get_document("repl").ok()?.get_str("me").ok()?, members)
}

/// The number of the member with this name in its set.
pub(crate) fn number_of(name: &str, members: &[(Address, usize)]) -> Option<usize> {
    let address: Address = name.parse().ok()?;
    let is_it = |(known, _): &&(Address, usize)| {
        known.port == address.port && known.host.eq_ignore_ascii_case(&address.host)
    };
    members.iter().find(is_it).map(|(_, number)| *number)
}

/// A timestamp at a path.
pub(crate) fn timestamp(document: &RawDocument, path: &[&str], field: &str) -> Option<Timestamp> {
    let mut document = document;
    for name in path {
        document = document.get_document(name).ok()?;
    }
    match document.get(field) {
        Ok(Some(RawBsonRef::Timestamp(stamp))) => Some(stamp),
        _ => None,
    }
}

/// Entries between two places of the same second: the second half of a timestamp counts them.
fn between(one: Timestamp, other: Timestamp) -> f64 {
    f64::from(other.increment.saturating_sub(one.increment))
}

/// Seconds of the oplog between two places.
fn seconds_apart(one: Timestamp, other: Timestamp) -> f64 {
    f64::from(other.time.saturating_sub(one.time))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bson::{RawDocumentBuf, rawdoc};

    use super::*;
    use crate::Clock;

    const SECOND_NS: u64 = 1_000_000_000;

    fn stamp(time: u32, increment: u32) -> Timestamp {
        Timestamp { time, increment }
    }

    fn status(newest: Timestamp, documents: i64, of_b: Timestamp) -> RawDocumentBuf {
        rawdoc! {
            "metrics": { "document": { "inserted": documents, "updated": 0, "deleted": 0 } },
            "repl": {
                "me": "a:1",
                "lastWrite": {
                    "opTime": { "ts": newest, "t": 1_i64 },
                    "majorityOpTime": { "ts": of_b, "t": 1_i64 },
                },
                "replicationProgress": [
                    { "host": "A:1", "optime": { "ts": newest, "t": 1_i64 } },
                    { "host": "b:1", "optime": { "ts": of_b, "t": 1_i64 } },
                    { "host": "arbiter:1", "optime": { "ts": stamp(0, 0), "t": -1_i64 } },
                ],
            },
        }
    }

    /// The readings on member b from looks a second apart.
    fn told(looks: &[(Timestamp, i64, Timestamp)]) -> Vec<(f64, f64)> {
        let members: Vec<(Address, usize)> =
            ["a:1", "b:1"].iter().enumerate().map(|(n, a)| (a.parse().unwrap(), n)).collect();
        let mut progress = OptimeProgress::default();
        let mut all = Vec::new();
        for (second, (newest, documents, of_b)) in (1..).zip(looks) {
            let mut batch = Batch::new(Clock::since(Instant::now()));
            let at_ns = second * SECOND_NS;
            assert!(progress.report(
                &status(*newest, *documents, *of_b),
                &members,
                (at_ns, at_ns),
                &mut batch
            ));
            let value = |name: &str| batch.readings.iter().find(|one| one.name == name).map(|one| one.value);
            assert_eq!(value("server.0.replication.behind"), Some(0.0));
            if let Some(behind) = value("server.1.replication.behind") {
                assert_eq!(value("server.0.replication.uncommitted"), Some(behind));
                all.push((behind, value("server.1.replication.lag_ms").unwrap()));
            }
        }
        all
    }

    #[test]
    fn entries_are_counted_within_a_second_and_across_seconds() {
        let looks = [
            // Within the oplog's second: the increments tell.
            (stamp(100, 50), 50, stamp(100, 45)),
            // All of it.
            (stamp(101, 40), 190, stamp(101, 40)),
            // The member is in the second before, which had 140 entries.
            (stamp(102, 10), 300, stamp(101, 90)),
        ];
        let told = told(&looks);
        assert_eq!(told[0], (5.0, 0.0));
        assert_eq!(told[1], (0.0, 0.0));
        let (entries, lag_ms) = told[2];
        assert_eq!(entries, 60.0);
        assert!((lag_ms - 545.0).abs() < 1.0, "{lag_ms}");
    }

    #[test]
    fn a_member_that_stands_still_is_as_old_as_what_it_lacks() {
        let still = stamp(100, 7);
        let looks: Vec<_> = (0..60)
            .map(|second: u32| (stamp(100 + second, 10), i64::from(second) * 10 + 10, still))
            .collect();
        let told = told(&looks);
        let (entries, lag_ms) = *told.last().unwrap();
        assert!((entries - 593.0).abs() <= 10.0, "{entries}");
        assert!((58_000.0..60_000.0).contains(&lag_ms), "{lag_ms}");
    }

    #[test]
    fn a_new_primary_and_replies_without_progress_are_no_lag() {
        let looks = [
            (stamp(100, 50), 5000, stamp(100, 50)),
            (stamp(103, 1), 12, stamp(103, 1)),
            (stamp(104, 2), 14, stamp(104, 1)),
        ];
        assert_eq!(told(&looks), [(0.0, 0.0), (0.0, 0.0), (1.0, 500.0)]);
        let mut batch = Batch::new(Clock::since(Instant::now()));
        assert!(!OptimeProgress::default().report(&rawdoc! { "ok": 1 }, &[], (1, 1), &mut batch));
        assert!(batch.is_empty());
    }
}

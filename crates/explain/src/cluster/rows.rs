//! The seconds of the path through routers, as rows of sums: the client's, the routers', and each shard's.

use fathom_record::Point;

use crate::Evidence;
use crate::client::{ClientLoads, ReadWriteType, points};
use crate::member::{fact, is_router};
use crate::windows::{Window, apart, read_in, spread};

/// Sums of a kind of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// At the client: the number of operations, and their time by both clocks in microseconds.
    Client,
    Service,
    Response,
    /// At the routers: the number of operations, their time, and the part of it that they waited for shards.
    Router,
    RouterTime,
    Waited,
}
const KINDS: usize = 2;
const OF_KIND: usize = 6;
/// The position of the sums of both kinds together, behind those of each.
pub(super) const SECONDS: usize = KINDS * OF_KIND;
pub(super) const IN_FLIGHT: usize = SECONDS + 1;
pub(super) const PROCESSOR: usize = SECONDS + 2;
pub(super) const PING: usize = SECONDS + 3;
pub(super) const PINGS: usize = SECONDS + 4;
const FIRST_SHARD: usize = SECONDS + 5;

/// The column of a sum of a kind (0 reads, 1 writes).
pub(super) fn at(kind: usize, of: RowKind) -> usize {
    kind * OF_KIND + of as usize
}

/// The position of a shard's operations of a kind; their time follows.
pub(super) fn shard_at(shard: usize, kind: usize) -> usize {
    FIRST_SHARD + (shard * KINDS + kind) * 2
}

#[derive(Clone, Debug)]
pub(super) struct ShardRows {
    pub(super) windows: Vec<Window>,
    pub(super) rows: Vec<Vec<f64>>,
    pub(super) has_client: bool,
    /// Whether the routers time their operations and count their wait for shards.
    pub(super) times: bool,
    pub(super) waits: bool,
    pub(super) has_processor: bool,
    /// Whether a collection's latency ends before the wait for its write concern; then the server's own counts are used.
    pub(super) waits_added: bool,
}

const NAMES: [&str; KINDS] = ["reads", "writes"];

impl ShardRows {
    /// The rows; `None` if neither the client nor the routers count operations.
    pub(super) fn from_evidence(
        evidence: &Evidence,
        client: Option<&ClientLoads>,
        routers: &[String],
        shards: &[(String, Vec<String>)],
    ) -> Option<ShardRows> {
        let first = routers.first()?;
        let windows = match client {
            Some(client) => client.windows(evidence),
            None => {
                let all = points(evidence, &format!("server.{first}.reads.latency_us"));
                let inner = all.get(1..all.len().saturating_sub(1)).unwrap_or(&[]);
                apart(inner.iter().map(|point| (point.begin_ns, point.end_ns)).collect())
            }
        };
        if windows.is_empty() {
            return None;
        }
        let width = FIRST_SHARD + shards.len() * KINDS * 2;
        let rows = windows.iter().map(|(begin_ns, end_ns)| {
            let mut row = vec![0.0; width];
            put(&mut row, SECONDS, (end_ns - begin_ns) as f64 / 1e9);
            row
        });
        let mut draft = Draft { rows: rows.collect(), whole: vec![true; windows.len()], windows };
        draft.client(evidence, client);
        let mut read = [true; 2];
        for router in routers {
            for (kind, name) in NAMES.into_iter().enumerate() {
                let series = |tail: &str| format!("server.{router}.{name}.{tail}");
                read[0] &= draft.sum(evidence, at(kind, RowKind::Router), &series("operations"))
                    && draft.sum(evidence, at(kind, RowKind::RouterTime), &series("latency_us"));
                read[1] &= draft.sum(evidence, at(kind, RowKind::Waited), &series("shards_us"));
            }
            let pings = read_in(points(evidence, &format!("server.{router}.ping_us")), &draft.windows);
            draft.put(PING, &pings);
            draft.put(PINGS, &pings.iter().map(|ping| ping.map(|_| 1.0)).collect::<Vec<_>>());
        }
        let mut has_processor = true;
        for router in routers {
            let series = |tail: &str| format!("server.{router}.process.{tail}");
            has_processor &= draft.sum(evidence, PROCESSOR, &series("cpu_us"));
            draft.sum(evidence, PROCESSOR, &series("run_wait_us"));
        }
        let waits_added = draft.shards(evidence, shards)?;
        let keep = |at: usize| draft.whole.get(at).copied().unwrap_or(false);
        Some(ShardRows {
            windows: kept(draft.windows.clone(), keep),
            rows: kept(draft.rows.clone(), keep),
            has_client: client.is_some(),
            times: read[0],
            waits: read[0] && read[1],
            has_processor,
            waits_added,
        })
    }

    /// Whole blocks of time, which are resampled.
    pub(super) fn blocks(&self) -> Vec<Vec<f64>> {
        let length = (self.rows.len() / 8).clamp(1, 10);
        self.rows.chunks(length).map(sum_of).collect()
    }

    pub(super) fn total(&self) -> Vec<f64> {
        sum_of(&self.rows)
    }

    pub(super) fn window_ns(&self) -> Window {
        (self.windows.first().map_or(0, |one| one.0), self.windows.last().map_or(0, |one| one.1))
    }
}

fn sum_of(rows: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; rows.first().map_or(0, Vec::len)];
    rows.iter().for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
    sum
}

fn put(row: &mut [f64], at: usize, value: f64) {
    row.get_mut(at).into_iter().for_each(|sum| *sum += value);
}

fn kept<T>(values: Vec<T>, keep: impl Fn(usize) -> bool) -> Vec<T> {
    values.into_iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, value)| value).collect()
}

/// Rows that are being filled.
struct Draft {
    windows: Vec<Window>,
    rows: Vec<Vec<f64>>,
    whole: Vec<bool>,
}

impl Draft {
    fn put(&mut self, at: usize, values: &[Option<f64>]) {
        for (row, value) in self.rows.iter_mut().zip(values) {
            put(row, at, value.unwrap_or(0.0));
        }
    }

    /// Adds a counter. Returns whether it was read for most of the seconds; the other seconds are then left out.
    fn sum(&mut self, evidence: &Evidence, at: usize, name: &str) -> bool {
        self.sum_points(at, points(evidence, name))
    }

    fn sum_points(&mut self, at: usize, points: &[Point]) -> bool {
        const MIN_COVERED_SHARE: f64 = 0.8;
        let values = spread(points, &self.windows);
        let covered = values.iter().filter(|value| value.is_some()).count();
        let mostly = covered > 0 && covered as f64 >= MIN_COVERED_SHARE * self.windows.len() as f64;
        if mostly {
            self.put(at, &values);
            self.whole.iter_mut().zip(&values).for_each(|(whole, value)| *whole &= value.is_some());
        }
        mostly
    }

    fn client(&mut self, evidence: &Evidence, client: Option<&ClientLoads>) {
        let Some(client) = client else { return };
        for operation in &client.operations {
            let kind = match operation.kind {
                ReadWriteType::Reads => 0,
                ReadWriteType::Writes => 1,
                ReadWriteType::Other => continue,
            };
            self.put(at(kind, RowKind::Client), &spread(&operation.counts(evidence), &self.windows));
            self.put(
                at(kind, RowKind::Service),
                &spread(&operation.times_us(evidence, "service"), &self.windows),
            );
            self.put(
                at(kind, RowKind::Response),
                &spread(&operation.times_us(evidence, "response"), &self.windows),
            );
        }
        for mut area in client.areas(evidence, "in_flight") {
            area.iter_mut().for_each(|point| point.value *= 1e6);
            self.put(IN_FLIGHT, &spread(&area, &self.windows));
        }
    }

    /// Adds the shards' counts: those of the namespace if any shard has operations of it, else those of the primaries. `None` if even
    /// those are not known.
    fn shards(&mut self, evidence: &Evidence, shards: &[(String, Vec<String>)]) -> Option<bool> {
        let members = || shards.iter().flat_map(|(_, members)| members);
        let count = |scope: &str, member: &String| {
            let of = |kind: &str| {
                evidence.sum(&format!("server.{member}.{scope}{kind}.operations")).unwrap_or(0.0)
            };
            of("reads") + of("writes")
        };
        let is_named = members().map(|member| count("collection.", member)).sum::<f64>() > 0.0;
        let scope = if is_named { "collection." } else { "" };
        let mut added = false;
        let mut any = false;
        for (shard, (_, members)) in shards.iter().enumerate() {
            for member in members {
                if is_router(evidence, member)
                    || !is_named && fact(evidence, member, "role") == Some("secondary")
                {
                    continue;
                }
                let waits_outside = is_named && crate::layers::waits_outside(evidence, member);
                for (kind, name) in NAMES.into_iter().enumerate() {
                    // The server's own latency of writes includes the wait that the collection's latency lacks.
                    let is_own = waits_outside && name == "writes";
                    let scope = if is_own { "" } else { scope };
                    added |= is_own;
                    let series = |tail: &str| format!("server.{member}.{scope}{name}.{tail}");
                    any |= self.sum(evidence, shard_at(shard, kind), &series("operations"));
                    self.sum(evidence, shard_at(shard, kind) + 1, &series("latency_us"));
                }
            }
        }
        any.then_some(added)
    }
}

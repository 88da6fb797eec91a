//! Builds budgets from rows: intervals by whole blocks of time, closure, and the sentences on a budget that does not close.

use std::ops::Range;

use fathom_record::budget::{Budget, Layer};
use fathom_stats::{BootstrapEstimate, Interval, SeededRandom, bootstrap_sums};

use super::columns::{Column, series_of};
use super::frame::{ServerFrame, sum_of};
use super::parts::{LAYERS, OperationSet, Parts, WindowDecisions, parts};
use super::shape::shape_of;
use crate::Evidence;
use crate::client::points;

/// The fewest operations for a mean.
const MIN_OPERATIONS: f64 = 100.0;
/// The fewest seconds for a budget.
const MIN_SECONDS: usize = 3;
/// The number of draws of a bootstrap.
pub(crate) const RESAMPLES: usize = 500;
/// The fewest whole cycles of checkpoints that are resampled instead of blocks of seconds (docs/methods.md#the-latency-budget).
const MIN_CYCLES: usize = 8;
/// The seconds of a block, if there are enough seconds.
const BLOCK_SECONDS: usize = 10;
/// The most by which layers may miss the whole and still close (docs/methods.md#the-latency-budget), whatever the standard error.
const MAX_CLOSURE_GAP: f64 = 0.05;
/// The error of the estimated wait for the journal, as a part of it. tests/verdicts/journal_estimate.rs compares the interval with the exact wait
/// that the lab server counts.
const ESTIMATE_ERROR: f64 = 0.3;

/// The budgets of one server, with how they were computed; empty if the window is too short for one.
pub(crate) fn budgets(evidence: &Evidence, frame: &ServerFrame) -> Vec<Budget> {
    let total = frame.total();
    let Some((shape, missing)) = shape_of(frame, &total).filter(|_| frame.rows.len() >= MIN_SECONDS) else {
        return Vec::new();
    };
    let blocks: Vec<Vec<f64>> = blocks(evidence, frame)
        .into_iter()
        .map(|range| sum_of(frame.rows.get(range).unwrap_or(&[])))
        .collect();
    [(OperationSet::All, "all"), (OperationSet::Reads, "reads"), (OperationSet::Writes, "writes")]
        .into_iter()
        .filter(|(of, _)| parts(&total, *of, &shape).count >= MIN_OPERATIONS)
        .map(|(of, name)| {
            let mut stream = SeededRandom::from_seed(evidence.seed).split(of as u64);
            let figures = |row: &[f64]| figures(&parts(row, of, &shape));
            let resampled =
                bootstrap_sums(&blocks, 0.95, RESAMPLES, &mut stream, figures).unwrap_or_default();
            let mut budget =
                Draft { frame, shape: &shape, parts: parts(&total, of, &shape), resampled }.budget(name);
            budget.missing.extend(missing.iter().cloned());
            if of != OperationSet::All {
                budget.missing.extend(shared_out(&budget));
            }
            budget
        })
        .collect()
}

/// The figures that are resampled: the layers, the parts within them, and the closure.
fn figures(parts: &Parts) -> Vec<f64> {
    let within = [parts.ping, parts.device, parts.evicting, parts.closure()];
    parts.layers.iter().copied().chain(within).collect()
}
const PING: usize = LAYERS.len();
const DEVICE: usize = PING + 1;
const EVICTING: usize = PING + 2;
const CLOSURE: usize = PING + 3;

/// The blocks that are resampled: cycles from the end of a checkpoint to the end of the next if there are enough of them
/// and they are longer than a few seconds, else ten seconds each, or less in a short window, so that there are eight.
pub(crate) fn blocks(evidence: &Evidence, frame: &ServerFrame) -> Vec<Range<usize>> {
    let ended = points(evidence, &format!("server.{}.checkpoint.count", frame.member));
    let mut edges: Vec<usize> = ended
        .iter()
        .filter(|point| point.value >= 0.5)
        .map(|point| frame.windows.partition_point(|(_, end_ns)| *end_ns <= point.end_ns))
        .collect();
    edges.dedup();
    let cycles: Vec<Range<usize>> =
        edges.windows(2).filter_map(|pair| Some(*pair.first()?..*pair.last()?)).collect();
    let long = cycles.iter().map(ExactSizeIterator::len).sum::<usize>() >= 3 * cycles.len();
    if cycles.len() >= MIN_CYCLES && long {
        return cycles;
    }
    let seconds = frame.rows.len();
    let length = (seconds / 8).clamp(1, BLOCK_SECONDS);
    let count = seconds / length;
    // The remainder belongs to the last block, so that no second is lost.
    (0..count)
        .map(|block| block * length..if block + 1 == count { seconds } else { (block + 1) * length })
        .collect()
}

struct Draft<'f> {
    frame: &'f ServerFrame,
    shape: &'f WindowDecisions,
    parts: Parts,
    resampled: Vec<Option<BootstrapEstimate>>,
}

impl Draft<'_> {
    fn resampled(&self, figure: usize) -> Option<BootstrapEstimate> {
        self.resampled.get(figure).copied().flatten()
    }

    fn layer(&self, name: &str, mean_us: f64, figure: usize, columns: &[Column]) -> Layer {
        let bounds = |Interval { low, high }: Interval| (low, high);
        let series = columns.iter().filter_map(|column| series_of(*column));
        Layer {
            name: name.to_owned(),
            mean_us,
            interval_us: self.resampled(figure).map(|resampled| bounds(resampled.interval)),
            share: if self.parts.whole > 0.0 { mean_us / self.parts.whole } else { 0.0 },
            series: series.map(|tail| format!("server.{}.{tail}", self.frame.member)).collect(),
            within: Vec::new(),
        }
    }

    fn budget(self, operations: &str) -> Budget {
        let closure = self.parts.closure();
        let error = self.resampled(CLOSURE).map_or(0.0, |resampled| resampled.standard_error);
        Budget {
            member: self.frame.member.clone(),
            operations: operations.to_owned(),
            count: self.parts.count,
            window_ns: self.frame.window_ns(),
            client_mean_us: self.shape.client.then_some(self.parts.client),
            server_mean_us: self.parts.server,
            layers: self.layers(),
            unexplained_us: self.parts.unexplained(),
            closure,
            closes: (1.0 - closure).abs() <= MAX_CLOSURE_GAP.max(3.0 * error),
            missing: self.negatives(MAX_CLOSURE_GAP.max(3.0 * error)),
        }
    }

    /// The layers that could be computed.
    fn layers(&self) -> Vec<Layer> {
        let has = |column| self.frame.has(column);
        let mut layers = Vec::new();
        for (figure, (name, mean_us)) in LAYERS.iter().zip(self.parts.layers).enumerate() {
            let columns: &[Column] = match *name {
                "schedule" | "network" if !self.shape.client => continue,
                "ticket" => &[Column::Ticket],
                "flow_control" => &[Column::FlowControl],
                "lock" => &[Column::Lock],
                "write_conflict" if self.shape.conflicts_per_write <= 0.0 => continue,
                "write_conflict" => &[Column::WriteConflicts],
                "replication" if self.shape.alone => continue,
                "replication" => &[Column::Replication],
                "page_read" => &[Column::PageRead],
                "evict" => &[Column::Evict, Column::CacheWait],
                "journal" if self.shape.alone => &[Column::Replication, Column::SyncTime],
                "journal" if self.shape.waits_outside => &[Column::AllWriteTime, Column::SyncTime],
                "journal" => &[Column::Journal, Column::SyncTime],
                _ => &[],
            };
            if !columns.is_empty() && !columns.iter().any(|column| has(*column)) {
                continue;
            }
            let read: Vec<Column> = columns.iter().copied().filter(|column| has(*column)).collect();
            let mut layer = self.layer(name, mean_us, figure, &read);
            if *name == "journal" && self.shape.is_journal_estimated() {
                // A limit on writes delays them before their sync: all time that no other wait explains may be due to it.
                let engine_us = self.parts.layers.last().copied().unwrap_or(0.0);
                let most_us = mean_us + engine_us + self.parts.unexplained().max(0.0);
                layer.interval_us = layer.interval_us.map(|(low, high)| {
                    let high = (high * (1.0 + ESTIMATE_ERROR)).max(most_us);
                    (low * (1.0 - ESTIMATE_ERROR), high.min(self.parts.whole))
                });
            }
            layer.within = self.within(name, mean_us);
            layer.series.extend(self.other_series(name));
            layers.push(layer);
        }
        layers
    }

    fn within(&self, name: &str, mean_us: f64) -> Vec<Layer> {
        let Parts { ping, device, evicting, .. } = self.parts;
        let two = |first: &str, part: f64, figure: usize, rest: &str| {
            vec![self.layer(first, part, figure, &[]), self.layer(rest, mean_us - part, usize::MAX, &[])]
        };
        match name {
            "network" if self.frame.has(Column::Pings) && !self.shape.is_mostly_others => {
                two("ping", ping, PING, "client and parse")
            }
            "page_read" if !self.frame.devices.is_empty() => {
                let above = if self.frame.is_capped { "throttle above it" } else { "file system" };
                two("device", device, DEVICE, above)
            }
            "evict" if self.frame.has(Column::CacheWait) && self.frame.has(Column::Evict) => {
                two("evicting", evicting, EVICTING, "waiting for room")
            }
            _ => Vec::new(),
        }
    }

    fn other_series(&self, layer: &str) -> Vec<String> {
        let member = &self.frame.member;
        let scope = if self.frame.of_namespace { "collection." } else { "" };
        let latency = || ["reads", "writes"].map(|kind| format!("server.{member}.{scope}{kind}.latency_us"));
        let operations = || self.frame.operations.iter();
        let client = |clock: &'static str| operations().map(move |one| format!("{one}.{clock}.mean_ns"));
        match layer {
            "schedule" => client("response").chain(client("service")).collect(),
            "network" => {
                client("service").chain([format!("server.{member}.ping_us")]).chain(latency()).collect()
            }
            "page_read" => {
                self.frame.devices.iter().map(|device| format!("device.{device}.read_ms")).collect()
            }
            "engine" => latency().to_vec(),
            _ => Vec::new(),
        }
    }

    /// The sentences on a remainder below zero, and on records of the client that disagree with its own count.
    fn negatives(&self, tolerance: f64) -> Vec<String> {
        let mut said = Vec::new();
        let Parts { whole, network_left, engine_left, .. } = self.parts;
        if self.shape.client && network_left < self.shape.floor_us - tolerance * whole {
            said.push(if network_left < 0.0 {
                format!(
                    "The server's mean is {:.0} us above the client's: other operations are mixed in, or a counter was set back.",
                    -network_left
                )
            } else {
                format!(
                    "A ping takes {:.0} us at least, but client and server are only {network_left:.0} us apart: pings take another \
                     way, or other operations are mixed in.",
                    self.shape.floor_us
                )
            });
        }
        if engine_left < -tolerance * whole {
            said.push(format!(
                "The waits are {:.0} us longer than the server's time: they are of other operations too, or a counter was set back.",
                -engine_left
            ));
        }
        if self.shape.client {
            let schedule = self.parts.layers.first().copied().unwrap_or(0.0);
            let (recorded, counted) = (self.parts.client - schedule, whole - schedule);
            if recorded > 0.0 && (counted / recorded - 1.0).abs() > tolerance {
                said.push(format!(
                    "By the operations under way an operation takes {counted:.0} us, by its records {recorded:.0} us: records are lost, \
                     or counted twice.",
                ));
            }
        }
        said
    }
}

/// The sentence on a kind to which a part of the waits of all kinds was assigned.
fn shared_out(budget: &Budget) -> Option<String> {
    let shared = ["page_read", "evict", "ticket", "lock"];
    let large = |layer: &&Layer| shared.contains(&layer.name.as_str()) && layer.share > 0.05;
    let names: Vec<&str> = budget.layers.iter().filter(large).map(|layer| layer.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "The server sums {} over reads and writes, so each kind's part is shared out.",
            names.join(" and ")
        )
    })
}

//! The path through routers, from the client to the shards and back, as a latency budget with its own layers.
//!
//! `network` is the client's time less the router's. `router` is the router's own work. `to_shards` is the time that it waited for
//! shards less the time that these counted, and `shards` is the rest. For a router that does not time its operations (mongos), the
//! first three are one layer. If a router waits for several shards at once, its wait is the time of the last one to answer. The
//! shards' own sums may then be more, and the layer is the wait.

use fathom_record::budget::{Budget, Layer};
use fathom_stats::{BootstrapEstimate, SeededRandom, bootstrap_sums, quantile};

use super::rows::{IN_FLIGHT, PING, PINGS, PROCESSOR, RowKind, SECONDS, ShardRows, at, shard_at};
use crate::Evidence;
use crate::client::ClientLoads;
use crate::member::{fact, routers};

/// The layers in the order of the path.
const LAYERS: [&str; 5] = ["schedule", "network", "router", "to_shards", "shards"];
const SCHEDULE: usize = 0;
const NETWORK: usize = 1;
const ROUTER: usize = 2;
const TO_SHARDS: usize = 3;
const SHARDS: usize = 4;
const MIN_OPERATIONS: f64 = 100.0;
const MIN_SECONDS: usize = 3;
const RESAMPLES: usize = 500;
/// The same as for the layers of a server (docs/methods.md#the-latency-budget).
const MAX_CLOSURE_GAP: f64 = 0.05;
/// The most by which the client's own count of operations under way may differ (docs/methods.md#littles-law).
const MAX_CLIENT_GAP: f64 = 0.02;
/// If shards count more than this many operations for one of the routers', some operations were sent to several shards. Monitoring and counters that
/// are read at different moments make less.
const MAX_VISITS_PER_OPERATION: f64 = 1.05;

/// Routers, shards, and their seconds.
#[derive(Clone, Debug)]
pub(super) struct RouterPath {
    pub(super) routers: Vec<String>,
    /// Names of shards, and the numbers of their members.
    pub(super) shards: Vec<(String, Vec<String>)>,
    pub(super) rows: ShardRows,
    /// The round trip to a router: the lower quartile of pings.
    ping_us: f64,
}

/// The mean operation of some kinds, in microseconds.
#[derive(Clone, Debug, Default)]
struct Parts {
    count: f64,
    client: f64,
    whole: f64,
    router: f64,
    layers: [f64; 5],
    by_shard: Vec<f64>,
    ping: f64,
    /// Remainders, even if they are below zero.
    network_left: f64,
    shards_left: f64,
    /// Operations of shards for one of the routers'.
    visits: f64,
}

impl RouterPath {
    /// `None` if no router was watched, or no series counts operations.
    pub(super) fn from_evidence(evidence: &Evidence, client: Option<&ClientLoads>) -> Option<RouterPath> {
        let routers = routers(evidence);
        if routers.is_empty() {
            return None;
        }
        let mut shards: Vec<(String, Vec<String>)> = Vec::new();
        for member in evidence.members() {
            let Some(name) = fact(evidence, &member, "shard") else { continue };
            match shards.iter_mut().find(|(shard, _)| shard == name) {
                Some((_, members)) => members.push(member),
                None => shards.push((name.to_owned(), vec![member])),
            }
        }
        shards.sort();
        let rows = ShardRows::from_evidence(evidence, client, &routers, &shards)?;
        (!shards.is_empty() && rows.rows.len() >= MIN_SECONDS && (rows.has_client || rows.times)).then(|| {
            let pings: Vec<f64> = rows
                .rows
                .iter()
                .filter(|row| value(row, PINGS) > 0.0)
                .map(|row| value(row, PING) / value(row, PINGS))
                .collect();
            let ping_us = quantile(&pings, 0.25).unwrap_or(0.0);
            RouterPath { routers, shards, rows, ping_us }
        })
    }

    /// Budgets of all operations, of reads and of writes, under the first router's number.
    pub(super) fn budgets(&self, evidence: &Evidence) -> Vec<Budget> {
        let total = self.rows.total();
        let blocks = self.rows.blocks();
        let kinds: [(&str, &[usize]); 3] = [("all", &[0, 1]), ("reads", &[0]), ("writes", &[1])];
        let mut budgets = Vec::new();
        for (stream, (name, kinds)) in (0..).zip(kinds) {
            let parts = self.parts(&total, kinds);
            if parts.count < MIN_OPERATIONS {
                continue;
            }
            let mut stream = SeededRandom::from_seed(evidence.seed).split(200 + stream);
            let figures = |row: &[f64]| {
                let parts = self.parts(row, kinds);
                let closure = parts.layers.iter().sum::<f64>() / parts.whole;
                parts.layers.into_iter().chain([closure]).chain(parts.by_shard).collect()
            };
            let resampled =
                bootstrap_sums(&blocks, 0.95, RESAMPLES, &mut stream, figures).unwrap_or_default();
            budgets.push(self.budget(name, &parts, &resampled));
        }
        budgets
    }

    fn parts(&self, row: &[f64], kinds: &[usize]) -> Parts {
        let sum = |of: RowKind| -> f64 { kinds.iter().map(|kind| value(row, at(*kind, of))).sum() };
        let count = if self.rows.has_client { sum(RowKind::Client) } else { sum(RowKind::Router) };
        let each = |us: f64| if count > 0.0 { us / count } else { 0.0 };
        let mut parts = Parts { count, router: each(sum(RowKind::RouterTime)), ..Parts::default() };
        let shard = |shard: usize, offset: usize| -> f64 {
            kinds.iter().map(|kind| value(row, shard_at(shard, *kind) + offset)).sum()
        };
        let mut by_shard: Vec<f64> = (0..self.shards.len()).map(|one| each(shard(one, 1))).collect();
        parts.visits = each((0..self.shards.len()).map(|one| shard(one, 0)).sum());
        let counted: f64 = by_shard.iter().sum();
        let mut layers = [0.0; 5];
        let service = each(sum(RowKind::Service));
        if self.rows.has_client {
            let response = each(sum(RowKind::Response));
            parts.client = response;
            set(&mut layers, SCHEDULE, (response - service).max(0.0));
            parts.whole = (response - service).max(0.0) + service * self.in_flight_ratio(row);
        } else {
            parts.whole = parts.router;
        }
        let within = if self.rows.times { parts.router } else { service };
        let waited = if self.rows.waits { each(sum(RowKind::Waited)) } else { within };
        if self.rows.times {
            if self.rows.has_client {
                parts.network_left = service - parts.router;
                set(&mut layers, NETWORK, parts.network_left.max(0.0));
            }
            if self.rows.waits {
                let own = parts.router - waited;
                set(&mut layers, ROUTER, self.on_processor(row, own));
            }
        }
        let shards = counted.min(waited);
        parts.shards_left = waited - counted;
        set(&mut layers, SHARDS, shards);
        let rest = if self.rows.waits { TO_SHARDS } else { ROUTER };
        set(&mut layers, rest, waited - shards);
        if counted > 0.0 {
            by_shard.iter_mut().for_each(|us| *us *= shards / counted);
        }
        let pings = value(row, PINGS);
        // On a busy machine most pings wait for a processor: the lower quartile is the time of the round trip itself.
        parts.ping = if pings > 0.0 { (value(row, PING) / pings).min(self.ping_us) } else { 0.0 };
        Parts { layers, by_shard, ..parts }
    }

    /// The router's own time is at most the time that its process ran or waited for a processor; a remainder is not explained.
    /// Processor time cannot be divided by kinds of operations: the remainder in the mean of all is spread over them.
    fn on_processor(&self, row: &[f64], own_us: f64) -> f64 {
        let both = |of: RowKind| value(row, at(0, of)) + value(row, at(1, of));
        let operations = both(RowKind::Router);
        if !self.rows.has_processor || operations <= 0.0 {
            return own_us;
        }
        let all_us = (both(RowKind::RouterTime) - both(RowKind::Waited)) / operations;
        let ran_us = value(row, PROCESSOR) / operations;
        if all_us > ran_us && all_us > 0.0 { own_us * ran_us / all_us } else { own_us }
    }

    /// The operations under way divided by throughput times service time: 1 if every operation was counted with its time.
    fn in_flight_ratio(&self, row: &[f64]) -> f64 {
        let service = value(row, at(0, RowKind::Service)) + value(row, at(1, RowKind::Service));
        let ratio = if service > 0.0 { value(row, IN_FLIGHT) / service } else { 0.0 };
        if ratio <= 0.0 || (ratio - 1.0).abs() <= MAX_CLIENT_GAP { 1.0 } else { ratio }
    }

    fn budget(&self, operations: &str, parts: &Parts, resampled: &[Option<BootstrapEstimate>]) -> Budget {
        let of = |figure: usize| resampled.get(figure).copied().flatten();
        let whole = parts.whole.max(f64::MIN_POSITIVE);
        let layer = |name: String, mean_us: f64, figure: Option<usize>, series: Vec<String>| Layer {
            name,
            mean_us,
            interval_us: figure.and_then(of).map(|one| (one.interval.low, one.interval.high)),
            share: mean_us / whole,
            series,
            within: Vec::new(),
        };
        let has = |at: usize| match at {
            SCHEDULE => self.rows.has_client,
            NETWORK => self.rows.has_client && self.rows.times,
            TO_SHARDS => self.rows.waits,
            _ => true,
        };
        let mut layers = Vec::new();
        for (figure, (name, mean_us)) in
            LAYERS.iter().zip(parts.layers).enumerate().filter(|(at, _)| has(*at))
        {
            let mut one = layer((*name).to_owned(), mean_us, Some(figure), self.series(figure));
            if figure == SHARDS {
                one.within = (0..)
                    .zip(self.shards.iter().zip(&parts.by_shard))
                    .map(|(at, ((shard, _), us))| {
                        layer(format!("shard {shard}"), *us, Some(LAYERS.len() + 1 + at), Vec::new())
                    })
                    .collect();
            }
            if figure == NETWORK && parts.ping > 0.0 {
                let ping = parts.ping.min(mean_us);
                one.within = vec![
                    layer("ping".to_owned(), ping, None, Vec::new()),
                    layer("client and parse".to_owned(), mean_us - ping, None, Vec::new()),
                ];
            }
            layers.push(one);
        }
        let sum: f64 = parts.layers.iter().sum();
        let error = of(LAYERS.len()).map_or(0.0, |one| one.standard_error);
        let tolerance = MAX_CLOSURE_GAP.max(3.0 * error);
        let closure = sum / whole;
        Budget {
            member: self.routers.first().cloned().unwrap_or_default(),
            operations: operations.to_owned(),
            count: parts.count,
            window_ns: self.rows.window_ns(),
            client_mean_us: self.rows.has_client.then_some(parts.client),
            server_mean_us: parts.router,
            layers,
            unexplained_us: parts.whole - sum,
            closure,
            closes: (1.0 - closure).abs() <= tolerance && parts.network_left >= -tolerance * whole,
            missing: self.missing(parts, tolerance),
        }
    }

    fn series(&self, layer: usize) -> Vec<String> {
        let of = |tail: &str| {
            let routers = self.routers.iter();
            routers
                .flat_map(|router| ["reads", "writes"].map(|kind| format!("server.{router}.{kind}.{tail}")))
                .collect::<Vec<String>>()
        };
        match layer {
            NETWORK => of("latency_us"),
            ROUTER | TO_SHARDS => of("latency_us").into_iter().chain(of("shards_us")).collect(),
            SHARDS => {
                let members = self.shards.iter().flat_map(|(_, members)| members);
                members.map(|member| format!("server.{member}.collection.reads.latency_us")).collect()
            }
            _ => Vec::new(),
        }
    }

    fn missing(&self, parts: &Parts, tolerance: f64) -> Vec<String> {
        let mut said = Vec::new();
        if self.routers.len() > 1 {
            said.push(format!("The {} routers are taken together.", self.routers.len()));
        }
        if !self.rows.has_client {
            said.push("The client was not watched, so the layers begin at the router.".to_owned());
        }
        if !self.rows.times {
            said.push(
                "This router does not time its operations: the way to it, its own work and the way to the shards are one layer, router."
                    .to_owned(),
            );
        } else if !self.rows.has_processor {
            said.push(
                "The processor time of the router was not read, so its layer was not checked against it."
                    .to_owned(),
            );
        }
        if parts.network_left < -tolerance * parts.whole {
            said.push(format!(
                "The router's mean is {:.0} us above the client's: operations of others are mixed in, or a counter was set back.",
                -parts.network_left
            ));
        }
        if parts.visits > MAX_VISITS_PER_OPERATION {
            said.push(format!(
                "The shards served {:.2} operations for each one: several are asked at once, or a scan has further batches.",
                parts.visits
            ));
        } else if parts.visits < 2.0 - MAX_VISITS_PER_OPERATION {
            said.push(format!(
                "The shards counted {:.0} % of the operations only: the time of the others is counted as the way to them.",
                100.0 * parts.visits
            ));
        }
        if parts.shards_left < -tolerance * parts.whole {
            said.push(format!(
                "The shards' times add up to {:.0} us more than was waited for them: they worked side by side.",
                -parts.shards_left
            ));
        }
        if self.rows.waits_added {
            said.push(
                "The latency of the collection ends before the wait for the write concern on some shards: the server's own counts there."
                    .to_owned(),
            );
        }
        said
    }

    /// The seconds that were read, in total.
    pub(super) fn seconds(&self) -> f64 {
        value(&self.rows.total(), SECONDS)
    }
}

/// A sum of a row; 0 if the row is shorter.
pub(super) fn value(row: &[f64], at: usize) -> f64 {
    row.get(at).copied().unwrap_or(0.0)
}

fn set(layers: &mut [f64; 5], layer: usize, value: f64) {
    layers.get_mut(layer).into_iter().for_each(|one| *one = value);
}

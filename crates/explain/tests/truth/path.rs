//! A simulator of an operation's path, by events: client, network, tickets, locks, cache, device, processor, journal, members.
//!
//! It writes the records of a client and the counters of a server and a device, each on windows of its own, and keeps the true time of
//! each layer of the operations that ended in the seconds judged. Time is in microseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fathom_explain::Evidence;
use fathom_record::Point;
use fathom_stats::SeededRandom;

use crate::stations::{Journal, JournalMode, Station};

/// The layers for which the truth is kept, in the order of [`Truth::layers`].
pub(crate) const LAYERS: [&str; 9] =
    ["schedule", "network", "ticket", "lock", "replication", "page_read", "evict", "journal", "engine"];
/// The time by which the server's windows end after the client's, as with samplers.
const PHASE_US: u64 = 370_000;
const SECOND_US: u64 = 1_000_000;

/// The parameters of the simulation; times in microseconds, means of exponential draws unless said otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Operations a second on average, Poisson; 0: each connection sends its next when one ends.
    pub(crate) rate_per_s: f64,
    pub(crate) connections: usize,
    pub(crate) read_part: f64,
    /// A round trip, constant.
    pub(crate) round_trip_us: f64,
    /// Parsing and the client's own time.
    pub(crate) parse_us: f64,
    pub(crate) tickets: usize,
    /// The part of operations that wait for a lock.
    pub(crate) lock_part: f64,
    pub(crate) lock_us: f64,
    pub(crate) miss_part: f64,
    pub(crate) device_us: f64,
    pub(crate) device_places: usize,
    /// The cost of a read in addition to the device, constant.
    pub(crate) file_system_us: f64,
    pub(crate) evict_part: f64,
    pub(crate) evict_us: f64,
    pub(crate) processor_us: f64,
    pub(crate) journal: JournalMode,
    /// A sync of the journal, constant.
    pub(crate) sync_us: f64,
    pub(crate) replication_us: f64,
    /// A wait within the server that no counter includes: a bug or a missing layer.
    pub(crate) hidden_us: f64,
    /// The period at which an operation is lost from the client's records; 0: none is lost.
    pub(crate) drop_every: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            name: "processor alone",
            seconds: 60,
            seed: 1,
            rate_per_s: 0.0,
            connections: 8,
            read_part: 0.5,
            round_trip_us: 200.0,
            parse_us: 100.0,
            tickets: 128,
            lock_part: 0.0,
            lock_us: 0.0,
            miss_part: 0.0,
            device_us: 0.0,
            device_places: 1,
            file_system_us: 0.0,
            evict_part: 0.0,
            evict_us: 0.0,
            processor_us: 2000.0,
            journal: JournalMode::Behind,
            sync_us: 1000.0,
            replication_us: 0.0,
            hidden_us: 0.0,
            drop_every: 0,
        }
    }
}

/// The truth about the operations that ended in the seconds judged.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) operations: f64,
    pub(crate) mean_us: f64,
    /// The mean of each of [`LAYERS`].
    pub(crate) layers: [f64; 9],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Due,
    AtServer,
    Locked,
    Evicted,
    Read,
    Stored,
    Computed,
    Replicated,
    Answered,
    Tick,
    Synced,
}

#[derive(Clone, Debug, Default)]
struct ClientOperation {
    write: bool,
    due_us: u64,
    sent_us: u64,
    at_server_us: u64,
    since_us: u64,
    layers: [f64; 9],
}

/// Runs a setting: the recorded evidence, and the truth.
pub(crate) fn simulate(setting: &Setting) -> (Evidence, Truth) {
    let mut world = World::new(setting.clone());
    world.start();
    while let Some(Reverse((now_us, _, operation, stage))) = world.events.pop() {
        if now_us >= (setting.seconds + 1) * SECOND_US {
            break;
        }
        world.now_us = now_us;
        world.step(operation, stage);
    }
    world.evidence()
}

struct World {
    setting: Setting,
    random: SeededRandom,
    events: BinaryHeap<Reverse<(u64, u64, usize, Stage)>>,
    drawn: u64,
    now_us: u64,
    operations: Vec<ClientOperation>,
    unused: Vec<usize>,
    pool: Station,
    tickets: [Station; 2],
    device: Station,
    journal: Journal,
    /// Sums of the server's windows and of the client's seconds.
    server: BTreeMap<String, Vec<f64>>,
    client: BTreeMap<&'static str, Vec<f64>>,
    latencies_us: Vec<Vec<f64>>,
    under_way: f64,
    changed_us: u64,
    ended: u64,
    truth: Truth,
}

impl World {
    fn new(setting: Setting) -> World {
        World {
            random: SeededRandom::from_seed(setting.seed),
            pool: Station::new(setting.connections),
            tickets: [Station::new(setting.tickets), Station::new(setting.tickets)],
            device: Station::new(setting.device_places),
            latencies_us: vec![Vec::new(); setting.seconds as usize],
            setting,
            events: BinaryHeap::new(),
            drawn: 0,
            now_us: 0,
            operations: Vec::new(),
            unused: Vec::new(),
            journal: Journal::default(),
            server: BTreeMap::new(),
            client: BTreeMap::new(),
            under_way: 0.0,
            changed_us: 0,
            ended: 0,
            truth: Truth::default(),
        }
    }

    fn start(&mut self) {
        let first = if self.setting.rate_per_s > 0.0 { 1 } else { self.setting.connections };
        for _ in 0..first {
            self.after(0.0, usize::MAX, Stage::Due);
        }
        self.after(100_000.0, usize::MAX, Stage::Tick);
    }

    fn after(&mut self, us: f64, operation: usize, stage: Stage) {
        self.drawn += 1;
        self.events.push(Reverse((self.now_us + us.round() as u64, self.drawn, operation, stage)));
    }

    fn draw(&mut self, mean_us: f64) -> f64 {
        if mean_us > 0.0 { self.random.exponential(mean_us) } else { 0.0 }
    }

    fn chance(&mut self, part: f64) -> bool {
        self.random.uniform() < part
    }

    /// Adds to a counter of the server's current window.
    fn count(&mut self, name: &str, value: f64) {
        let at = ((self.now_us + SECOND_US - PHASE_US) / SECOND_US) as usize;
        add(self.server.entry(name.to_owned()).or_default(), at, value);
    }

    /// Ends a wait of an operation: adds it to the truth and to a counter.
    fn waited(&mut self, operation: usize, layer: usize, counter: &str) {
        let one = &mut self.operations[operation];
        let us = (self.now_us - one.since_us) as f64;
        one.layers[layer] += us;
        one.since_us = self.now_us;
        if !counter.is_empty() {
            self.count(counter, us);
        }
    }

    fn step(&mut self, operation: usize, stage: Stage) {
        match stage {
            Stage::Due => self.due(),
            Stage::AtServer => self.at_server(operation),
            Stage::Locked => {
                self.waited(operation, 3, "wait.lock_us");
                let us =
                    if self.chance(self.setting.evict_part) { self.draw(self.setting.evict_us) } else { 0.0 };
                self.after(us, operation, Stage::Evicted);
            }
            Stage::Evicted => self.evicted(operation),
            Stage::Read => {
                self.count("device.reads", 1.0);
                let us = (self.now_us - self.operations[operation].since_us) as f64;
                self.count("device.read_ms", us / 1000.0);
                self.after(self.setting.file_system_us, operation, Stage::Stored);
                if let Some(next) = self.device.leave() {
                    self.read(next);
                }
            }
            Stage::Stored => {
                self.waited(operation, 5, "wait.page_read_us");
                self.compute(operation);
            }
            Stage::Computed => self.computed(operation),
            Stage::Replicated => {
                self.waited(operation, 4, "wait.replication_us");
                self.leave_server(operation);
            }
            Stage::Answered => self.answered(operation),
            Stage::Tick => {
                if self.setting.journal != JournalMode::Group && !self.journal.runs {
                    self.sync();
                }
                self.after(100_000.0, usize::MAX, Stage::Tick);
            }
            Stage::Synced => self.synced(),
        }
    }

    fn due(&mut self) {
        let operation = self.unused.pop().unwrap_or_else(|| {
            self.operations.push(ClientOperation::default());
            self.operations.len() - 1
        });
        let write = !self.chance(self.setting.read_part);
        let now_us = self.now_us;
        self.operations[operation] =
            ClientOperation { write, due_us: now_us, since_us: now_us, ..ClientOperation::default() };
        if self.setting.rate_per_s > 0.0 {
            let gap_us = self.draw(1e6 / self.setting.rate_per_s);
            self.after(gap_us, usize::MAX, Stage::Due);
        }
        if self.pool.enter(operation) {
            self.send(operation);
        }
    }

    fn send(&mut self, operation: usize) {
        self.waited(operation, 0, "");
        self.operations[operation].sent_us = self.now_us;
        self.change_under_way(1.0);
        self.after((self.setting.round_trip_us + self.setting.parse_us) / 2.0, operation, Stage::AtServer);
    }

    fn at_server(&mut self, operation: usize) {
        self.waited(operation, 1, "");
        self.operations[operation].at_server_us = self.now_us;
        let kind = usize::from(self.operations[operation].write);
        if self.tickets[kind].enter(operation) {
            self.with_ticket(operation);
        }
    }

    fn with_ticket(&mut self, operation: usize) {
        self.waited(operation, 2, "wait.ticket_us");
        let us = if self.chance(self.setting.lock_part) { self.draw(self.setting.lock_us) } else { 0.0 };
        self.after(us, operation, Stage::Locked);
    }

    fn evicted(&mut self, operation: usize) {
        self.waited(operation, 6, "wait.evict_us");
        if self.chance(self.setting.miss_part) {
            self.count("pages.read", 1.0);
            if self.device.enter(operation) {
                self.read(operation);
            }
        } else {
            self.compute(operation);
        }
    }

    fn read(&mut self, operation: usize) {
        let us = self.draw(self.setting.device_us);
        self.after(us, operation, Stage::Read);
    }

    fn compute(&mut self, operation: usize) {
        let us = self.draw(self.setting.processor_us);
        // A tenth more for what runs in the background.
        self.count("process.cpu_us", us * 1.1 + self.setting.parse_us / 2.0);
        let hidden_us = self.draw(self.setting.hidden_us);
        self.after(us + hidden_us, operation, Stage::Computed);
    }

    fn computed(&mut self, operation: usize) {
        self.waited(operation, 8, "");
        let write = self.operations[operation].write;
        if let Some(next) = self.tickets[usize::from(write)].leave() {
            self.with_ticket(next);
        }
        if write && self.setting.journal != JournalMode::Behind {
            self.journal.waiting.push(operation);
            if self.setting.journal == JournalMode::Group && !self.journal.runs {
                self.sync();
            }
        } else {
            self.replicate(operation);
        }
    }

    fn sync(&mut self) {
        self.journal.begin();
        self.after(self.setting.sync_us, usize::MAX, Stage::Synced);
    }

    fn synced(&mut self) {
        self.count("journal.syncs", 1.0);
        self.count("journal.sync_us", self.setting.sync_us);
        for operation in self.journal.end() {
            self.waited(operation, 7, "wait.journal_us");
            self.replicate(operation);
        }
        if self.setting.journal == JournalMode::Group && !self.journal.waiting.is_empty() {
            self.sync();
        }
    }

    fn replicate(&mut self, operation: usize) {
        let write = self.operations[operation].write;
        let us = if write { self.draw(self.setting.replication_us) } else { 0.0 };
        self.after(us, operation, Stage::Replicated);
    }

    fn leave_server(&mut self, operation: usize) {
        let ClientOperation { write, at_server_us, .. } = self.operations[operation];
        let kind = if write { "writes" } else { "reads" };
        for scope in ["", "collection."] {
            self.count(&format!("{scope}{kind}.operations"), 1.0);
            self.count(&format!("{scope}{kind}.latency_us"), (self.now_us - at_server_us) as f64);
        }
        self.after((self.setting.round_trip_us + self.setting.parse_us) / 2.0, operation, Stage::Answered);
    }

    fn answered(&mut self, operation: usize) {
        self.waited(operation, 1, "");
        self.change_under_way(-1.0);
        let ClientOperation { write, due_us, sent_us, layers, .. } = self.operations[operation].clone();
        let (service_us, response_us) = ((self.now_us - sent_us) as f64, (self.now_us - due_us) as f64);
        let second = (self.now_us / SECOND_US) as usize;
        self.ended += 1;
        let lost = self.setting.drop_every > 0 && self.ended.is_multiple_of(self.setting.drop_every);
        if !lost {
            let names = if write {
                ["update", "update.service", "update.response"]
            } else {
                ["read", "read.service", "read.response"]
            };
            for (name, value) in names.into_iter().zip([1.0, service_us, response_us]) {
                add(self.client.entry(name).or_default(), second, value);
            }
            self.latencies_us.get_mut(second).into_iter().for_each(|all| all.push(response_us));
        }
        // The first and the last second are not judged.
        if second >= 1 && second + 1 < self.setting.seconds as usize {
            self.truth.operations += 1.0;
            self.truth.mean_us += response_us;
            self.truth.layers.iter_mut().zip(layers).for_each(|(sum, us)| *sum += us);
        }
        self.unused.push(operation);
        if let Some(next) = self.pool.leave() {
            self.send(next);
        }
        if self.setting.rate_per_s <= 0.0 {
            self.after(0.0, usize::MAX, Stage::Due);
        }
    }

    /// Adds the operations under way up to now to the seconds in which they were under way.
    fn change_under_way(&mut self, change: f64) {
        let mut from_us = self.changed_us;
        while from_us < self.now_us {
            let second = from_us / SECOND_US;
            let to_us = self.now_us.min((second + 1) * SECOND_US);
            add(
                self.client.entry("in_flight").or_default(),
                second as usize,
                self.under_way * (to_us - from_us) as f64,
            );
            from_us = to_us;
        }
        self.changed_us = self.now_us;
        self.under_way += change;
        let waiting = [self.tickets[0].waiting() as f64, self.tickets[1].waiting() as f64];
        // Read once a second, as a sampler does: the last value stays.
        let at = ((self.now_us + SECOND_US - PHASE_US) / SECOND_US) as usize;
        for (name, value) in ["gauge.queue.readers", "gauge.queue.writers"].into_iter().zip(waiting) {
            let values = self.server.entry(name.to_owned()).or_default();
            values.resize(values.len().max(at + 1), 0.0);
            values[at] = value;
        }
    }

    /// Writes the series; takes the truth's means.
    fn evidence(mut self) -> (Evidence, Truth) {
        let setting = &self.setting;
        let mut evidence =
            Evidence { window_ns: (0, setting.seconds * SECOND_US * 1000), seed: 7, ..Evidence::default() };
        for name in ["device.reads", "device.read_ms"] {
            self.server.entry(name.to_owned()).or_default();
        }
        // The mean of what samples of the device would show.
        let in_flight = self.server["device.read_ms"].iter().map(|ms| ms / 1000.0).collect();
        self.server.insert("device.in_flight".to_owned(), in_flight);
        evidence.environment.insert("server.0.device".to_owned(), "sim".to_owned());
        for (name, sums) in &self.server {
            let gauge = name.strip_prefix("gauge.");
            let full = if name.starts_with("device.") {
                name.replacen("device.", "device.sim.", 1)
            } else {
                format!("server.0.{}", gauge.unwrap_or(name))
            };
            for at in 0..=setting.seconds as usize {
                let end_ns = (at as u64 * SECOND_US + PHASE_US) * 1000;
                let begin_ns = end_ns.saturating_sub(SECOND_US * 1000);
                let value = sums.get(at).copied().unwrap_or(0.0);
                evidence.series.add(&full, "1", Point { begin_ns, end_ns, value });
            }
        }
        for second in 0..setting.seconds as usize {
            self.write_second(&mut evidence, second);
        }
        let Truth { operations, mean_us, layers } = self.truth;
        let truth =
            Truth { operations, mean_us: mean_us / operations, layers: layers.map(|sum| sum / operations) };
        (evidence, truth)
    }

    fn write_second(&self, evidence: &mut Evidence, second: usize) {
        let begin_ns = second as u64 * SECOND_US * 1000;
        let mut put = |name: &str, value: f64| {
            evidence.series.add(name, "1", Point { begin_ns, end_ns: begin_ns + SECOND_US * 1000, value });
        };
        let of = |name: &str| self.client.get(name).and_then(|sums| sums.get(second)).copied().unwrap_or(0.0);
        put("client.operations.per_s", of("read") + of("update"));
        put("client.in_flight", of("in_flight") / SECOND_US as f64);
        put("client.connections", self.setting.connections as f64);
        put("client.cpu_share", 0.2);
        put("server.0.ping_us", self.setting.round_trip_us);
        let mut all = self.latencies_us[second].clone();
        all.sort_by(f64::total_cmp);
        let p99_us = all.get(all.len() * 99 / 100).copied().unwrap_or(f64::NAN);
        for name in ["read", "update"].into_iter().filter(|name| of(name) > 0.0) {
            put(&format!("client.{name}.per_s"), of(name));
            put(&format!("client.{name}.response.p99_ns"), p99_us * 1000.0);
            for clock in ["service", "response"] {
                let mean_ns = of(&format!("{name}.{clock}")) / of(name) * 1000.0;
                put(&format!("client.{name}.{clock}.mean_ns"), mean_ns);
            }
        }
    }
}

fn add(sums: &mut Vec<f64>, at: usize, value: f64) {
    sums.resize(sums.len().max(at + 1), 0.0);
    sums[at] += value;
}

//! The arithmetic of layers: from a row of sums to the mean microseconds that each took.
//!
//! Every figure is of the mean operation of the client, or of the server if no client was watched. The server's sums
//! over all its operations are divided by the rules in `docs/explain.md`. The remainder of the server's time is the
//! engine. It is bounded by the processor time of the server's process, if that was read. Any time beyond that was neither on
//! a processor nor in a counted wait, and remains unexplained.

use super::columns::{Column, at, per};

/// The layers in the order of an operation's path.
pub(crate) const LAYERS: [&str; 11] = [
    "schedule",
    "network",
    "ticket",
    "flow_control",
    "lock",
    "write_conflict",
    "replication",
    "page_read",
    "evict",
    "journal",
    "engine",
];
/// Their indices, from the third layer on: the first two are written together.
const TICKET: usize = 2;
const FLOW_CONTROL: usize = 3;
const LOCK: usize = 4;
const WRITE_CONFLICT: usize = 5;
const REPLICATION: usize = 6;
const PAGE_READ: usize = 7;
const EVICT: usize = 8;
const JOURNAL: usize = 9;
const ENGINE: usize = 10;

/// The interval after which the journal is synced without a request, in seconds (storage.journal.commitIntervalMs); checkpoints sync it too.
const COMMIT_INTERVAL_S: f64 = 0.1;
/// If the journal is synced more often than this a second, writes cause the syncs, however short they are: the timer alone makes at most ten, and
/// checkpoints add few.
const MAX_TIMED_SYNCS_PER_S: f64 = 20.0;
/// The most by which the client's own count of operations under way may differ from throughput times service time (docs/methods.md#littles-law).
pub(crate) const MAX_CLIENT_GAP: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationSet {
    Reads,
    Writes,
    All,
}

/// The decisions that apply to all rows of a window, so that every resample is computed in the same way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowDecisions {
    /// Whether the client was watched and this server served its operations alone.
    pub(crate) client: bool,
    /// Kinds that the client sends elsewhere, reads and writes.
    pub(crate) elsewhere: [bool; 2],
    /// Whether an operation of the client makes several of the server (a scan with further batches), for reads and writes.
    pub(crate) several: [bool; 2],
    /// Whether the server's mean is mostly of others' operations: the time between it and the client's mean is then not known.
    pub(crate) is_mostly_others: bool,
    /// Whether the client's operations under way suffice for a check of its mean.
    pub(crate) in_flight: bool,
    /// Whether the server counts its operations' waits for the journal.
    pub(crate) journal: bool,
    /// Whether the wait for the write concern is the wait for its own journal: its majority has no other member.
    pub(crate) alone: bool,
    /// Whether the namespace's latency ends before the wait for the journal and the write concern, which the server's own latency includes.
    pub(crate) waits_outside: bool,
    /// Whether the wait for locks is the wait for tickets, counted twice.
    pub(crate) lock_is_ticket: bool,
    /// The mean number of write conflicts of a write; 0 if they are rare.
    pub(crate) conflicts_per_write: f64,
    /// Whether the processor time of the server's process was read.
    pub(crate) processor: bool,
    /// A round trip that no operation can beat, in microseconds; 0 where pings are too short to tell.
    pub(crate) floor_us: f64,
    /// The round trip, in microseconds: the lower quartile of pings.
    pub(crate) ping_us: f64,
}

impl WindowDecisions {
    /// Whether the wait for the journal is neither counted nor the difference of two latencies.
    pub(crate) fn is_journal_estimated(&self) -> bool {
        !self.journal && !self.waits_outside
    }
}

/// The mean operation of one kind, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) count: f64,
    /// The client's time by its records, from when the operation was due.
    pub(crate) client: f64,
    /// The time that should add up: the same by the operations under way if they suffice; the server's mean without a client.
    pub(crate) whole: f64,
    pub(crate) server: f64,
    /// The time of each layer, in the order of [`LAYERS`].
    pub(crate) layers: [f64; LAYERS.len()],
    /// Within the network: the round trip of a ping.
    pub(crate) ping: f64,
    /// Within page reads: the device.
    pub(crate) device: f64,
    /// Within evictions: evicting rather than waiting for room.
    pub(crate) evicting: f64,
    /// The client's time less the server's, also if it is negative.
    pub(crate) network_left: f64,
    /// The server's time less its waits, also if it is negative.
    pub(crate) engine_left: f64,
}

impl Parts {
    fn sum(&self) -> f64 {
        self.layers.iter().sum()
    }

    /// The time that the layers do not explain.
    pub(crate) fn unexplained(&self) -> f64 {
        self.whole - self.sum()
    }

    /// The sum of the layers, over the time that they should add up to.
    pub(crate) fn closure(&self) -> f64 {
        per(self.sum(), self.whole)
    }
}

/// The parts of the mean operation.
pub(crate) fn parts(row: &[f64], of: OperationSet, shape: &WindowDecisions) -> Parts {
    let (mut reads, mut writes) =
        (raw(row, OperationSet::Reads, shape), raw(row, OperationSet::Writes, shape));
    let all = weighted(&reads, &writes);
    // Processor time is not counted by kind: the part above it in the mean of all is divided in proportion.
    let on_processor = per(at(row, Column::Cpu) + at(row, Column::RunWait), server_operations(row));
    // A server's mean above the client's is an error of its own, which must not cancel this one.
    let above = all.engine_left - on_processor + all.network_left.min(0.0);
    let unexplained = if shape.processor { above.max(0.0) } else { 0.0 };
    let share = per(unexplained, all.engine_left).min(1.0);
    for one in [&mut reads, &mut writes] {
        if let Some(engine) = one.layers.get_mut(ENGINE) {
            *engine = one.engine_left.max(0.0) * (1.0 - share);
        }
    }
    if shape.conflicts_per_write > 0.0 {
        retries(&mut writes, shape.conflicts_per_write);
    }
    match of {
        OperationSet::Reads => reads,
        OperationSet::Writes => writes,
        OperationSet::All => weighted(&reads, &writes),
    }
}

/// Takes the cost of failed tries out of a write's engine time. Each try takes as much processor time as another. The time that is neither on a
/// processor nor in a counted wait is the pauses between tries (mongodb/mongo:src/mongo/db/concurrency/exception_util.cpp).
fn retries(writes: &mut Parts, conflicts_per_write: f64) {
    let left = writes.engine_left.max(0.0);
    let engine = writes.layers.get(ENGINE).copied().unwrap_or(0.0);
    let last_try = engine / (1.0 + conflicts_per_write);
    set(&mut writes.layers, ENGINE, last_try);
    set(&mut writes.layers, WRITE_CONFLICT, left - last_try);
}

/// Reads and writes of the whole server, over which it sums its waits; those of the namespace if only these are known.
fn server_operations(row: &[f64]) -> f64 {
    let [reads, writes] = served(row);
    reads + writes
}

fn served(row: &[f64]) -> [f64; 2] {
    let (reads, writes) = (at(row, Column::AllReads), at(row, Column::AllWrites));
    if reads + writes > 0.0 { [reads, writes] } else { [at(row, Column::Reads), at(row, Column::Writes)] }
}

/// One kind, with the whole remainder of the server's time as the engine.
fn raw(row: &[f64], of: OperationSet, shape: &WindowDecisions) -> Parts {
    let is_write = of == OperationSet::Writes;
    let [count, service, response, operations, time] = if is_write {
        [
            Column::ClientWrites,
            Column::ClientWriteService,
            Column::ClientWriteResponse,
            Column::Writes,
            Column::WriteTime,
        ]
    } else {
        [
            Column::ClientReads,
            Column::ClientReadService,
            Column::ClientReadResponse,
            Column::Reads,
            Column::ReadTime,
        ]
    }
    .map(|column| at(row, column));
    let flag = |flags: [bool; 2]| flags.get(usize::from(is_write)).copied().unwrap_or(false);
    if flag(shape.elsewhere) {
        return Parts::default();
    }
    // Operations of the server for one of the client.
    let visits = if shape.client && flag(shape.several) { per(operations, count) } else { 1.0 };
    let outside = if is_write && shape.waits_outside {
        (per(at(row, Column::AllWriteTime), served(row)[1]) - per(time, operations)).max(0.0)
    } else {
        0.0
    };
    let mut parts =
        Parts { server: visits * (per(time, operations) + outside), count: operations, ..Parts::default() };
    parts.whole = parts.server;
    if shape.client {
        let (service, response) = (per(service, count), per(response, count));
        parts.count = count;
        parts.client = response;
        let schedule = (response - service).max(0.0);
        parts.whole = schedule + service * in_flight_ratio(row, shape);
        parts.network_left = service - parts.server;
        let network = parts.network_left.max(shape.floor_us * visits);
        let ping = per(at(row, Column::Ping), at(row, Column::Pings)).min(shape.ping_us);
        parts.ping = ping.min(network) * visits.min(1.0);
        parts.layers = [schedule, network, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    }
    waits(&mut parts, row, is_write, visits, shape);
    acknowledgement(&mut parts, visits * outside);
    parts.engine_left = parts.server - parts.layers.iter().skip(TICKET).take(ENGINE - TICKET).sum::<f64>();
    if is_write && shape.is_journal_estimated() {
        let estimate = visits * journal_estimate(row);
        let journal = estimate.min(parts.engine_left).max(0.0);
        parts.engine_left -= journal;
        set(&mut parts.layers, JOURNAL, journal);
    }
    set(&mut parts.layers, ENGINE, parts.engine_left.max(0.0));
    parts
}

/// Divides the waits that the server sums over its operations, and adds the part of one kind.
fn waits(parts: &mut Parts, row: &[f64], is_write: bool, visits: f64, shape: &WindowDecisions) {
    let [all_reads, all_writes] = served(row);
    let mine = if is_write { all_writes } else { all_reads };
    // Waits of any operation: the same for each.
    let any = |column: Column| visits * per(at(row, column), all_reads + all_writes);
    // Waits of writes alone.
    let writes = |column: Column| if is_write { visits * per(at(row, column), all_writes) } else { 0.0 };
    // By Little's law the time that a kind waits is the area under the number of it that waits.
    let (waiting_reads, waiting_writes) = (at(row, Column::WaitingReads), at(row, Column::WaitingWrites));
    let my_waiting = if is_write { waiting_writes } else { waiting_reads };
    let queued = |column: Column| {
        if waiting_reads + waiting_writes > 0.0 {
            visits * per(at(row, column) * my_waiting / (waiting_reads + waiting_writes), mine)
        } else {
            any(column)
        }
    };
    let lock = if shape.lock_is_ticket { 0.0 } else { queued(Column::Lock) };
    // Time waiting for room in the cache includes the time evicting, if both are counted.
    let (evicting, waiting) = (any(Column::Evict), any(Column::CacheWait));
    let page_read = any(Column::PageRead);
    parts.evicting = evicting;
    parts.device = (visits * device_per_operation(row, all_reads + all_writes)).min(page_read);
    let (replication, journal) = (writes(Column::Replication), writes(Column::Journal));
    let (replication, journal) =
        if shape.alone { (0.0, replication + journal) } else { (replication, journal) };
    for (layer, value) in [
        (TICKET, queued(Column::Ticket)),
        (FLOW_CONTROL, writes(Column::FlowControl)),
        (LOCK, lock),
        (REPLICATION, replication),
        (PAGE_READ, page_read),
        (EVICT, evicting.max(waiting)),
        (JOURNAL, journal),
    ] {
        set(&mut parts.layers, layer, value);
    }
}

/// Assigns the uncounted rest of the wait for an acknowledgement to its layer. If the write waits for members, that is the replication layer, because
/// the counter of those waits is cut to whole milliseconds each. Otherwise it is the journal.
fn acknowledgement(parts: &mut Parts, wait_us: f64) {
    let [replication, journal] =
        [REPLICATION, JOURNAL].map(|layer| parts.layers.get(layer).copied().unwrap_or(0.0));
    let left_us = wait_us - replication - journal;
    if left_us > 0.0 {
        let (layer, counted) =
            if replication > 0.0 { (REPLICATION, replication) } else { (JOURNAL, journal) };
        set(&mut parts.layers, layer, counted + left_us);
    }
}

fn set(layers: &mut [f64; LAYERS.len()], layer: usize, value: f64) {
    layers.get_mut(layer).into_iter().for_each(|one| *one = value);
}

/// Reads of the device times their mean time: not more reads than pages, because other programs read too, and not more than the
/// device saw, because the file system's cache serves some.
fn device_per_operation(row: &[f64], operations: f64) -> f64 {
    let reads = at(row, Column::DeviceReads);
    per(at(row, Column::PagesRead).min(reads), operations) * per(at(row, Column::DeviceReadTime), reads)
}

/// The most syncs of this length a second that the journal makes if no write asks for one: the geometric mean of the rate with a pause of
/// [`COMMIT_INTERVAL_S`] after each and of the rate without a pause, which writes cause.
fn most_syncs_on_its_own_per_s(sync_s: f64) -> f64 {
    (1.0 / ((COMMIT_INTERVAL_S + sync_s) * sync_s).sqrt()).min(MAX_TIMED_SYNCS_PER_S)
}

/// The estimated wait of writes for the journal, if the server does not count it. A write that asks for the journal waits for the
/// sync that runs and then for its own. It waits for half of the running sync if it comes at any time, and for all of it if its connection
/// was answered by the sync before; three quarters are between. No write waits if the journal is only synced by itself.
fn journal_estimate(row: &[f64]) -> f64 {
    let seconds = at(row, Column::Time);
    let (syncs, sync_us) = (at(row, Column::Syncs), at(row, Column::SyncTime));
    if per(syncs, seconds) <= most_syncs_on_its_own_per_s(per(sync_us, syncs) / 1e6) {
        return 0.0;
    }
    let busy = (sync_us / (seconds * 1e6)).min(1.0);
    per(sync_us, syncs) * (1.0 + 0.75 * busy)
}

/// The operations under way divided by throughput times service time: 1 if every operation was counted with its time.
pub(crate) fn in_flight_ratio(row: &[f64], shape: &WindowDecisions) -> f64 {
    let service: f64 = [Column::ClientReadService, Column::ClientWriteService, Column::ClientOtherService]
        .into_iter()
        .map(|column| at(row, column))
        .sum();
    let ratio = per(at(row, Column::InFlight), service);
    if !shape.in_flight || ratio <= 0.0 || (ratio - 1.0).abs() <= MAX_CLIENT_GAP { 1.0 } else { ratio }
}

/// The mean of both kinds, by how many there were of each.
fn weighted(reads: &Parts, writes: &Parts) -> Parts {
    let count = reads.count + writes.count;
    let mix = |one: f64, other: f64| per(one * reads.count + other * writes.count, count);
    let mut layers = [0.0; LAYERS.len()];
    for (sum, (one, other)) in layers.iter_mut().zip(reads.layers.iter().zip(&writes.layers)) {
        *sum = mix(*one, *other);
    }
    Parts {
        count,
        client: mix(reads.client, writes.client),
        whole: mix(reads.whole, writes.whole),
        server: mix(reads.server, writes.server),
        layers,
        ping: mix(reads.ping, writes.ping),
        device: mix(reads.device, writes.device),
        evicting: mix(reads.evicting, writes.evicting),
        network_left: mix(reads.network_left, writes.network_left),
        engine_left: mix(reads.engine_left, writes.engine_left),
    }
}

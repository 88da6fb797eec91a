//! Table: the sums that layers are computed from, and the series of a server that each is read from.
//!
//! A row holds all sums of one window. Rows are added before anything is divided, so that every mean is one over all
//! operations and not a mean of means.

/// One sum of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// In seconds of time.
    Time,
    /// Operations of the client that succeeded, and their time in microseconds by both clocks.
    ClientReads,
    ClientReadService,
    ClientReadResponse,
    ClientWrites,
    ClientWriteService,
    ClientWriteResponse,
    /// Operations whose kind in the server's counts is not known.
    ClientOthers,
    ClientOtherService,
    ClientFailures,
    /// Operations under way at the client, in microseconds: the area under the gauge.
    InFlight,
    /// Operations within the server and their time, of the namespace watched if one is.
    Reads,
    ReadTime,
    Writes,
    WriteTime,
    /// Operations of the whole server, over which it sums its waits.
    AllReads,
    AllWrites,
    AllWriteTime,
    Commands,
    Ticket,
    Lock,
    WriteConflicts,
    FlowControl,
    Replication,
    PageRead,
    PageWrite,
    Evict,
    CacheWait,
    Journal,
    Syncs,
    SyncTime,
    PagesRead,
    DeviceReads,
    DeviceReadTime,
    Cpu,
    RunWait,
    /// Operations that wait for a ticket or a lock: areas under gauges.
    WaitingReads,
    WaitingWrites,
    /// Pings that were read, and their sum.
    Ping,
    Pings,
}

/// How many columns there are.
pub(crate) const COLUMNS: usize = Column::Pings as usize + 1;

/// The value of a column; 0 if the row has none.
pub(crate) fn at(row: &[f64], column: Column) -> f64 {
    row.get(column as usize).copied().unwrap_or(0.0)
}

/// Adds to a column.
pub(crate) fn add(row: &mut [f64], column: Column, value: f64) {
    row.get_mut(column as usize).into_iter().for_each(|sum| *sum += value);
}

/// One over the other; 0 if the divisor is 0.
pub(crate) fn per(over: f64, under: f64) -> f64 {
    if under > 0.0 { over / under } else { 0.0 }
}

/// The sums that a server counts, by the end of their names after `server.{member}.`.
pub(crate) static OF_SERVER: &[(Column, &str)] = &[
    (Column::AllReads, "reads.operations"),
    (Column::AllWrites, "writes.operations"),
    (Column::AllWriteTime, "writes.latency_us"),
    (Column::Commands, "commands.operations"),
    (Column::Ticket, "wait.ticket_us"),
    (Column::Lock, "wait.lock_us"),
    (Column::WriteConflicts, "write_conflicts"),
    (Column::FlowControl, "wait.flow_control_us"),
    (Column::Replication, "wait.replication_us"),
    (Column::PageRead, "wait.page_read_us"),
    (Column::PageWrite, "wait.page_write_us"),
    (Column::Evict, "wait.evict_us"),
    (Column::CacheWait, "wait.cache_us"),
    (Column::Journal, "wait.journal_us"),
    (Column::Syncs, "journal.syncs"),
    (Column::SyncTime, "journal.sync_us"),
    (Column::PagesRead, "pages.read"),
    (Column::Cpu, "process.cpu_us"),
    (Column::RunWait, "process.run_wait_us"),
];

/// The same for its operations alone, of the server and, under `collection.`, of the namespace watched.
pub(crate) static OF_OPERATIONS: &[(Column, &str)] = &[
    (Column::Reads, "reads.operations"),
    (Column::ReadTime, "reads.latency_us"),
    (Column::Writes, "writes.operations"),
    (Column::WriteTime, "writes.latency_us"),
];

/// The series of a server that a column is read from, by the end of its name; findings name it as the source of a layer.
pub(crate) fn series_of(column: Column) -> Option<&'static str> {
    OF_SERVER.iter().find(|(other, _)| *other == column).map(|(_, name)| *name)
}

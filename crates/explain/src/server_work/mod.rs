//! Divides what a server did among kinds of operations: time, processor time and disk bytes, by namespace, kind and plan.
//!
//! Three sources add to one table. Readings of `$currentOp` say which kinds run and with which plan; `top` says how much time
//! operations of each collection and kind took that ended; the threads of a server on this host say how much of a processor and
//! of the disk each connection used. Whatever belongs to no row is kept as unattributed, and is never divided among the rows.

mod attribution;
mod table;

use fathom_record::ServerWork;
use fathom_record::disk::Entry;

use attribution::Attribution;
pub(crate) use attribution::kind_in_top;
pub use table::{ClientWork, ConnectionWork, WorkResource, WorkRow, WorkShare, WorkTable, WorkUse};

/// The readings of one server's work that end within the window, the earliest first. The parts of one second may be several readings.
pub(crate) fn work_readings(results: &[Entry], number: usize, window_ns: (u64, u64)) -> Vec<&ServerWork> {
    let mut readings: Vec<&ServerWork> = results
        .iter()
        .filter_map(|entry| match entry {
            Entry::ServerWork(work) if work.server == number => Some(work.as_ref()),
            _ => None,
        })
        .filter(|work| (window_ns.0..=window_ns.1).contains(&work.end_ns))
        .collect();
    readings.sort_by_key(|work| work.end_ns);
    readings
}

/// The table of server `number` (`server.{number}`) from the readings of a run's results that end within the window, in nanoseconds
/// since the run's start; `None` if there is no such reading.
///
/// Its rows have the time, processor time and disk bytes of each kind of operation, namespace, plan and client; `connections` and
/// `clients` the same by connection and by client; `collections` the totals of `top`. [`WorkTable::share_of_rows`] and
/// [`WorkTable::share_of_client`] give shares with bounds. What belongs to no row is in `unattributed`.
pub fn work_table(results: &[Entry], number: usize, window_ns: (u64, u64)) -> Option<WorkTable> {
    let readings = work_readings(results, number, window_ns);
    (!readings.is_empty()).then(|| {
        let mut attribution = Attribution::default();
        attribution.add_sightings(&readings);
        attribution.add_totals(&readings);
        attribution.add_threads(&readings);
        attribution.table()
    })
}

#[cfg(test)]
mod tests;

//! Table: the time of one access to idle storage of a usual class, which is the yardstick for "slower than its class".
//!
//! The kernel's facts do not tell devices apart: `queue/rotational` is 0 for network volumes and for flash behind a slow
//! controller alike. So there is one class, and time above it could be saved by buying another device.

/// The table's version; each cost that used the table names it.
pub(crate) const VERSION: u32 = 2;

/// A read of one page. Flash on NVMe gives 4 KiB to 16 KiB in 60 to 100 us by its makers' data sheets; `fathom disk` saw 70 to 120 us on the
/// devices that docs/journal describes.
pub(crate) const READ_US: f64 = 100.0;
/// A sync of a few KiB of journal to a device whose cache survives a power loss: the flush is answered at once.
pub(crate) const SYNC_US: f64 = 100.0;
/// A read of a page from the file system's cache: copied, checked and decompressed.
pub(crate) const CACHED_READ_US: f64 = 20.0;
/// A round trip within one site.
pub(crate) const ROUND_TRIP_US: f64 = 500.0;
/// A client that sleeps until its next operation is due wakes up late: timer slack of 50 us (prctl(2), PR_SET_TIMERSLACK), an idle processor's
/// wake-up, and the scheduler on a processor that others use.
pub(crate) const SEND_US: f64 = 1000.0;
/// A thread that an operation wakes gets its processor after tens of microseconds, also on a host that is mostly idle.
pub(crate) const WAKE_US: f64 = 100.0;
/// A write wakes the thread that syncs the journal, and that wakes the write (mongodb/mongo:src/mongo/db/storage/control/journal_flusher.cpp).
pub(crate) const WAKES_OF_SYNC: f64 = 2.0;
/// An entry wakes the reply to the member that waits for it; the member's fetching, applying, syncing and reporting threads; and the write
/// (mongodb/mongo:src/mongo/db/repl/README.md, "Steady State Replication").
pub(crate) const WAKES_OF_REPLICATION: f64 = 6.0;

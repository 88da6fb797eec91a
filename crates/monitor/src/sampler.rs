//! What a sampler is: one source, read again and again.

use fathom_errors::Result;

use crate::Batch;

/// One source of readings. It runs on a thread of its own or with others of its period, never on the load's.
pub trait Sampler: Send {
    /// Its name in the table of samplers and in `monitor.{sampler}.…` (`diskstats`, `server.0`).
    fn name(&self) -> String;

    /// Reads its source once and adds what it says. The first call has no window yet: it remembers the counters only.
    ///
    /// # Errors
    /// When the source cannot be read this time; the next call tries again, and the gap stays a gap.
    fn sample(&mut self, batch: &mut Batch) -> Result<()>;
}

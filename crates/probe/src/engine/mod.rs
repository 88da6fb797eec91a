//! The engines, which pass a job's requests to the kernel. Each runs one worker to the end of the window.

pub(crate) mod mapping;
pub(crate) mod threads;
#[cfg(test)]
mod threads_tests;
pub(crate) mod uring;

use std::path::Path;

use fathom_errors::{Error, Result};

use crate::shape::{IoEngine, Job, Pattern};
use crate::worker_context::WorkerContext;

/// Requests in flight that one ring serves; above this number, more rings share the CPUs.
const MAX_DEPTH_PER_RING: u32 = 256;

/// The number of workers that a job needs: a thread per request in flight, or rings of up to 256 slots.
pub(crate) fn workers(job: &Job, cpus: u32) -> u32 {
    match job.engine {
        // A log has one end, and a burst has one last write: both belong to one ring.
        IoEngine::IoUring if matches!(job.pattern, Pattern::Append | Pattern::Checkpoint) => 1,
        IoEngine::IoUring => job.depth.div_ceil(MAX_DEPTH_PER_RING).clamp(1, cpus.max(1)),
        _ => job.depth,
    }
}

/// The slots of ring `index` when `depth` is divided among `rings`.
pub(crate) fn slots(depth: u32, rings: u32, index: u32) -> u32 {
    depth / rings + u32::from(index < depth % rings)
}

/// The error for a failed operation, with its offset in the file.
pub(crate) fn failed(action: &str, path: &Path, offset: u64, source: std::io::Error) -> Error {
    Error::io(action, path, source).advise(format!("it was at offset {offset}; see the kernel's log (dmesg)"))
}

/// Checks the data of a read, when verifying.
pub(crate) fn check_read(crew: &WorkerContext<'_>, block: &[u8], offset: u64) -> Result<()> {
    let Some(generations) = crew.generations else { return Ok(()) };
    let checked = crew.stamper.verify(block, offset, |at| generations.expected(at))?;
    crew.verified.fetch_add(checked, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_add_up_to_the_depth() {
        for (depth, rings) in [(1, 1), (7, 2), (1024, 4), (257, 2)] {
            assert_eq!((0..rings).map(|i| slots(depth, rings, i)).sum::<u32>(), depth);
        }
    }
}

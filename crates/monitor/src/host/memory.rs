//! Memory that may be had, and pages that wait to be written.

use fathom_errors::{Error, Kind, Result};
use fathom_host::{View, memory};

use super::Edge;
use crate::{Batch, Sampler};

/// Reads `/proc/meminfo`.
pub(crate) struct MemoryPages {
    view: View,
    edge: Edge,
}

impl MemoryPages {
    pub(crate) fn new(view: &View) -> MemoryPages {
        MemoryPages { view: view.clone(), edge: Edge::default() }
    }
}

impl Sampler for MemoryPages {
    fn name(&self) -> String {
        "memory".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let memory = memory::read(&self.view)
            .ok_or_else(|| Error::new(Kind::NotFound, "there is no /proc/meminfo"))?;
        let Some(window_ns) = self.edge.window_to(batch.clock.now_ns()) else { return Ok(()) };
        for (what, bytes) in [
            ("available", memory.available_bytes),
            ("dirty", memory.dirty_bytes),
            ("writeback", memory.writeback_bytes),
        ] {
            if let Some(bytes) = bytes {
                batch.put(format!("host.memory.{what}_bytes"), "bytes", window_ns, bytes as f64);
            }
        }
        Ok(())
    }
}

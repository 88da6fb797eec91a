//! How long tasks were stalled for a processor, for I/O and for memory.

use fathom_errors::Result;
use fathom_host::{View, pressure};

use crate::notes::Notes;
use crate::{Batch, Sampler, Sums};

/// Reads `/proc/pressure`.
pub(crate) struct Pressures {
    view: View,
    sums: Sums,
    notes: Notes,
}

impl Pressures {
    pub(crate) fn new(view: &View) -> Pressures {
        Pressures { view: view.clone(), sums: Sums::default(), notes: Notes::default() }
    }
}

impl Sampler for Pressures {
    fn name(&self) -> String {
        "pressure".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        for resource in ["cpu", "io", "memory"] {
            let Some(pressure) = pressure::read(&self.view, resource) else {
                self.notes.once(batch, "This kernel does not tell pressure (psi=1 on its command line turns it on); without it there is one witness less that tasks waited for I/O or a processor.");
                continue;
            };
            let at_ns = batch.clock.now_ns();
            let mut put = |what: &str, total_us: u64| {
                let name = format!("host.pressure.{resource}.{what}_us");
                self.sums.put(batch, &name, "us", at_ns, total_us as f64);
            };
            put("some", pressure.some.total_us);
            if let Some(full) = pressure.full.filter(|_| resource == "io") {
                put("full", full.total_us);
            }
        }
        Ok(())
    }
}

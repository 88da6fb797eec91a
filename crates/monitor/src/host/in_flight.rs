//! Samples the requests in flight many times a second: the one figure that running totals cannot give.
//!
//! Files are kept open, so that a sample is one read a device. `/sys/block/*/inflight` counts the requests that the driver has
//! (reads, then writes), and not those that wait for a place in the queue. It stays 0 for a device whose requests the kernel does not
//! count, so zeros of such a device are not written until it shows a request.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fathom_errors::{Error, Result};
use fathom_host::{BlockTree, View, diskstats};

use super::{Edge, WatchedDevice, is_silent};
use crate::{Batch, Sampler};

struct Gauge {
    series: String,
    path: std::path::PathBuf,
    file: Option<File>,
    /// True if zeros mean nothing.
    is_silent: bool,
}

pub(crate) struct InFlightRequests {
    gauges: Vec<Gauge>,
    edge: Edge,
}

impl InFlightRequests {
    pub(crate) fn new(view: &View, targets: &[WatchedDevice]) -> InFlightRequests {
        let (tree, lines) = (BlockTree::read(view), diskstats::read(view).unwrap_or_default());
        let counters = |name: &str| lines.iter().find(|line| line.name == name).map(|line| &line.counters);
        let gauge = |target: &WatchedDevice| Gauge {
            series: format!("device.{}.in_flight", target.name),
            path: view.root().join(&target.sysfs).join("inflight"),
            file: None,
            is_silent: is_silent(view, &tree, target, counters),
        };
        InFlightRequests { gauges: targets.iter().map(gauge).collect(), edge: Edge::default() }
    }
}

impl Gauge {
    fn read(&mut self) -> Result<u64> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(|e| Error::io("open", &self.path, e))?,
        };
        let mut buffer = [0; 64];
        let length = file.read_at(&mut buffer, 0).map_err(|e| Error::io("read", &self.path, e))?;
        self.file = Some(file);
        parse(buffer.get(..length).unwrap_or_default()).ok_or_else(|| {
            Error::new(
                fathom_errors::Kind::Malformed,
                format!("{} holds no two numbers", self.path.display()),
            )
        })
    }
}

/// Reads and writes in flight, together.
fn parse(bytes: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace().map(str::parse::<u64>);
    let (reads, writes) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(reads.saturating_add(writes))
}

impl Sampler for InFlightRequests {
    fn name(&self) -> String {
        "in_flight".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let window_ns = self.edge.window_to(batch.clock.now_ns());
        let mut failed = Ok(());
        for gauge in &mut self.gauges {
            match (gauge.read(), window_ns) {
                (Ok(0), _) if gauge.is_silent => {}
                (Ok(value), Some(window_ns)) => {
                    gauge.is_silent = false;
                    batch.put(gauge.series.as_str(), "1", window_ns, value as f64);
                }
                (Ok(_), None) => {}
                (Err(error), _) => failed = Err(error),
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::Clock;
    use crate::host::testing::{machine, run_twice};

    #[test]
    fn reads_and_writes_are_summed() {
        let (_folder, view) =
            machine(&[("sys/block/sda/dev", "8:0"), ("sys/block/sda/inflight", "       3       40\n")]);
        let targets = super::super::Devices::All.find(&view).unwrap();
        let values = run_twice(&mut InFlightRequests::new(&view, &targets), || {});
        assert_eq!(values, [("device.sda.in_flight".to_owned(), 43.0)]);
    }

    #[test]
    fn zeros_of_a_device_without_counters_are_left_out_until_it_shows_a_request() {
        let (folder, view) = machine(&[
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/queue/iostats", "0"),
            ("sys/block/sda/inflight", "0 0\n"),
        ]);
        let targets = super::super::Devices::All.find(&view).unwrap();
        let (mut sampler, clock) = (InFlightRequests::new(&view, &targets), Clock::simulated(&[]));
        let mut values_after = |text: &str| {
            std::fs::write(folder.path().join("sys/block/sda/inflight"), text).unwrap();
            clock.pass(Duration::from_millis(1));
            let mut batch = Batch::new(clock);
            sampler.sample(&mut batch).unwrap();
            batch.readings.iter().map(|reading| reading.value).collect::<Vec<f64>>()
        };
        assert_eq!(values_after("0 0\n"), [0.0; 0], "the first sample has no window");
        assert_eq!(values_after("0 0\n"), [0.0; 0]);
        assert_eq!(values_after("0 3\n"), [3.0]);
        assert_eq!(values_after("0 0\n"), [0.0]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop::sample::select(b"0189 -\n\xff".to_vec()), 0..64)) {
            parse(&bytes);
        }
    }
}

//! The block layer's counters of the watched devices, each second.
//!
//! An empty flush of a volatile cache counts as a write of nothing too, and its time as time of writes: measured on a loop
//! device under fdatasync, field 8 grew by 1592 ms, of which field 17 accounts for 1354. Both are taken off, so that the
//! mean time of a write is that of writes.

use fathom_errors::{Error, Kind, Result};
use fathom_host::diskstats::{DiskSampler, SECTOR_BYTES, Sample};
use fathom_host::rates::Delta;
use fathom_host::{DeviceKind, View};

use super::Target;
use crate::{Batch, Sampler};

/// Reads `/proc/diskstats` once for all of them.
pub(crate) struct DeviceCounters {
    view: View,
    targets: Vec<Target>,
    sampler: Option<DiskSampler>,
    last: Option<(u64, Sample)>,
}

impl DeviceCounters {
    pub(crate) fn new(view: &View, targets: &[Target]) -> DeviceCounters {
        DeviceCounters { view: view.clone(), targets: targets.to_vec(), sampler: None, last: None }
    }
}

impl Sampler for DeviceCounters {
    fn name(&self) -> String {
        "devices".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let mut sampler = match self.sampler.take() {
            Some(sampler) => sampler,
            None => DiskSampler::open(&self.view)?,
        };
        let begin_ns = batch.clock.now_ns();
        let now = sampler.sample()?;
        // The middle of the read, as the sample's own time stamp has it.
        let at_ns = begin_ns.midpoint(batch.clock.now_ns());
        self.sampler = Some(sampler);
        let missing: Vec<&str> = self
            .targets
            .iter()
            .filter(|target| now.by_number(target.number).is_none())
            .map(|target| target.name.as_str())
            .collect();
        let missing = missing.join(", ");
        if let Some((last_ns, last)) = self.last.as_ref().filter(|(last_ns, _)| *last_ns < at_ns) {
            for target in &self.targets {
                put(batch, target, (*last_ns, at_ns), last, &now);
            }
        }
        self.last = Some((at_ns, now));
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Error::new(Kind::NotFound, format!("/proc/diskstats has no line for {missing}")))
        }
    }
}

fn put(batch: &mut Batch, target: &Target, window_ns: (u64, u64), before: &Sample, after: &Sample) {
    let (Some(before), Some(after)) = (before.by_number(target.number), after.by_number(target.number))
    else {
        return;
    };
    let delta = Delta::between(before, after);
    if delta.was_reset() {
        return;
    }
    let (reads, writes) = (delta.reads(), delta.writes());
    // A partition always shows zeros for flushes: it has no counter.
    let flushes = delta.flushes().filter(|_| target.kind != DeviceKind::Partition);
    let apart = flushes.filter(|_| target.volatile_cache).unwrap_or_default();
    let mut add = |what: &str, unit: &str, value: u64| {
        batch.put(format!("device.{}.{what}", target.name), unit, window_ns, value as f64);
    };
    add("reads", "1", reads.requests);
    add("read_bytes", "bytes", reads.sectors.saturating_mul(SECTOR_BYTES));
    add("read_ms", "ms", reads.ms);
    add("writes", "1", writes.requests.saturating_sub(apart.requests));
    add("written_bytes", "bytes", writes.sectors.saturating_mul(SECTOR_BYTES));
    add("write_ms", "ms", writes.ms.saturating_sub(apart.ms));
    if let Some(flushes) = flushes {
        add("flushes", "1", flushes.requests);
        add("flush_ms", "ms", flushes.ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::{machine, run_twice};

    const LATER: &str = "8 0 sda 10 0 80 20 30 0 160 90 2 1 1 0 0 0 0 12 40\n8 1 sda1 9 0 72 18 20 0 160 90 2 1 1 0 0 0 0 0 0\n";

    #[test]
    fn flushes_are_taken_off_where_the_cache_is_volatile() {
        let (folder, view) = machine(&[
            (
                "proc/diskstats",
                "8 0 sda 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n8 1 sda1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
            ),
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/sda1/dev", "8:1"),
            ("sys/block/sda/queue/write_cache", "write back\n"),
        ]);
        let targets = super::super::Devices::Named(vec!["sda1".into()]).find(&view).unwrap();
        let mut sampler = DeviceCounters::new(&view, &targets);
        let values =
            run_twice(&mut sampler, || std::fs::write(folder.path().join("proc/diskstats"), LATER).unwrap());
        let value = |name: &str| values.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
        assert_eq!((value("device.sda.writes"), value("device.sda.write_ms")), (Some(18.0), Some(50.0)));
        assert_eq!((value("device.sda.flushes"), value("device.sda.flush_ms")), (Some(12.0), Some(40.0)));
        assert_eq!((value("device.sda1.writes"), value("device.sda1.flushes")), (Some(20.0), None));
        assert_eq!(
            (value("device.sda.read_bytes"), value("device.sda.written_bytes")),
            (Some(40_960.0), Some(81_920.0))
        );
    }

    #[test]
    fn a_device_that_is_gone_is_an_error_and_comes_back() {
        let line = "8 0 sda 1 0 8 1 0 0 0 0 0 0 0\n";
        let (folder, view) = machine(&[("proc/diskstats", line), ("sys/block/sda/dev", "8:0")]);
        let targets = super::super::Devices::All.find(&view).unwrap();
        let mut sampler = DeviceCounters::new(&view, &targets);
        let mut batch = Batch::new(crate::Clock::since(std::time::Instant::now()));
        sampler.sample(&mut batch).unwrap();
        std::fs::write(folder.path().join("proc/diskstats"), "").unwrap();
        assert!(sampler.sample(&mut batch).unwrap_err().to_string().contains("sda"));
        std::fs::write(folder.path().join("proc/diskstats"), line).unwrap();
        sampler.sample(&mut batch).unwrap();
        assert!(batch.readings.is_empty(), "what happened while it was away is not known");
    }
}

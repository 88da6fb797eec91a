//! The sampler of caps on requests: places in the queues of the kernel and of the device, and limits of control groups with each
//! group's use of them. All of them may change while a server runs, so all are read each second.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fathom_errors::Result;
use fathom_host::View;
use fathom_host::cgroup::{Cgroups, Limit, LimitKind};

use super::{Edge, WatchedDevice};
use crate::sampler::Notes;
use crate::{Batch, Sampler};

/// Reads the caps of the watched devices and processes.
pub(crate) struct Queues {
    view: View,
    targets: Vec<WatchedDevice>,
    processes: Vec<u32>,
    edge: Edge,
    notes: Notes,
    /// The count of each cap's group at the last reading, by device, kind and file of the cap.
    counted: BTreeMap<(String, LimitKind, String), Option<u64>>,
    /// The file of the cap that was read last, by the cap's series.
    files: BTreeMap<String, String>,
}

impl Queues {
    pub(crate) fn new(view: &View, targets: &[WatchedDevice], processes: &[u32]) -> Queues {
        Queues {
            view: view.clone(),
            targets: targets.to_vec(),
            processes: processes.to_vec(),
            edge: Edge::default(),
            notes: Notes::default(),
            counted: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    /// Writes, of the caps of one kind that bind a device, the one with the highest use since the last reading, and that use. A larger cap of a
    /// parent group, which its other children use too, may be reached before a smaller one. If nothing was counted, writes the smallest cap.
    fn cap(
        &mut self,
        batch: &mut Batch,
        device: &str,
        limits: &[&Limit],
        units: Units,
        window_ns: (u64, u64),
    ) {
        let used = limits.iter().map(|limit| {
            let key = (device.to_owned(), limit.kind, limit.file.clone());
            let before = self.counted.insert(key, limit.counted).flatten();
            (*limit, limit.counted.zip(before).and_then(|(counted, before)| counted.checked_sub(before)))
        });
        let used: Vec<(&Limit, Option<u64>)> = used.collect();
        let share = |(limit, used): &(&Limit, Option<u64>)| {
            used.map_or(0.0, |used| used as f64 / limit.value.max(1) as f64)
        };
        let tightest = used
            .iter()
            .max_by(|one, other| share(one).total_cmp(&share(other)).then(other.0.value.cmp(&one.0.value)));
        let Some((limit, used)) = tightest else { return };
        let name = format!("device.{device}.cap.{}", limit.kind.name());
        batch.put(name.clone(), units.cap, window_ns, limit.value as f64);
        if self.files.get(&name) != Some(&limit.file) {
            batch.facts.push((format!("{name}.file"), limit.file.clone()));
            self.files.insert(name, limit.file.clone());
        }
        if let Some(used) = used {
            let counter = format!("device.{device}.throttle_{}", units.counter);
            batch.put(counter, units.used, window_ns, *used as f64);
        }
    }
}

/// The units of a cap and of its use, and the counter's name.
#[derive(Clone, Copy)]
struct Units {
    cap: &'static str,
    used: &'static str,
    counter: &'static str,
}

/// Each kind of cap.
const KINDS: [(LimitKind, Units); 4] = [
    (LimitKind::ReadIops, Units { cap: "1/s", used: "1", counter: "reads" }),
    (LimitKind::WriteIops, Units { cap: "1/s", used: "1", counter: "writes" }),
    (LimitKind::ReadBytes, Units { cap: "bytes/s", used: "bytes", counter: "read_bytes" }),
    (LimitKind::WriteBytes, Units { cap: "bytes/s", used: "bytes", counter: "written_bytes" }),
];

impl Sampler for Queues {
    fn name(&self) -> String {
        "queues".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let window_ns = self.edge.window_to(batch.clock.now_ns());
        if self.processes.is_empty() {
            self.notes.once(batch, "No process of a server is watched, so limits of control groups are not read; without them there is no finding about an IOPS cap.");
        }
        let Some(window_ns) = window_ns else { return Ok(()) };
        let groups: Vec<Cgroups> =
            self.processes.iter().map(|pid| Cgroups::read(&self.view, Some(*pid))).collect();
        for target in self.targets.clone() {
            if let Some(places) = places(&self.view, &target) {
                batch.put(format!("device.{}.queue.requests", target.name), "1", window_ns, places as f64);
            }
            let limits: Vec<_> = groups.iter().flat_map(|group| group.io_limits(target.number)).collect();
            for (kind, units) in KINDS {
                let limits: Vec<&Limit> = limits.iter().filter(|limit| limit.kind == kind).collect();
                self.cap(batch, &target.name, &limits, units, window_ns);
            }
        }
        Ok(())
    }
}

/// The most requests that can be in flight at a bottom device. `nr_requests` and the driver's tags (`mq/N/nr_tags`) are for
/// each hardware queue, `device/queue_depth` (SCSI) for the whole device. A stacked device has no queue of its own.
fn places(view: &View, target: &WatchedDevice) -> Option<u64> {
    if !target.bottom {
        return None;
    }
    let per_queue = view.number(&format!("{}/nr_requests", target.queue))?;
    let device = PathBuf::from(&target.queue);
    let device = device.parent()?.to_str()?;
    let queues: Vec<String> =
        view.list(&format!("{device}/mq")).into_iter().filter(|name| name.parse::<u32>().is_ok()).collect();
    let kernel = per_queue.saturating_mul(queues.len().max(1) as u64);
    let tags: Option<u64> = queues
        .iter()
        .map(|queue| view.number(&format!("{device}/mq/{queue}/nr_tags")))
        .try_fold(0, |sum: u64, tags| Some(sum.saturating_add(tags?)));
    let tags = tags.filter(|tags| *tags > 0);
    let depth = view.number(&format!("{device}/device/queue_depth")).filter(|depth| *depth > 0);
    [Some(kernel), tags, depth].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Clock;
    use crate::host::testing::{machine, run_twice};

    #[test]
    fn the_least_cap_of_each_kind_counts() {
        let (_folder, view) = machine(&[
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/queue/nr_requests", "64\n"),
            ("sys/block/sda/mq/0/nr_tags", "256\n"),
            ("sys/block/sda/device/queue_depth", "32\n"),
            ("sys/block/vda/dev", "254:0"),
            ("sys/block/vda/queue/nr_requests", "256\n"),
            ("sys/block/vda/mq/0/nr_tags", "128\n"),
            ("sys/block/vda/mq/1/nr_tags", "128\n"),
            ("proc/7/cgroup", "4:blkio:/db\n0::/db\n"),
            (
                "proc/self/mountinfo",
                "30 1 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n31 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/blkio/db/blkio.throttle.write_iops_device", "8:0 300\n"),
            ("sys/fs/cgroup/unified/db/io.max", "8:0 rbps=max wbps=1048576 riops=100 wiops=500\n"),
        ]);
        let targets = super::super::Devices::Named(vec!["sda".into(), "vda".into()]).find(&view).unwrap();
        let values = run_twice(&mut Queues::new(&view, &targets, &[7]), || {});
        let expected = [
            ("device.sda.queue.requests", 32.0),
            ("device.sda.cap.read_iops", 100.0),
            ("device.sda.cap.write_iops", 300.0),
            ("device.sda.cap.write_bytes_per_s", 1_048_576.0),
            ("device.vda.queue.requests", 256.0),
        ];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    /// The parent's cap is twice as large, and its other children use most of it.
    #[test]
    fn a_cap_of_a_parent_that_is_reached_counts_before_a_smaller_one() {
        let (folder, view) = machine(&[
            ("sys/block/sda/dev", "8:0"),
            ("sys/block/sda/queue/nr_requests", "64\n"),
            ("proc/7/cgroup", "0::/shop/db\n"),
            ("proc/self/mountinfo", "31 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/shop/io.max", "8:0 riops=200\n"),
            ("sys/fs/cgroup/shop/io.stat", "8:0 rbytes=0 wbytes=0 rios=1000 wios=0\n"),
            ("sys/fs/cgroup/shop/db/io.max", "8:0 riops=100\n"),
            ("sys/fs/cgroup/shop/db/io.stat", "8:0 rbytes=0 wbytes=0 rios=300 wios=0\n"),
        ]);
        let targets = super::super::Devices::Named(vec!["sda".into()]).find(&view).unwrap();
        let (mut queues, clock) = (Queues::new(&view, &targets, &[7]), Clock::since(Instant::now()));
        let mut values = Vec::new();
        // The first reading has no window, and the second has no earlier one.
        for (all, own) in [(1000, 300), (1000, 300), (1200, 340)] {
            for (file, reads) in [("io.stat", all), ("db/io.stat", own)] {
                let text = format!("8:0 rbytes=0 wbytes=0 rios={reads} wios=0\n");
                std::fs::write(folder.path().join("sys/fs/cgroup/shop").join(file), text).unwrap();
            }
            let mut batch = Batch::new(clock);
            queues.sample(&mut batch).unwrap();
            values = batch.readings.into_iter().map(|reading| (reading.name, reading.value)).collect();
        }
        assert!(values.contains(&("device.sda.cap.read_iops".to_owned(), 200.0)), "{values:?}");
        assert!(values.contains(&("device.sda.throttle_reads".to_owned(), 200.0)), "{values:?}");
    }
}

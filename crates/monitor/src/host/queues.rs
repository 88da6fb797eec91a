//! The caps on requests: places in the kernel's queue and in the device's, and limits of control groups with what each group has
//! used of them. All of them may be changed while a server runs, so all are read each second.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fathom_errors::Result;
use fathom_host::View;
use fathom_host::cgroup::{Cgroups, Limit, LimitKind};

use super::{Edge, Target};
use crate::notes::Notes;
use crate::{Batch, Sampler};

/// Reads them for the devices, and for the processes watched.
pub(crate) struct Queues {
    view: View,
    targets: Vec<Target>,
    processes: Vec<u32>,
    edge: Edge,
    notes: Notes,
    /// What the group of each cap had used before, by the cap's series.
    used: BTreeMap<String, Used>,
}

/// What a group had used of a cap, by the file of the cap.
struct Used {
    file: String,
    counted: Option<u64>,
}

impl Queues {
    pub(crate) fn new(view: &View, targets: &[Target], processes: &[u32]) -> Queues {
        Queues {
            view: view.clone(),
            targets: targets.to_vec(),
            processes: processes.to_vec(),
            edge: Edge::default(),
            notes: Notes::default(),
            used: BTreeMap::new(),
        }
    }

    /// A cap, where it is set, and what was used of it since the last look.
    fn cap(&mut self, batch: &mut Batch, device: &str, least: &Limit, units: Units, window_ns: (u64, u64)) {
        let name = format!("device.{device}.cap.{}", least.kind.name());
        batch.put(name.clone(), units.cap, window_ns, least.value as f64);
        let before = self.used.get(&name).filter(|before| before.file == least.file);
        if before.is_none() {
            batch.facts.push((format!("{name}.file"), least.file.clone()));
        }
        let used = before.and_then(|before| least.counted?.checked_sub(before.counted?));
        if let Some(used) = used {
            batch.put(
                format!("device.{device}.throttle_{}", units.counter),
                units.used,
                window_ns,
                used as f64,
            );
        }
        self.used.insert(name, Used { file: least.file.clone(), counted: least.counted });
    }
}

/// The units of a cap and of what is used of it, and the counter's name.
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
            self.processes.iter().map(|pid| Cgroups::of(&self.view, Some(*pid))).collect();
        for target in self.targets.clone() {
            if let Some(places) = places(&self.view, &target) {
                batch.put(format!("device.{}.queue.requests", target.name), "1", window_ns, places as f64);
            }
            let limits: Vec<_> = groups.iter().flat_map(|group| group.io_limits(target.number)).collect();
            for (kind, units) in KINDS {
                let least = limits.iter().filter(|limit| limit.kind == kind).min_by_key(|limit| limit.value);
                if let Some(least) = least {
                    self.cap(batch, &target.name, least, units, window_ns);
                }
            }
        }
        Ok(())
    }
}

/// The most requests that can be in flight at a bottom device. `nr_requests` and the driver's tags (`mq/N/nr_tags`) are for
/// each hardware queue, `device/queue_depth` (SCSI) for the whole device. A stacked device has no queue of its own.
fn places(view: &View, target: &Target) -> Option<u64> {
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
    use super::*;
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
}

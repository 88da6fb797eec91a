//! Judges whether the rates of loads may be burst rates: compares the reads from the disk with the bucket that such a device may have.
//!
//! The devices also count reads of other programs, and a bucket does not distinguish these either.

use std::path::Path;
use std::time::Instant;

use fathom_host::View;
use fathom_host::diskstats::DiskSampler;
use fathom_probe::judge::{self, AllowanceLimit, DeviceClass};
use fathom_record::burst_allowance::{BurstAllowance, BurstVerdict};
use fathom_record::disk::Knee;
use fathom_units::count;

use crate::device_stack;

/// Counts the reads of the devices under a directory from its creation on.
pub(crate) struct ReadCount {
    sampler: DiskSampler,
    leaves: Vec<String>,
    begin: u64,
    since: Instant,
}

impl ReadCount {
    /// Begins to count; `None` if the directory has no device on this host, or its counters cannot be read.
    pub(crate) fn start(directory: &Path) -> Option<ReadCount> {
        let view = View::live();
        let leaves = device_stack::stack(&view, directory)?.leaf_names();
        let sampler = DiskSampler::open(&view).ok()?;
        let mut count = ReadCount { sampler, leaves, begin: 0, since: Instant::now() };
        count.begin = count.total()?;
        Some(count)
    }

    fn total(&mut self) -> Option<u64> {
        let sample = self.sampler.sample().ok()?;
        self.leaves.iter().map(|leaf| sample.by_name(leaf).map(|counters| counters.reads)).sum()
    }

    /// The judgement on the rates that were measured meanwhile, of a disk with this knee.
    pub(crate) fn judge(&mut self, directory: &Path, knee: Option<&Knee>) -> BurstAllowance {
        let knee = knee.filter(|knee| knee.withheld.is_none());
        let resembles =
            knee.and_then(|knee| judge::nearest(knee.throughput_max_per_s, knee.latency_at_one_ns / 1e6));
        let reads = self.total().unwrap_or(self.begin).saturating_sub(self.begin);
        let highest_per_s = knee.map_or(f64::INFINITY, |knee| knee.throughput_max_per_s);
        let class = judge::device_class(&View::live(), &self.leaves, false, resembles);
        allowance(directory, class, reads, highest_per_s, self.since.elapsed().as_secs_f64())
    }
}

/// The judgement of a disk whose requests were not counted.
pub(crate) fn unknown(directory: &Path) -> BurstAllowance {
    allowance(directory, None, 0, f64::INFINITY, 0.0)
}

fn allowance(
    directory: &Path,
    class: Option<DeviceClass>,
    reads: u64,
    highest_per_s: f64,
    seconds: f64,
) -> BurstAllowance {
    let excluding = class.as_ref().filter(|class| class.limit.is_exceeded(reads as f64, highest_per_s));
    let words = match excluding {
        Some(DeviceClass { name, limit: AllowanceLimit::None }) => format!(
            "The rates of reads are sustained: the device is {name}, which has no burst allowance for reads. Writes may become slower when its cache is full."
        ),
        Some(DeviceClass { name, .. }) => format!(
            "These rates are sustained: {} reads are more than the burst allowance that {name} may have.",
            count(reads as f64)
        ),
        None => format!(
            "These are burst rates: what the disk sustains is unknown. The run may have been too short to use up a cloud volume's credits or an SSD's cache. Measure it with 'fathom disk --sustain --dir {}'.",
            directory.display()
        ),
    };
    BurstAllowance {
        verdict: if excluding.is_some() { BurstVerdict::Sustained } else { BurstVerdict::CannotTell },
        words,
        seconds,
        requests: reads,
        levels: Vec::new(),
        bucket: None,
        excluded_requests: Some(judge::excluded_requests(reads as f64)),
        device_class: class.map(|class| class.name),
    }
}

#[cfg(test)]
mod tests {
    use fathom_stats::SeededRandom;

    use super::*;

    fn told(limit: AllowanceLimit, reads: u64) -> BurstAllowance {
        let class = DeviceClass { name: "an EBS volume".to_owned(), limit };
        allowance(Path::new("/data"), Some(class), reads, 3000.0, 240.0)
    }

    /// Buckets as `disk --sustain` is tried on (tests/disk_sustain.rs): a checkup reads for 240 s at most, too little for any class of device that
    /// resembles such a disk.
    #[test]
    fn a_checkup_calls_no_drawn_bucket_sustained() {
        let mut random = SeededRandom::from_seed(26);
        let mut classes = 0;
        for _ in 0..1000 {
            let (service_ms, parallel) = (2.0 + 3.0 * random.uniform(), 3 + random.below(4));
            let burst_per_s = 1e3 * parallel as f64 / service_ms;
            let refill_per_s = burst_per_s * (0.2 + 0.4 * random.uniform());
            let bucket = (burst_per_s - refill_per_s) * (3.0 + 4.0 * random.uniform());
            let reads = bucket + 240.0 * refill_per_s;
            let class = judge::nearest(burst_per_s, service_ms)
                .map(|class| DeviceClass { name: class.name.to_owned(), limit: class.limit });
            classes += usize::from(class.is_some());
            let said = allowance(Path::new("/data"), class, reads as u64, burst_per_s, 240.0);
            assert_eq!(said.verdict, BurstVerdict::CannotTell, "{burst_per_s} a second: {}", said.words);
        }
        assert!(classes > 500, "{classes} of 1000 resemble a class");
    }

    #[test]
    fn rates_are_sustained_only_beyond_the_bucket_of_the_class() {
        let limit = AllowanceLimit::Bucket { requests: 5.4e6, seconds: 1800.0 };
        let burst = told(limit, 700_000);
        assert_eq!(burst.verdict, BurstVerdict::CannotTell);
        assert!(burst.words.contains("burst rates: what the disk sustains is unknown"), "{}", burst.words);
        assert!(burst.words.contains("'fathom disk --sustain --dir /data'"), "{}", burst.words);
        let sustained = told(limit, 30_000_000);
        assert_eq!(sustained.verdict, BurstVerdict::Sustained);
        assert!(sustained.words.contains("30,000,000 reads are more"), "{}", sustained.words);
        assert_eq!(told(AllowanceLimit::Unknown, u64::MAX).verdict, BurstVerdict::CannotTell);
        assert!(told(AllowanceLimit::None, 0).words.contains("Writes may become slower"));
        assert_eq!(unknown(Path::new("/data")).verdict, BurstVerdict::CannotTell);
    }
}

//! The storage class that a disk resembles, the known behaviour of that class (docs/methods.md#storage-classes), and whether a disk
//! is slower than the class that it reports.

use fathom_record::disk::Step;
use fathom_record::{Confidence, Finding, Severity};
use fathom_units::Nanos;

use super::evidence::{DiskEvidence, of_shape};
use super::medium::Medium;

/// The factor by which a disk may miss a class's latency and still belong to it: the effect of a noisy measurement and an unusual model.
const MAX_LATENCY_RATIO: f64 = 3.0;
/// From this share of a cap on, the cap accounts for a wait.
const MAX_SHARE_OF_CAP: f64 = 0.8;

use super::allowance_limit::{AZURE_LIMIT, AllowanceLimit, EBS_LIMIT, INSTANCE_LIMIT};

/// A class of storage, by its figures at one request in flight and at its maximum.
#[derive(Debug, PartialEq)]
pub struct StorageClass {
    pub name: &'static str,
    /// Random 4 KiB IOPS, lowest and highest.
    pub iops: (f64, f64),
    /// Latency of one request in flight, milliseconds, lowest and highest.
    pub latency_ms: (f64, f64),
    /// The warning of the class.
    pub warning: &'static str,
    /// The largest burst allowance of devices that behave like this class.
    pub limit: AllowanceLimit,
}

/// The table; the narrow classes come before the wide ones, so that the narrower name wins a tie.
const CLASSES: &[StorageClass] = &[
    StorageClass {
        name: "an Azure P4 disk (120 IOPS)",
        iops: (110.0, 130.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 120",
        limit: AZURE_LIMIT,
    },
    StorageClass {
        name: "an Azure P10 disk (500 IOPS)",
        iops: (480.0, 520.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 500",
        limit: AZURE_LIMIT,
    },
    StorageClass {
        name: "an Azure P15 disk (1100 IOPS)",
        iops: (1_050.0, 1_150.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 1100",
        limit: AZURE_LIMIT,
    },
    StorageClass {
        name: "an Azure P20 disk (2300 IOPS)",
        iops: (2_200.0, 2_400.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 2300",
        limit: AZURE_LIMIT,
    },
    StorageClass {
        name: "an EBS gp2 volume in burst, or a gp3 volume (3000 IOPS)",
        iops: (2_900.0, 3_150.0),
        latency_ms: (0.4, 3.0),
        warning: "gp2 falls to 3 IOPS per GiB once 5.4 million credits are spent (100 GiB: after 2000 s); a gp3 volume has no bucket",
        limit: EBS_LIMIT,
    },
    StorageClass {
        name: "an Azure P30 disk (5000 IOPS)",
        iops: (4_850.0, 5_150.0),
        latency_ms: (1.0, 10.0),
        warning: "the virtual machine's own cached and uncached limits apply too",
        limit: INSTANCE_LIMIT,
    },
    StorageClass {
        name: "a large EBS gp2 or gp3 volume (16000 IOPS)",
        iops: (15_500.0, 16_500.0),
        latency_ms: (0.3, 3.0),
        warning: "the instance caps the sum of its volumes",
        limit: INSTANCE_LIMIT,
    },
    StorageClass {
        name: "a small cloud disk with a cap of about 100 IOPS",
        iops: (50.0, 110.0),
        latency_ms: (2.0, 15.0),
        warning: "every cold read of a database waits behind that cap",
        limit: AllowanceLimit::Unknown,
    },
    StorageClass {
        name: "a single 7200 rpm hard disk",
        iops: (60.0, 250.0),
        latency_ms: (4.0, 20.0),
        warning: "at most 120 honest syncs per second",
        limit: AllowanceLimit::Unknown,
    },
    StorageClass {
        name: "an array of hard disks or a throttled network disk",
        iops: (250.0, 5_000.0),
        latency_ms: (2.0, 20.0),
        warning: "its controller's cache hides the disks until it is full",
        limit: AllowanceLimit::Unknown,
    },
    StorageClass {
        name: "a network SSD volume",
        iops: (1_000.0, 80_000.0),
        latency_ms: (0.25, 3.0),
        warning: "provisioned limits of volume and instance apply; ask for both",
        limit: INSTANCE_LIMIT,
    },
    StorageClass {
        name: "a SATA SSD",
        iops: (20_000.0, 100_000.0),
        latency_ms: (0.06, 0.3),
        warning: "writes fall off once free blocks are used up; a consumer model flushes slowly",
        limit: AllowanceLimit::Unknown,
    },
    StorageClass {
        name: "an NVMe SSD",
        iops: (100_000.0, 2_000_000.0),
        latency_ms: (0.01, 0.12),
        warning: "it needs 32 to 256 requests in flight over several queues; a consumer model flushes in milliseconds",
        limit: AllowanceLimit::Unknown,
    },
    StorageClass {
        name: "memory, or a disk behind a large cache",
        iops: (50_000.0, 1e9),
        latency_ms: (0.0, 0.02),
        warning: "a cache this fast hides the medium: probe a file larger than it",
        limit: AllowanceLimit::Unknown,
    },
];

/// The class whose ranges are nearest on log scales; `None` if even that one is a factor of three away.
pub fn nearest(iops: f64, latency_ms: f64) -> Option<&'static StorageClass> {
    let outside = |value: f64, (low, high): (f64, f64)| {
        let value = value.max(1e-6).ln();
        (low.max(1e-6).ln() - value).max(value - high.ln()).max(0.0)
    };
    let distance = |class: &StorageClass| outside(iops, class.iops) + outside(latency_ms, class.latency_ms);
    // The first of equals wins, so narrow classes come before wide ones.
    let best = CLASSES.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(best) < MAX_LATENCY_RATIO.ln()).then_some(best)
}

/// The slowest class for a disk of this medium.
fn class_of(medium: Medium) -> Option<&'static StorageClass> {
    let name = match medium {
        Medium::Rotational => "a single 7200 rpm hard disk",
        Medium::Nvme => "an NVMe SSD",
        Medium::Other => "a network SSD volume",
    };
    CLASSES.iter().find(|class| class.name == name)
}

/// A disk on which a lone read takes longer than on any disk of its class. If a cap was found and a lone read nearly reaches it
/// already, the wait is due to the cap.
pub(super) fn slower(evidence: &DiskEvidence<'_>, is_capped: bool) -> Option<Finding> {
    let class = class_of(evidence.medium?)?;
    let step = of_shape(evidence.steps, "randread", 4096)
        .find(|step| step.streams.first().is_some_and(|stream| stream.depth == 1) && !step.cpu_bound())?;
    let most_per_s = of_shape(evidence.steps, "randread", 4096).map(Step::per_s).max_by(f64::total_cmp)?;
    if is_capped && step.per_s() >= MAX_SHARE_OF_CAP * most_per_s {
        return None;
    }
    let p50_ns = step.streams.first()?.kind("read")?.latency.p50_ns;
    let most_ns = class.latency_ms.1 * 1e6;
    if p50_ns as f64 <= MAX_LATENCY_RATIO * most_ns {
        return None;
    }
    let (one, most) = (Nanos(p50_ns), Nanos(most_ns as u64));
    let claim = format!("The disk is slower than its class: one read alone takes {one}");
    Some(
        Finding::new("slower-than-class", Severity::Warning, claim)
            .confidence(Confidence::Likely)
            .evidence(format!("{} answers in {most} at most; half of the reads at depth 1 took longer than {one}", class.name))
            .advice("Look for a degraded array, a failing disk, a limit in front of it, or a volume of a slower kind than was ordered"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_figures_find_their_class() {
        for (iops, latency_ms, name) in [
            (100.0, 10.0, "about 100 IOPS"),
            (180.0, 9.0, "hard disk"),
            (3_000.0, 0.7, "gp3"),
            (2_300.0, 4.0, "P20"),
            (60_000.0, 0.12, "SATA"),
            (700_000.0, 0.08, "NVMe"),
            (300_000.0, 0.005, "memory"),
        ] {
            let class = nearest(iops, latency_ms).unwrap();
            assert!(class.name.contains(name), "{iops} {latency_ms}: {}", class.name);
        }
        assert_eq!(nearest(1.0, 900.0), None);
    }
}

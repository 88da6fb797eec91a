//! Which storage a disk resembles, and what that class is known for (disk.md 4, with its sources).

/// A class of storage by what it shows at one request and at its most.
#[derive(Debug, PartialEq)]
pub struct StorageClass {
    /// Its name.
    pub name: &'static str,
    /// Random 4 KiB IOPS, lowest and highest.
    pub iops: (f64, f64),
    /// Latency of one request in flight, milliseconds, lowest and highest.
    pub latency_ms: (f64, f64),
    /// What to beware of.
    pub warning: &'static str,
}

/// The table; the narrow classes stand before the wide ones, so that a tie goes to the more telling name.
pub(super) const CLASSES: &[StorageClass] = &[
    StorageClass {
        name: "an Azure P4 disk (120 IOPS)",
        iops: (110.0, 130.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 120",
    },
    StorageClass {
        name: "an Azure P10 disk (500 IOPS)",
        iops: (480.0, 520.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 500",
    },
    StorageClass {
        name: "an Azure P15 disk (1100 IOPS)",
        iops: (1_050.0, 1_150.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 1100",
    },
    StorageClass {
        name: "an Azure P20 disk (2300 IOPS)",
        iops: (2_200.0, 2_400.0),
        latency_ms: (2.0, 10.0),
        warning: "bursts to 3500 IOPS for up to 30 minutes, then falls to 2300",
    },
    StorageClass {
        name: "an EBS gp2 volume in burst, or a gp3 volume (3000 IOPS)",
        iops: (2_900.0, 3_150.0),
        latency_ms: (0.4, 3.0),
        warning: "gp2 falls to 3 IOPS per GiB once 5.4 million credits are spent (100 GiB: after 2000 s); a gp3 volume has no bucket",
    },
    StorageClass {
        name: "an Azure P30 disk (5000 IOPS)",
        iops: (4_850.0, 5_150.0),
        latency_ms: (1.0, 10.0),
        warning: "the virtual machine's own cached and uncached limits apply too",
    },
    StorageClass {
        name: "a large EBS gp2 or gp3 volume (16000 IOPS)",
        iops: (15_500.0, 16_500.0),
        latency_ms: (0.3, 3.0),
        warning: "the instance caps the sum of its volumes",
    },
    StorageClass {
        name: "a small cloud disk with a cap of about 100 IOPS",
        iops: (50.0, 110.0),
        latency_ms: (2.0, 15.0),
        warning: "every cold read of a database waits behind that cap",
    },
    StorageClass {
        name: "a single 7200 rpm hard disk",
        iops: (60.0, 250.0),
        latency_ms: (4.0, 20.0),
        warning: "at most 120 honest syncs per second",
    },
    StorageClass {
        name: "an array of hard disks or a throttled network disk",
        iops: (250.0, 5_000.0),
        latency_ms: (2.0, 20.0),
        warning: "its controller's cache hides the disks until it is full",
    },
    StorageClass {
        name: "a network SSD volume",
        iops: (1_000.0, 80_000.0),
        latency_ms: (0.25, 3.0),
        warning: "provisioned limits of volume and instance apply; ask for both",
    },
    StorageClass {
        name: "a SATA SSD",
        iops: (20_000.0, 100_000.0),
        latency_ms: (0.06, 0.3),
        warning: "writes fall off once free blocks are used up; a consumer model flushes slowly",
    },
    StorageClass {
        name: "an NVMe SSD",
        iops: (100_000.0, 2_000_000.0),
        latency_ms: (0.01, 0.12),
        warning: "it needs 32 to 256 requests in flight over several queues; a consumer model flushes in milliseconds",
    },
    StorageClass {
        name: "memory, or a disk behind a large cache",
        iops: (50_000.0, 1e9),
        latency_ms: (0.0, 0.02),
        warning: "a cache this fast hides the medium: probe a file larger than it",
    },
];

/// The class whose ranges are nearest on log scales; `None` when even that is a factor of three away.
pub fn nearest(iops: f64, latency_ms: f64) -> Option<&'static StorageClass> {
    let outside = |value: f64, (low, high): (f64, f64)| {
        let value = value.max(1e-6).ln();
        (low.max(1e-6).ln() - value).max(value - high.ln()).max(0.0)
    };
    let distance = |class: &StorageClass| outside(iops, class.iops) + outside(latency_ms, class.latency_ms);
    // The first of equals wins, so narrow classes come before wide ones.
    let best = CLASSES.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(best) < 3.0_f64.ln()).then_some(best)
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

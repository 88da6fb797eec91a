//! Named classes of storage, each as the limits that stand for it.
//!
//! A class says what a disk of that kind may do each second, never how long a request takes: the kernel's throttle
//! holds rates and no latencies. It limits reads and writes apart, where a provider counts them together; a load of both
//! kinds can reach up to twice the figure in sum. It refuses to guess: an unknown name is `None`.

use crate::CapLimits;

/// A kind of storage that studies name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageClass {
    /// What a study calls it.
    pub name: &'static str,
    /// What it may do each second.
    pub limits: CapLimits,
    /// Where the figures come from.
    pub source: &'static str,
}

const fn class(
    name: &'static str,
    iops: u64,
    bytes_per_s: Option<u64>,
    source: &'static str,
) -> StorageClass {
    let limits = CapLimits {
        read_iops: Some(iops),
        write_iops: Some(iops),
        read_bytes_per_s: bytes_per_s,
        write_bytes_per_s: bytes_per_s,
    };
    StorageClass { name, limits, source }
}

/// Every class, slowest first.
pub const STORAGE_CLASSES: [StorageClass; 5] = [
    class(
        "azure-100",
        100,
        None,
        "mongoperf on a cloud disk, random and sequential alike near 100 operations/s (study 1, 2014)",
    ),
    class("hdd-250", 250, None, "mongoperf on one hard disk, about 250 operations/s (study 1, 2014)"),
    class("ebs-300", 300, None, "an EBS volume with 300 provisioned IOPS (study 3, 2016)"),
    class(
        "gp3-3000",
        3000,
        Some(125 << 20),
        "the baseline of an EBS gp3 volume, 3000 IOPS and 125 MiB/s (Amazon EBS user guide)",
    ),
    class(
        "ssd-12k",
        12_000,
        None,
        "mongoperf on a laptop's SATA SSD, 12.2 to 12.5 thousand operations/s at 128 threads (study 1, 2014)",
    ),
];

/// The class of that name.
pub fn storage_class(name: &str) -> Option<StorageClass> {
    STORAGE_CLASSES.into_iter().find(|class| class.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_name_its_limits_and_a_source() {
        for name in ["azure-100", "hdd-250", "ebs-300", "gp3-3000", "ssd-12k"] {
            let class = storage_class(name).unwrap();
            class.limits.check().unwrap();
            assert!(!class.source.is_empty());
        }
        assert_eq!(storage_class("gp3-3000").unwrap().limits.write_bytes_per_s, Some(131_072_000));
        assert_eq!(storage_class("floppy"), None);
    }
}

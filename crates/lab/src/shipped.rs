//! Table: the studies and workloads that are part of the program, so that a name alone runs them.

use std::path::Path;

use fathom_errors::{Error, Result};

/// A study that is included.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! study {
    ($name:literal, $about:literal) => {
        Shipped {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../studies/", $name, ".yaml")),
        }
    };
}

/// The five articles.
pub static STUDIES: &[Shipped] = &[
    study!("mongoperf-filesystems-raid", "a disk's IOPS over file systems and arrays, by requests in flight"),
    study!(
        "lsm-against-btree",
        "RocksDB beside WiredTiger in one set: write concern, journal, each member's disk"
    ),
    study!(
        "xfs-against-ext4",
        "file systems under YCSB's workload A, on a quick disk and on one of 300 IOPS"
    ),
    study!("micro-sharding", "S1 to S5 on 1 to 8 shards of one machine"),
    study!("loops-and-flush", "the checkpoint interval and the queue depth, crossed"),
];

macro_rules! workload {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../workloads/", $name)))
    };
}

/// YCSB's workloads and the scenarios of article 4.
static WORKLOADS: &[(&str, &str)] = &[
    workload!("workloada"),
    workload!("workloadb"),
    workload!("workloadc"),
    workload!("workloadd"),
    workload!("workloade"),
    workload!("workloadf"),
    workload!("s1"),
    workload!("s2"),
    workload!("s3"),
    workload!("s4"),
    workload!("s5"),
];

impl Shipped {
    /// The study of this name.
    pub fn named(name: &str) -> Option<&'static Shipped> {
        STUDIES.iter().find(|study| study.name == name)
    }
}

/// The text of a workload: one that is included, or a file.
pub(crate) fn workload(name: &str) -> Result<String> {
    let known = name.to_ascii_lowercase();
    if let Some((_, text)) = WORKLOADS.iter().find(|(one, _)| *one == known) {
        return Ok((*text).to_owned());
    }
    let path = Path::new(name);
    std::fs::read_to_string(path).map_err(|cause| {
        let names: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
        Error::usage(format!(
            "'{name}' is neither a workload that is included ({}) nor a file that can be read",
            names.join(", ")
        ))
        .because(cause)
    })
}

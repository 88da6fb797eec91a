//! Table: the studies that are part of the program and run by name alone; also finds the workload that a study names.

use std::path::Path;

use fathom_errors::{Error, Result};
use fathom_load::builtin_workloads;

/// A study that is included.
#[derive(Clone, Copy, Debug)]
pub struct IncludedStudy {
    pub name: &'static str,
    /// Its subject, in a line.
    pub about: &'static str,
    pub text: &'static str,
}

macro_rules! study {
    ($name:literal, $about:literal) => {
        IncludedStudy {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../studies/", $name, ".yaml")),
        }
    };
}

/// The studies of five published articles.
pub static STUDIES: &[IncludedStudy] = &[
    study!("mongoperf-filesystems-raid", "a disk's IOPS over file systems and arrays, by requests in flight"),
    study!(
        "lsm-against-btree",
        "RocksDB and WiredTiger in one set: write concern, journal, each member's disk"
    ),
    study!(
        "xfs-against-ext4",
        "file systems under YCSB's workload A, on a quick disk and on one of 300 IOPS"
    ),
    study!("micro-sharding", "S1 to S5 on 1 to 8 shards of one machine"),
    study!("loops-and-flush", "the checkpoint interval and the queue depth, crossed"),
];

impl IncludedStudy {
    /// The study of this name.
    pub fn named(name: &str) -> Option<&'static IncludedStudy> {
        STUDIES.iter().find(|study| study.name == name)
    }
}

/// The text of a workload: one that is included, or a file.
pub(crate) fn workload(name: &str) -> Result<String> {
    if let Some(text) = builtin_workloads::core(name) {
        return Ok(text.to_owned());
    }
    std::fs::read_to_string(Path::new(name)).map_err(|cause| {
        Error::usage(format!(
            "'{name}' is neither a built-in workload ({}) nor a file that can be read",
            builtin_workloads::core_names()
        ))
        .because(cause)
    })
}

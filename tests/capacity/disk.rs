//! The disks on which a stated capacity is tried: a slow one of known speed, a capped one, and the machine's own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_testkit::{
    Bytes, Cap, CapLimits, Fathom, Filesystem, LabServer, Need, OrSkip, RealDisk, Scratch, SlowDisk, Speed,
};
use serde::{Deserialize, Serialize};

/// Requests a second that the throttle in front of the capped disk lets pass.
pub(crate) const CAP_IOPS: u64 = 300;
/// The time of a request on the slow disk, and the number served at once: 2,000 requests a second. A journaled write is several
/// requests one after another, and must take less than the objective.
const SLOW: Speed = Speed { service: Duration::from_micros(500), parallel: 1 };
/// Bytes of the disks that are made. Both are in memory: only what is made here slows them.
const SIZE: Bytes = Bytes(3 << 30);

/// A kind of disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DiskKind {
    Slow,
    Capped,
    Own,
}

pub(crate) const KINDS: [DiskKind; 3] = [DiskKind::Slow, DiskKind::Capped, DiskKind::Own];

impl DiskKind {
    /// In words, for a table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            DiskKind::Slow => "one request of 0.5 ms at a time",
            DiskKind::Capped => "a cap of 300 requests a second",
            DiskKind::Own => "the machine's own",
        }
    }

    /// Its name on the command line of `make verdicts ONLY=`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DiskKind::Slow => "capacity-slow",
            DiskKind::Capped => "capacity-capped",
            DiskKind::Own => "capacity-own",
        }
    }
}

/// A disk of a kind, for one test.
pub(crate) enum Disk {
    Slow(SlowDisk),
    Capped(RealDisk, Cap),
    Own(Scratch),
}

impl Disk {
    /// The test ends as skipped where this machine cannot have it.
    pub(crate) fn new(kind: DiskKind) -> Disk {
        match kind {
            DiskKind::Slow => Disk::Slow(SlowDisk::new(Filesystem::Ext4, SIZE, SLOW)),
            DiskKind::Capped => {
                let disk = RealDisk::in_memory(Filesystem::Ext4, SIZE);
                let limits = CapLimits::iops(CAP_IOPS);
                let cap = Cap::new(disk.ledger(), disk.device_number(), limits).or_skip(Need::Cgroup);
                Disk::Capped(disk, cap)
            }
            DiskKind::Own => Disk::Own(Scratch::new().unwrap()),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Disk::Slow(disk) => disk.path().to_owned(),
            Disk::Capped(disk, _) => disk.path().to_owned(),
            Disk::Own(scratch) => scratch.path(),
        }
    }

    /// A call of the program that uses this disk.
    pub(crate) fn call(&self, program: &str) -> Fathom {
        let call = Fathom::new(program).limit(Duration::from_secs(900));
        match self {
            Disk::Capped(_, cap) => call.under_cap(cap.processes_file()),
            Disk::Slow(_) | Disk::Own(_) => call,
        }
    }

    /// A lab server on an empty folder of this disk.
    pub(crate) fn server(&self, program: &str, folder: &Path, flags: &[String]) -> LabServer {
        let call = self.call(program).args(["serve", "--port", "0", "--dbpath"]).arg(folder).args(flags);
        LabServer::from_call(call).unwrap_or_else(|output| panic!("{output:?}"))
    }

    /// Takes it down, and fails if that leaves something.
    pub(crate) fn undo(self) {
        if let Disk::Capped(disk, cap) = self {
            cap.lift().unwrap();
            disk.undo().unwrap();
        }
    }
}

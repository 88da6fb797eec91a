//! The report of `iostat`, as functions from readings to text or JSON.
//!
//! Figures, column order and widths are those of sysstat 12.6, so that users and scripts recognise them
//! (`docs/iostat.md` lists the differences). A [`IostatSampler`] makes a [`Snapshot`]; two of these and a [`Selection`] make
//! a [`Report`], which [`text`] or [`json`] prints. Only the sampler and the stack read the machine; everything after
//! them is a pure function and tested on recorded counters.

pub mod json;
mod report;
mod select;
mod snapshot;
pub mod text;

pub use report::{DeviceRow, Report, report};
pub use select::Selection;
pub use snapshot::{IostatHeader, IostatSampler, LocalTime, Snapshot, Stack, notes, util_meaning};

/// The unit of amounts and rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// 1024 bytes, which sysstat calls kB.
    #[default]
    Kib,
    /// 1024 of those, which sysstat calls MB.
    Mib,
}

impl Unit {
    /// The name in column headings and JSON keys.
    pub fn label(self) -> &'static str {
        match self {
            Unit::Kib => "kB",
            Unit::Mib => "MB",
        }
    }

    /// A rate or amount in KiB, in this unit.
    fn of_kib(self, kib: f64) -> f64 {
        match self {
            Unit::Kib => kib,
            Unit::Mib => kib / 1024.0,
        }
    }

    /// A count of sectors in whole units, rounded down as sysstat does.
    fn of_sectors(self, sectors: u64) -> u64 {
        match self {
            Unit::Kib => sectors / 2,
            Unit::Mib => sectors / 2048,
        }
    }
}

/// The partitions that are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partitions {
    /// None, unless named (no `-p`).
    #[default]
    None,
    /// Those that have had I/O (`-p`).
    Used,
    /// All partitions, and devices without I/O (`-p ALL`).
    All,
    /// Those of the named devices (`-p sda,sdb`).
    Of(Vec<String>),
}

/// The columns and the form of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IostatOptions {
    pub cpu: bool,
    pub disks: bool,
    /// `-x`: the extended figures.
    pub extended: bool,
    /// `-s`: the narrow forms.
    pub short: bool,
    /// The unit, from `-k` or `-m`.
    pub unit: Unit,
    /// `-z`: leave out devices without I/O in the interval.
    pub omit_idle: bool,
    /// `-t`: a time stamp before each report.
    pub timestamp: bool,
    /// `-N`: device mapper names instead of `dm-0`.
    pub mapper_names: bool,
    /// The choice that `-p` makes.
    pub partitions: Partitions,
    /// Device names from the command line; `ALL` means every device, used or not.
    pub devices: Vec<String>,
    /// Stacked devices above those below them, and a total of the bottom ones.
    pub tree: bool,
    /// Columns that sysstat does not have.
    pub more: bool,
}

//! The report of `iostat`, as functions from readings to text or JSON.
//!
//! Figures, columns, widths and the order of rows are those of sysstat 12.7, so that users and scripts recognise them
//! (`docs/iostat.md` lists the differences). A [`IostatSampler`] makes a [`Snapshot`]; two of these and a [`Selection`] make
//! a [`Report`], which [`text`] or [`json`] prints. Only the sampler, the stack and the persistent names read the machine;
//! everything after them is a pure function and tested on recorded counters.

pub mod json;
mod persistent_names;
mod report;
mod select;
mod snapshot;
pub mod text;

use std::path::PathBuf;

pub use persistent_names::PersistentNames;
pub use report::{DeviceRow, Report, report};
pub use select::{SelectedRow, Selection};
pub use snapshot::{IostatHeader, IostatSampler, LocalTime, Snapshot, Stack, TimeForm, notes, util_meaning};

/// The unit of amounts and rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// 512 bytes, which sysstat calls a block, or a sector in its extended report (`POSIXLY_CORRECT`).
    Sectors,
    /// 1024 bytes, which sysstat calls kB.
    #[default]
    Kib,
    /// 1024 of those, which sysstat calls MB.
    Mib,
}

impl Unit {
    /// The name in column headings and JSON keys.
    pub fn label(self, extended: bool) -> &'static str {
        match self {
            Unit::Sectors if extended => "sec",
            Unit::Sectors => "Blk",
            Unit::Kib => "kB",
            Unit::Mib => "MB",
        }
    }

    /// A rate or amount in KiB, in this unit.
    fn of_kib(self, kib: f64) -> f64 {
        match self {
            Unit::Sectors => kib * 2.0,
            Unit::Kib => kib,
            Unit::Mib => kib / 1024.0,
        }
    }

    /// A count of sectors in whole units, rounded down as sysstat does.
    fn of_sectors(self, sectors: u64) -> u64 {
        match self {
            Unit::Sectors => sectors,
            Unit::Kib => sectors / 2,
            Unit::Mib => sectors / 2048,
        }
    }
}

/// One word of the command line that chooses rows. Their order decides about groups and the order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The device or partition of this name.
    Device(String),
    /// `-p DEV`: the device and its partitions.
    WithPartitions(String),
    /// `ALL`: every whole device.
    AllDevices,
    /// `-p`, every device and partition in the kernel's order; `-p ALL`, those without any I/O too.
    Everything { unused: bool },
    /// `-g NAME`: the devices after it are a group with a total of its own.
    Group(String),
}

/// A folder with more counters (`block/DEVICE/stat`, `diskstats`), written by a driver in user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterFolder {
    pub path: PathBuf,
    /// `+f`: the kernel's counters too.
    pub with_kernel: bool,
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
    /// The unit, from `-k`, `-m` or `POSIXLY_CORRECT`.
    pub unit: Unit,
    /// `-z`: leave out devices without I/O in the interval.
    pub omit_idle: bool,
    /// `-t`: a time stamp before each report.
    pub timestamp: bool,
    /// `-N`: device mapper names instead of `dm-0`.
    pub mapper_names: bool,
    /// `-j`: names of this kind instead of the kernel's.
    pub persistent: Option<PersistentNames>,
    /// The words that choose rows, as they stand on the command line; without any, all devices that ever did I/O.
    pub chosen: Vec<DeviceChoice>,
    /// `-H`: totals of groups without their devices.
    pub totals_only: bool,
    /// `--human`: sizes with a unit of their own, percentages with a sign.
    pub human: bool,
    /// `--pretty`: the name of the device last, and the extended report in parts.
    pub pretty: bool,
    /// `--compact`: the extended report is not split into parts.
    pub compact: bool,
    /// `--dec`: decimal places of figures (2).
    pub decimals: Option<usize>,
    /// Stacked devices above those below them, and a total of the bottom ones.
    pub tree: bool,
    /// Columns that sysstat does not have.
    pub more: bool,
}

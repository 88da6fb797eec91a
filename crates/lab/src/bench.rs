//! What trials need of the machine and of this process, and whether the machine can hold a study at all.
//!
//! Everything that can be refused is refused here, before the first thing is made: storage that cannot be made, too little room, no root.

use std::path::PathBuf;

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Ledger, Signals};
use fathom_units::Bytes;

use crate::setup::Setup;
use crate::trial::{serving, targets};
use crate::{Measures, Place, Plan, Study};

/// Room that stays free besides what a trial takes.
const SPARE_BYTES: u64 = 256 << 20;

/// Where and by what trials run.
#[derive(Debug)]
pub struct Bench {
    /// This program, of which servers, loads and probes are made.
    pub program: PathBuf,
    /// Where things are written down before they are made.
    pub ledger: Ledger,
    /// The signals that this process gets.
    pub signals: Signals,
    /// Where storage and data go.
    pub work: PathBuf,
}

impl Bench {
    /// Refuses a study that cannot be run here; makes nothing.
    ///
    /// # Errors
    /// One sentence, with the line of the study where it is one factor that cannot be had.
    pub fn check(&self, study: &Study, plan: &Plan) -> Result<()> {
        let mut seen: Vec<Setup> = Vec::new();
        let mut most = 0;
        for levels in &plan.cells {
            let setup = study.setup(levels)?;
            most = most.max(crate::estimate::room_of(study.measures, &setup));
            let is_known = |same: fn(&Setup, &Setup) -> bool| seen.iter().any(|known| same(known, &setup));
            if !is_known(|one, two| one.storage == two.storage) {
                targets::check(self, &setup)
                    .map_err(|error| study.impossible(levels, Place::Storage, error))?;
            }
            if study.measures == Measures::Load && !is_known(|one, two| one.servers == two.servers) {
                serving::check(self, &setup)
                    .map_err(|error| study.impossible(levels, Place::Servers, error))?;
            }
            seen.push(setup);
        }
        self.check_room(most)
    }

    /// The storage that is made for a study, each kind of it in one line.
    ///
    /// # Errors
    /// As of a study's levels.
    pub fn storage(&self, study: &Study, plan: &Plan) -> Result<Vec<String>> {
        let mut lines: Vec<String> = Vec::new();
        for levels in &plan.cells {
            let line = targets::described(self, &study.setup(levels)?);
            lines.extend(line.filter(|line| !lines.contains(line)));
        }
        Ok(lines)
    }

    fn check_room(&self, most: u64) -> Result<()> {
        let room =
            rustix::fs::statvfs(&self.work).map_err(|cause| Error::io("look at", &self.work, cause))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        if free < most.saturating_add(SPARE_BYTES) {
            let what = format!(
                "a trial needs up to {}, and {} has {}",
                Bytes(most),
                self.work.display(),
                Bytes(free)
            );
            return Err(
                Error::new(Kind::NoSpace, what).advise("choose a smaller size, or another folder with --dir")
            );
        }
        Ok(())
    }
}

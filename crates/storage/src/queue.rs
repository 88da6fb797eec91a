//! Settings of a device's request queue: read-ahead, scheduler, requests kept.
//!
//! A loop device's number outlives our use of it, and a whole disk is not ours at all: what was set before is recorded
//! and put back. Each value is read again after it was written, since the kernel rounds and ignores. It refuses a
//! scheduler that the device does not offer.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::{Guard, Ledger, Thing};

use crate::kernel;

/// What may be set; what is absent stays as the kernel chose it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// How far the kernel reads ahead of a sequential reader, in KiB, whole pages; set on the uppermost device.
    pub read_ahead_kib: Option<u64>,
    /// `none`, `mq-deadline`, `bfq` or `kyber`; set on the lowest devices, where requests are queued.
    pub scheduler: Option<String>,
    /// How many requests the scheduler, or the device without one, keeps; set on the lowest devices.
    pub nr_requests: Option<u64>,
}

/// The kernel reads ahead in pages.
const PAGE_KIB: u64 = 4;
/// The least that the kernel keeps (block/blk.h, `BLKDEV_MIN_RQ`); it takes less for this.
const LEAST_REQUESTS: u64 = 4;

impl QueueSettings {
    /// Whether anything is to be set.
    pub fn is_empty(&self) -> bool {
        *self == QueueSettings::default()
    }

    /// Refuses values that the kernel would round, and a scheduler that the devices called `names` do not offer.
    pub(crate) fn check(&self, names: &[String]) -> Result<()> {
        if let Some(kib) = self.read_ahead_kib.filter(|kib| !kib.is_multiple_of(PAGE_KIB)) {
            let what = format!("a read-ahead of {kib} KiB is not a multiple of the {PAGE_KIB} KiB of a page");
            return Err(Error::usage(what));
        }
        if let Some(requests) = self.nr_requests.filter(|&requests| requests < LEAST_REQUESTS) {
            let what = format!("the kernel keeps {LEAST_REQUESTS} requests at least, and not {requests}");
            return Err(Error::usage(what));
        }
        let Some(scheduler) = &self.scheduler else { return Ok(()) };
        if scheduler.is_empty() || !scheduler.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(Error::usage(format!("'{scheduler}' is not the name of a scheduler")));
        }
        for name in names {
            let Some(offered) = View::live().value(&format!("sys/block/{name}/queue/scheduler")) else {
                continue;
            };
            let mut words = offered.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            if !words.any(|word| word == scheduler) && !kernel::offers(&format!("{scheduler}-iosched")) {
                let what = format!("{name} has no scheduler {scheduler}, only {offered}");
                return Err(Error::usage(what));
            }
        }
        Ok(())
    }
}

/// Settings made, put back in reverse when this goes.
#[derive(Debug, Default)]
pub(crate) struct Applied(Vec<Guard>);

impl Applied {
    /// Sets what belongs to the lowest devices: the scheduler, then what it changes along.
    pub(crate) fn set_leaf(&mut self, ledger: &Ledger, name: &str, settings: &QueueSettings) -> Result<()> {
        let queue = Path::new("/sys/block").join(name).join("queue");
        if let Some(scheduler) = &settings.scheduler {
            let requests = queue.join("nr_requests");
            if let Some(previous) = value(&requests)? {
                // With the scheduler the kernel chooses this anew, so it is put back after the scheduler is.
                let thing = Thing::Setting { path: requests, previous, value: None };
                self.0.push(ledger.will_make(thing)?.guard());
            }
            self.set(ledger, queue.join("scheduler"), scheduler)?;
        }
        match settings.nr_requests {
            Some(requests) => self.set(ledger, queue.join("nr_requests"), &requests.to_string()),
            None => Ok(()),
        }
    }

    /// Writes one setting, recorded before, and looks whether the kernel took it.
    pub(crate) fn set(&mut self, ledger: &Ledger, path: PathBuf, wanted: &str) -> Result<()> {
        let gone = || Error::new(Kind::Unsupported, format!("this kernel has no {}", path.display()));
        let previous = value(&path)?.ok_or_else(gone)?;
        if previous == wanted {
            return Ok(());
        }
        let thing = Thing::Setting { path: path.clone(), previous, value: Some(wanted.to_owned()) };
        self.0.push(ledger.will_make(thing)?.guard());
        fs::write(&path, wanted).map_err(|e| {
            let error = Error::io(&format!("write {wanted} into"), &path, e);
            match error.kind() {
                Kind::Permission | Kind::ReadOnly => {
                    error.advise("queue settings need root and a writable /sys")
                }
                _ => error.with_kind(Kind::Unsupported).advise("the device does not take this value"),
            }
        })?;
        let now = value(&path)?.unwrap_or_default();
        if now != wanted {
            let what = format!("{} is {now} where {wanted} was written", path.display());
            return Err(Error::new(Kind::Unsupported, what).advise("choose a value that the device takes"));
        }
        Ok(())
    }

    /// Puts everything back now and tells whether that worked.
    pub(crate) fn undo(mut self) -> Result<()> {
        while let Some(guard) = self.0.pop() {
            guard.undo()?;
        }
        Ok(())
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        // Last made, first undone.
        while self.0.pop().is_some() {}
    }
}

/// The value of a setting, the chosen word of a choice; `None` where there is no such file.
fn value(path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    let inside = path.strip_prefix("/").unwrap_or(path);
    Ok(View::live().choice(&inside.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_would_round_is_refused() {
        let settings = |read_ahead_kib, nr_requests, scheduler: Option<&str>| QueueSettings {
            read_ahead_kib,
            nr_requests,
            scheduler: scheduler.map(str::to_owned),
        };
        for bad in [
            settings(Some(6), None, None),
            settings(None, Some(1), None),
            settings(None, None, Some("no good")),
            settings(None, None, Some("")),
        ] {
            assert_eq!(bad.check(&[]).unwrap_err().kind(), Kind::Usage, "{bad:?}");
        }
        settings(Some(0), Some(64), Some("none")).check(&[]).unwrap();
        assert!(QueueSettings::default().is_empty());
    }

    #[test]
    fn a_setting_that_did_not_take_is_an_error_and_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("setting");
        fs::write(&path, "16\n").unwrap();
        let ledger = Ledger::open_in(&folder.path().join("state")).unwrap();
        let mut applied = Applied::default();
        applied.set(&ledger, path.clone(), "32").unwrap();
        applied.set(&ledger, path.clone(), "64").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "64");
        applied.undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "16");
        assert!(Applied::default().set(&ledger, folder.path().join("absent"), "1").is_err());
    }
}

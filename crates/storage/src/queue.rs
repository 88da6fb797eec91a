//! Settings of a device's request queue: read-ahead, scheduler, requests kept.
//!
//! A loop device's number outlives our use of it, and a whole disk is not ours at all: the previous value of each
//! setting is recorded and restored. Each value is read back after it was written, since the kernel rounds or ignores
//! some. A scheduler that the device does not offer is refused.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::{Guard, Ledger, Resource};

use crate::kernel;

/// The settings; an absent one keeps the kernel's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// The kernel's read-ahead for a sequential reader, in KiB, whole pages; set on the uppermost device.
    pub read_ahead_kib: Option<u64>,
    /// `none`, `mq-deadline`, `bfq` or `kyber`; set on the lowest devices, where requests are queued.
    pub scheduler: Option<String>,
    /// The number of requests that the scheduler, or the device without one, keeps; set on the lowest devices.
    pub nr_requests: Option<u64>,
}

/// The kernel reads ahead in pages.
const PAGE_KIB: u64 = 4;
/// The minimum that the kernel keeps (block/blk.h, `BLKDEV_MIN_RQ`); it raises smaller values to this.
const MIN_REQUESTS: u64 = 4;

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
        if let Some(requests) = self.nr_requests.filter(|&requests| requests < MIN_REQUESTS) {
            let what = format!("the kernel keeps {MIN_REQUESTS} requests at least, and not {requests}");
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

/// Settings that were made; they are undone in reverse when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct QueueSettingsGuard(Vec<Guard>);

impl QueueSettingsGuard {
    /// Sets what belongs to the lowest devices: the scheduler, then the settings that it changes too.
    pub(crate) fn set_leaf(&mut self, ledger: &Ledger, name: &str, settings: &QueueSettings) -> Result<()> {
        let queue = Path::new("/sys/block").join(name).join("queue");
        if let Some(scheduler) = &settings.scheduler {
            let requests = queue.join("nr_requests");
            if let Some(previous) = value(&requests)? {
                // The kernel sets this again with the scheduler, so it is restored after the scheduler is.
                let thing = Resource::Setting { path: requests, previous, value: None };
                self.0.push(ledger.will_make(thing)?.guard());
            }
            self.set(ledger, queue.join("scheduler"), scheduler)?;
        }
        match settings.nr_requests {
            Some(requests) => self.set(ledger, queue.join("nr_requests"), &requests.to_string()),
            None => Ok(()),
        }
    }

    /// Records one setting, writes it, and checks whether the kernel took it.
    pub(crate) fn set(&mut self, ledger: &Ledger, path: PathBuf, wanted: &str) -> Result<()> {
        let gone = || Error::new(Kind::Unsupported, format!("this kernel has no {}", path.display()));
        let previous = value(&path)?.ok_or_else(gone)?;
        if previous == wanted {
            return Ok(());
        }
        let thing = Resource::Setting { path: path.clone(), previous, value: Some(wanted.to_owned()) };
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
            let what = format!("{} is {now} although {wanted} was written", path.display());
            return Err(Error::new(Kind::Unsupported, what).advise("choose a value that the device takes"));
        }
        Ok(())
    }

    /// Restores all settings now and returns whether that worked.
    pub(crate) fn undo(mut self) -> Result<()> {
        while let Some(guard) = self.0.pop() {
            guard.undo()?;
        }
        Ok(())
    }
}

impl Drop for QueueSettingsGuard {
    fn drop(&mut self) {
        // Last made, first undone.
        while self.0.pop().is_some() {}
    }
}

/// The value of a setting (for a choice, the selected word); `None` if the file does not exist.
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
        let mut applied = QueueSettingsGuard::default();
        applied.set(&ledger, path.clone(), "32").unwrap();
        applied.set(&ledger, path.clone(), "64").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "64");
        applied.undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "16");
        assert!(QueueSettingsGuard::default().set(&ledger, folder.path().join("absent"), "1").is_err());
    }
}

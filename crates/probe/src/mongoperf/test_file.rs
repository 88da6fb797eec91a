//! The test file of a run, with all checks that can refuse it before a line is printed.
//!
//! The file has the probe's own name: the old name may belong to a run of the real tool.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::Ledger;
use fathom_record::disk::ProbeSubject;
use fathom_units::Bytes;

use super::config::{MongoperfOptions, PAGE};
use crate::probe_location::{Permits, ProbeLocation};
use crate::target::{MIN_SIZE, ProbeTarget, TargetNeeds};

/// Creates (or reuses) the file for `options` in `dir`; `direct` bypasses the page cache, a mapping's layout included.
///
/// # Errors
/// What [`ProbeLocation::look`] and [`ProbeTarget::open`] refuse; a block device; records that direct I/O cannot take here;
/// more memory for buffers than there is; a kept file whose stamps would be spoiled.
pub fn open(
    dir: &Path,
    options: &MongoperfOptions,
    direct: bool,
    permits: &Permits,
    ledger: &Ledger,
) -> Result<ProbeTarget> {
    let place = ProbeLocation::look(dir, true, permits)?;
    if place.is_device {
        let what = format!("{} is a block device", place.path.display());
        return Err(Error::new(Kind::Unsupported, what)
            .advise("mongoperf works on a file: name a directory with --dir; fathom disk probes a device"));
    }
    enough_memory(options, &View::live())?;
    let size = options.file_bytes.max(MIN_SIZE);
    let (path, free) = (place.path.clone(), Bytes(place.free_bytes));
    let target =
        ProbeTarget::open(place, Some(size), direct, TargetNeeds { writes: true, journal: false }, ledger)
            .map_err(|error| match error.kind() {
                Kind::NoSpace => {
                    let what = format!("a file of {size} does not fit: {} has {free} free", path.display());
                    Error::new(Kind::NoSpace, what)
                        .with_id("file-does-not-fit")
                        .advise("take a smaller fileSizeMB or free some room")
                }
                _ => error,
            })?;
    check(&target, options)?;
    Ok(target)
}

fn check(target: &ProbeTarget, options: &MongoperfOptions) -> Result<()> {
    let (record, align) = (options.record_bytes, target.alignment());
    if !options.mapped && !record.get().is_multiple_of(align) {
        let what = format!(
            "a record of {record} does not suit direct I/O here, which needs multiples of {align} bytes"
        );
        let advice = format!("take a recSizeKB that is a multiple of {}", align.div_ceil(1024));
        return Err(Error::usage(what).advise(advice));
    }
    if target.is_reused() && options.writes && keeps_content(options) {
        let what =
            format!("{} is kept from another run, and these writes would spoil it", target.path().display());
        return Err(Error::new(Kind::NotOurs, what).with_id("file-not-ours").advise(
            "remove it ('fathom cleanup' does, where a killed run left it) or take another directory",
        ));
    }
    Ok(())
}

/// Whether writes must repeat the content of the layout pass: they write less than a whole stamped page at a time, so new content
/// would look like a torn page in a verification of the file.
pub(super) fn keeps_content(options: &MongoperfOptions) -> bool {
    options.mapped || !options.record_bytes.get().is_multiple_of(PAGE)
}

fn enough_memory(options: &MongoperfOptions, view: &View) -> Result<()> {
    if options.mapped {
        return Ok(());
    }
    let text = view.text("proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).map(Bytes::kib);
    let wanted = Bytes(u64::from(options.threads).saturating_mul(options.record_bytes.get()));
    match available {
        Some(available) if wanted.get() > available.get() / 2 => {
            let what = format!(
                "{} buffers of {} need {wanted} of memory, and {available} are available",
                options.threads, options.record_bytes
            );
            Err(Error::new(Kind::NoSpace, what).advise("take fewer nThreads or a smaller recSizeKB"))
        }
        _ => Ok(()),
    }
}

/// The subject of the test, for a report.
pub fn subject(target: &ProbeTarget) -> ProbeSubject {
    let place = target.place();
    ProbeSubject {
        directory: place.path.display().to_string(),
        file_system: place.file_system.clone(),
        device: place.device_names(),
        size_bytes: target.size().get(),
        direct: target.is_direct(),
        alignment_bytes: target.alignment(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(document: &str) -> MongoperfOptions {
        MongoperfOptions::parse(document).unwrap().options
    }

    #[test]
    fn more_buffers_than_memory_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        ["proc", "sys"].iter().for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
        let meminfo = "MemTotal:  8000000 kB\nMemAvailable:    4194304 kB\n";
        std::fs::write(folder.path().join("proc/meminfo"), meminfo).unwrap();
        let view = View::snapshot(folder.path()).unwrap();
        let big = "fileSizeMB:100,recSizeKB:64000,r:true";
        assert!(enough_memory(&options(&format!("{{nThreads:32,{big}}}")), &view).is_ok());
        let error = enough_memory(&options(&format!("{{nThreads:64,{big}}}")), &view).unwrap_err();
        assert_eq!(error.kind().exit_code(), 3);
        assert!(
            error.to_string().contains("64 buffers of 62.5 MiB need 3.9 GiB of memory, and 4 GiB"),
            "{error}"
        );
        assert!(enough_memory(&options(&format!("{{nThreads:64,mmf:1,{big}}}")), &view).is_ok());
    }

    #[test]
    fn partial_pages_keep_their_content() {
        assert!(keeps_content(&options("{w:1,recSizeKB:6}")));
        assert!(keeps_content(&options("{w:1,mmf:1}")));
        assert!(!keeps_content(&options("{w:1,recSizeKB:64}")));
    }
}

//! The files under test: created by the probe, locked, recorded for removal, and never a file of another program.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ledger::dead_things;
use fathom_process::{Guard, Identity, Ledger, Resource};
use fathom_units::Bytes;
use rustix::fs::OFlags;

use crate::file::{BlockFile, reserve};
use crate::probe_location::ProbeLocation;
use crate::stamp::{CHUNK, read_stamp};

/// The name of the data file in the probed directory.
pub const DATA_FILE: &str = "fathom-probe.dat";
/// The name of the append file in the same directory.
pub const JOURNAL_FILE: &str = "fathom-probe.journal";
/// The size at which an append file is restarted, like WiredTiger's log files in mongod.
pub(crate) const JOURNAL_BYTES: u64 = 100 << 20;
/// The smallest file worth probing.
pub(crate) const MIN_SIZE: Bytes = Bytes::mib(16);
/// Space left free on the file system, for other programs.
const SPARE_BYTES: u64 = 64 << 20;

/// The options for opening the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileAccess {
    /// Bypass the page cache.
    pub(crate) direct: bool,
    /// O_DSYNC: each write is durable when it returns.
    pub(crate) dsync: bool,
    /// Whether it is opened for reading only.
    pub(crate) read_only: bool,
}

/// The requirements of the work on a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetNeeds {
    /// Whether it writes; a block device is then opened for writing.
    pub writes: bool,
    /// Whether it appends, and needs space for the append file.
    pub journal: bool,
}

/// The data file (or device) under test.
pub struct ProbeTarget {
    path: PathBuf,
    place: ProbeLocation,
    ledger: Ledger,
    file: File,
    /// Keeps other probes out for as long as it is open.
    _lock: Option<File>,
    guard: Option<Guard>,
    journal: Option<(PathBuf, Guard)>,
    size: Bytes,
    direct: bool,
    alignment: u64,
    reused: bool,
    broken: bool,
}

impl ProbeTarget {
    /// Opens or creates the data file in `place`. A file kept from an earlier run is reused if it is at least `size` long (only the
    /// used length is reduced to it, not the file).
    ///
    /// # Errors
    /// Not enough space, no direct I/O, a foreign file of that name, another probe running there.
    pub fn open(
        place: ProbeLocation,
        size: Option<Bytes>,
        direct: bool,
        needs: TargetNeeds,
        ledger: &Ledger,
    ) -> Result<ProbeTarget> {
        let DataFile { path, file, lock, guard, found } = if place.is_device {
            let file = open(&place.path, FileAccess { direct, dsync: false, read_only: !needs.writes })?;
            let (path, found) = (place.path.clone(), Some(place.total_bytes));
            DataFile { path, file, lock: None, guard: None, found }
        } else {
            check_journal(&place.path.join(JOURNAL_FILE))?;
            make_or_take(&place, direct, ledger)?
        };
        let size = decide_size(&place, size, found, needs.journal)?;
        let alignment = if direct { place.alignment(&file) } else { 1 };
        let reused = found.is_some_and(|found| found >= size.get());
        let broken = found == Some(0);
        Ok(ProbeTarget {
            path,
            place,
            ledger: ledger.clone(),
            file,
            _lock: lock,
            guard,
            journal: None,
            size,
            direct,
            alignment,
            reused,
            broken,
        })
    }

    /// Its directory and the devices below it.
    pub fn place(&self) -> &ProbeLocation {
        &self.place
    }

    /// The data file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the region under test.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The alignment direct I/O needs, in bytes; 1 for buffered I/O.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether its content already existed (a kept file, a device).
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether a kept file is no longer complete, so that it is laid out again.
    pub fn is_broken(&self) -> bool {
        self.is_kept() && self.broken
    }

    /// Whether the data file existed before and remains afterwards.
    pub(crate) fn is_kept(&self) -> bool {
        !self.place.is_device && self.guard.is_none()
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reduces the region under test to the part that the layout pass wrote.
    pub(crate) fn cut_to(&mut self, size: Bytes) -> Result<()> {
        if !self.place.is_device {
            self.file.set_len(size.get()).map_err(|e| Error::io("truncate", &self.path, e))?;
        }
        self.size = size;
        Ok(())
    }

    /// Reserves the whole file, so that a full disk shows now; a device already has its space.
    pub(crate) fn reserve(&self) -> Result<()> {
        if self.place.is_device {
            return Ok(());
        }
        reserve(&self.file, self.size.get()).map_err(|e| Error::io("reserve room for", &self.path, e))
    }

    /// Another handle on the data file.
    pub(crate) fn reopen(&self, access: FileAccess) -> Result<File> {
        open(&self.path, access)
    }

    /// The append file, made on first use, with room for [`ProbeTarget::journal_bytes`].
    pub(crate) fn journal(&mut self, access: FileAccess) -> Result<(PathBuf, File)> {
        if self.place.is_device {
            let what = "an append needs a file of its own, which a block device has no place for";
            return Err(Error::usage(what).advise("name a directory with --dir"));
        }
        let path = match &self.journal {
            Some((path, _)) => path.clone(),
            None => {
                let path = self.place.path.join(JOURNAL_FILE);
                if check_journal(&path)? {
                    std::fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
                }
                let (_, entry) = self.ledger.create_file(&path)?;
                self.journal = Some((path.clone(), entry.guard()));
                path
            }
        };
        let file = open(&path, access)?;
        file.start_over(self.journal_bytes()).map_err(|e| Error::io("reserve room for", &path, e))?;
        Ok((path, file))
    }

    /// Bytes of the append file.
    pub(crate) fn journal_bytes(&self) -> u64 {
        JOURNAL_BYTES.min(self.size.get())
    }

    /// Ends the work: removes the files, or keeps the data file if `keep` (or if it was kept before).
    pub fn close(mut self, keep: bool) -> Result<()> {
        if let Some((_, guard)) = self.journal.take() {
            guard.undo()?;
        }
        match self.guard.take() {
            Some(guard) if keep => guard.keep(),
            Some(guard) => guard.undo(),
            None => Ok(()),
        }
    }
}

fn open(path: &Path, access: FileAccess) -> Result<File> {
    let mut flags = OFlags::NOATIME;
    flags.set(OFlags::DIRECT, access.direct);
    flags.set(OFlags::DSYNC, access.dsync);
    let mut options = OpenOptions::new();
    options.read(true).write(!access.read_only);
    let with = |flags: OFlags| options.clone().custom_flags(flags.bits() as i32).open(path);
    // Only the owner (or root) may ask for O_NOATIME; without it the reads may update the access time.
    let opened = with(flags).or_else(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => with(flags.difference(OFlags::NOATIME)),
        _ => Err(e),
    });
    opened.map_err(|e| {
        if access.direct && e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) {
            let what = format!("the file system of {} has no direct I/O", path.display());
            return Error::new(Kind::Unsupported, what)
                .with_id("no-direct-io")
                .advise("--buffered measures it through the page cache");
        }
        Error::io("open", path, e)
    })
}

struct DataFile {
    path: PathBuf,
    file: File,
    lock: Option<File>,
    guard: Option<Guard>,
    /// The size of an existing file, in bytes.
    found: Option<u64>,
}

/// Creates the data file, or reuses an existing one of ours.
fn make_or_take(place: &ProbeLocation, direct: bool, ledger: &Ledger) -> Result<DataFile> {
    let path = place.path.join(DATA_FILE);
    let access = FileAccess { direct, dsync: false, read_only: false };
    if let Ok(metadata) = path.symlink_metadata() {
        if !metadata.is_file() {
            return Err(not_ours(&path));
        }
        let held = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        // Locked before it is inspected: another probe may be laying it out.
        lock(&held, &path)?;
        let found = ours(&held, &path)?;
        let file = open(&path, access)?;
        // An empty file may belong to a probe that started at the same moment and gives way: it is ours to remove.
        let guard =
            if metadata.len() == 0 || is_leftover(&path) { Some(adopt(&held, &path, ledger)?) } else { None };
        return Ok(DataFile { path, file, lock: Some(held), guard, found: Some(found) });
    }
    let (held, entry) = ledger.create_file(&path)?;
    let guard = entry.guard();
    if let Err(busy) = lock(&held, &path) {
        // The other probe has adopted it.
        guard.keep()?;
        return Err(busy);
    }
    let file = open(&path, access)?;
    Ok(DataFile { path, file, lock: Some(held), guard: Some(guard), found: None })
}

fn adopt(held: &File, path: &Path, ledger: &Ledger) -> Result<Guard> {
    let metadata = held.metadata().map_err(|e| Error::io("look at", path, e))?;
    let identity = Some(Identity::from_metadata(&metadata));
    Ok(ledger.will_make(Resource::File { path: path.to_owned(), identity })?.guard())
}

fn not_ours(path: &Path) -> Error {
    let what = format!("{} exists and was not made by Fathom", path.display());
    Error::new(Kind::NotOurs, what)
        .with_id("file-not-ours")
        .advise("move it away, or probe another directory")
}

/// Whether the ledger of a killed run lists this file: it is then deleted at the end, unlike a file that a user kept.
fn is_leftover(path: &Path) -> bool {
    let is_this = |thing: &Resource| matches!(thing, Resource::File { path: left, .. } if left == path);
    dead_things().is_ok_and(|found| found.iter().any(|found| is_this(&found.thing)))
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let what = format!("another probe is at work on {}", path.display());
            Err(Error::new(Kind::Busy, what)
                .with_id("probe-running")
                .advise("wait for it, or take another directory"))
        }
        // A file system without locks: two probes there would only disturb each other's figures.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The usable length of a file that has our stamps at its start and end; any other file is not ours.
fn ours(mut file: &File, path: &Path) -> Result<u64> {
    let metadata = file.metadata().map_err(|e| Error::io("look at", path, e))?;
    let mut stamped = |offset: u64| -> bool {
        let mut chunk = [0; CHUNK];
        file.seek(SeekFrom::Start(offset)).is_ok()
            && file.read_exact(&mut chunk).is_ok()
            && read_stamp(&chunk).is_some_and(|stamp| stamp.offset == offset)
    };
    let len = metadata.len() / CHUNK as u64 * CHUNK as u64;
    if metadata.len() == 0 {
        // Killed before its first write: empty, so nothing is lost by reusing it.
        return Ok(0);
    }
    if len == 0 || !stamped(0) {
        return Err(not_ours(path));
    }
    // The end and a few offsets between show whether it was laid out completely; if not, we lay it out again.
    let chunks = len / CHUNK as u64;
    let whole = (1..=16).all(|i| stamped((chunks * i / 16).saturating_sub(1) * CHUNK as u64));
    Ok(if whole { len } else { 0 })
}

/// Whether an append file of a killed run exists; refuses any other object of that name.
fn check_journal(path: &Path) -> Result<bool> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(false) };
    // Only plain files are opened: opening a pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(not_ours(path));
    }
    let mut head = [0; CHUNK];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let blank_or_stamped =
        metadata.len() == 0 || (read.is_ok() && (read_stamp(&head).is_some() || head == [0; CHUNK]));
    if blank_or_stamped { Ok(true) } else { Err(not_ours(path)) }
}

/// The size to test: the requested one, if there is space; otherwise a quarter of the space, between 16 MiB and 2 GiB.
fn decide_size(
    place: &ProbeLocation,
    asked: Option<Bytes>,
    found: Option<u64>,
    journal: bool,
) -> Result<Bytes> {
    let whole_chunks = |bytes: u64| Bytes(bytes / CHUNK as u64 * CHUNK as u64);
    if place.is_device {
        let size = asked.map_or(place.total_bytes, Bytes::get);
        if size > place.total_bytes {
            let what = format!(
                "a size of {} is more than the device has ({})",
                Bytes(size),
                Bytes(place.total_bytes)
            );
            return Err(Error::usage(what).with_id("file-does-not-fit"));
        }
        return Ok(whole_chunks(size));
    }
    // The space of an earlier file of ours counts as free.
    let room = place.free_bytes + found.unwrap_or(0);
    let where_ = place.path.display();
    let beside = |size: Bytes| if journal { JOURNAL_BYTES.min(size.get()) } else { 0 };
    match asked {
        Some(size) if size < MIN_SIZE => {
            let advice = "smaller files fit into any cache and say nothing about a disk";
            Err(Error::usage(format!("a size of {size} is too small; take at least {MIN_SIZE}"))
                .with_id("file-too-small")
                .advise(advice))
        }
        Some(size) if size.get().saturating_add(beside(size)) > room => {
            let and = if journal { " with a journal file next to it" } else { "" };
            let what = format!("a size of {size}{and} does not fit: {where_} has {} free", Bytes(room));
            Err(Error::new(Kind::NoSpace, what)
                .with_id("file-does-not-fit")
                .advise("take a smaller --size or free some room"))
        }
        Some(size) => Ok(whole_chunks(size.get())),
        None => {
            if let Some(found) = found.filter(|found| *found >= MIN_SIZE.get()) {
                return Ok(whole_chunks(found));
            }
            let quarter = room.saturating_sub(SPARE_BYTES) / 4;
            if quarter < MIN_SIZE.get() {
                let what = format!(
                    "{where_} has only {} free, too little to probe without filling it up",
                    Bytes(room)
                );
                let fits = MIN_SIZE.get() + beside(MIN_SIZE) <= room;
                let advice =
                    if fits { "free some room, or insist with --size 16M" } else { "free some room" };
                return Err(Error::new(Kind::NoSpace, what).with_id("file-does-not-fit").advise(advice));
            }
            Ok(whole_chunks(quarter.min(Bytes::gib(2).get()) >> 20 << 20))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest file is advised only if it fits.
    #[test]
    fn advice_on_a_full_disk_can_be_followed() {
        for (free_mib, journal, is_advised) in
            [(0, false, false), (15, false, false), (16, false, true), (31, true, false), (32, true, true)]
        {
            let place = ProbeLocation {
                path: "/data".into(),
                is_device: false,
                file_system: "ext4".to_owned(),
                mount: None,
                holder: None,
                devices: Vec::new(),
                leaves: Vec::new(),
                free_bytes: free_mib << 20,
                total_bytes: 1 << 30,
            };
            let refused = decide_size(&place, None, None, journal).unwrap_err();
            let advice = refused.advice().unwrap_or_default();
            assert!(advice.starts_with("free some room"), "{advice}");
            assert_eq!(advice.contains("--size 16M"), is_advised, "{free_mib} MiB free: {advice}");
            let asked = decide_size(&place, Some(MIN_SIZE), None, journal);
            assert_eq!(asked.is_ok(), is_advised, "{free_mib} MiB free");
        }
    }
}

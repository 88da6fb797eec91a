//! The files under test: made by us, locked, recorded for undoing, and never somebody else's.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::ledger::dead_things;
use fathom_process::{Guard, Identity, Ledger, Thing};
use fathom_units::Bytes;
use rustix::fs::OFlags;

use crate::file::{BlockFile, reserve};
use crate::place::Place;
use crate::stamp::{CHUNK, read_stamp};

/// The name of the data file in the probed directory.
pub const DATA_FILE: &str = "fathom-probe.dat";
/// The name of the append file beside it.
pub const JOURNAL_FILE: &str = "fathom-probe.journal";
/// Bytes after which an append file is begun anew, like WiredTiger's log files in mongod.
pub(crate) const JOURNAL_BYTES: u64 = 100 << 20;
/// The smallest file worth probing.
pub(crate) const SIZE_MIN: Bytes = Bytes::mib(16);
/// Room left alone on the file system, for everybody else.
const SPARE_BYTES: u64 = 64 << 20;

/// How the files are to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Bypass the page cache.
    pub(crate) direct: bool,
    /// O_DSYNC: each write is durable when it returns.
    pub(crate) dsync: bool,
    /// For reading only.
    pub(crate) read_only: bool,
}

/// What the work on a target will need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// It writes; a block device is then opened for that.
    pub writes: bool,
    /// It appends, and wants room for the append file.
    pub journal: bool,
}

/// The data file (or device) under test.
pub struct Target {
    path: PathBuf,
    place: Place,
    ledger: Ledger,
    file: File,
    /// Keeps other probes away for as long as it is open.
    _lock: Option<File>,
    guard: Option<Guard>,
    journal: Option<(PathBuf, Guard)>,
    size: Bytes,
    direct: bool,
    alignment: u64,
    reused: bool,
    broken: bool,
}

impl Target {
    /// Opens or makes the data file in `place`. A file kept from an earlier run is used again when it is at least
    /// `size` long (and trimmed to it in use, not on disk).
    ///
    /// # Errors
    /// Not enough room, no direct I/O, a file of that name that is not ours, another probe at work there.
    pub fn open(
        place: Place,
        size: Option<Bytes>,
        direct: bool,
        needs: Needs,
        ledger: &Ledger,
    ) -> Result<Target> {
        let Made { path, file, lock, guard, found } = if place.is_device {
            let file = open(&place.path, Access { direct, dsync: false, read_only: !needs.writes })?;
            let (path, found) = (place.path.clone(), Some(place.total_bytes));
            Made { path, file, lock: None, guard: None, found }
        } else {
            check_journal(&place.path.join(JOURNAL_FILE))?;
            make_or_take(&place, direct, ledger)?
        };
        let size = decide_size(&place, size, found, needs.journal)?;
        let alignment = if direct { place.alignment(&file) } else { 1 };
        let reused = found.is_some_and(|found| found >= size.get());
        let broken = found == Some(0);
        Ok(Target {
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

    /// Where it is and what is under it.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The data file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes under test.
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

    /// Whether its content was there already (a kept file, a device).
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether a file that was kept is no longer whole, so that it is laid out again.
    pub fn is_broken(&self) -> bool {
        self.is_kept() && self.broken
    }

    /// Whether the data file was there before and stays after.
    pub(crate) fn is_kept(&self) -> bool {
        !self.place.is_device && self.guard.is_none()
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Shrinks what is under test to what the layout pass managed to write.
    pub(crate) fn cut_to(&mut self, size: Bytes) -> Result<()> {
        if !self.place.is_device {
            self.file.set_len(size.get()).map_err(|e| Error::io("truncate", &self.path, e))?;
        }
        self.size = size;
        Ok(())
    }

    /// Reserves the whole file, so that a full disk shows now; a device has its room.
    pub(crate) fn reserve(&self) -> Result<()> {
        if self.place.is_device {
            return Ok(());
        }
        reserve(&self.file, self.size.get()).map_err(|e| Error::io("reserve room for", &self.path, e))
    }

    /// Another handle on the data file.
    pub(crate) fn reopen(&self, access: Access) -> Result<File> {
        open(&self.path, access)
    }

    /// The append file, made on first use, with room for [`Target::journal_bytes`].
    pub(crate) fn journal(&mut self, access: Access) -> Result<(PathBuf, File)> {
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
        file.begin_anew(self.journal_bytes()).map_err(|e| Error::io("reserve room for", &path, e))?;
        Ok((path, file))
    }

    /// Bytes of the append file.
    pub(crate) fn journal_bytes(&self) -> u64 {
        JOURNAL_BYTES.min(self.size.get())
    }

    /// Ends the work: the files go, or the data file stays when `keep` (or when it was kept before).
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

fn open(path: &Path, access: Access) -> Result<File> {
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
                .advise("--buffered measures it through the page cache");
        }
        Error::io("open", path, e)
    })
}

struct Made {
    path: PathBuf,
    file: File,
    lock: Option<File>,
    guard: Option<Guard>,
    /// Bytes that were there.
    found: Option<u64>,
}

/// Makes the data file, or takes one of ours that is there.
fn make_or_take(place: &Place, direct: bool, ledger: &Ledger) -> Result<Made> {
    let path = place.path.join(DATA_FILE);
    let access = Access { direct, dsync: false, read_only: false };
    if let Ok(metadata) = path.symlink_metadata() {
        if !metadata.is_file() {
            return Err(not_ours(&path));
        }
        let held = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        // Locked before it is looked into: another probe may be laying it out.
        lock(&held, &path)?;
        let found = ours(&held, &path)?;
        let file = open(&path, access)?;
        // An empty one may be that of a probe that started at the same moment and gives way: ours to remove.
        let guard =
            if metadata.len() == 0 || is_leftover(&path) { Some(adopt(&held, &path, ledger)?) } else { None };
        return Ok(Made { path, file, lock: Some(held), guard, found: Some(found) });
    }
    let (held, entry) = ledger.create_file(&path)?;
    let guard = entry.guard();
    if let Err(busy) = lock(&held, &path) {
        // The other one has adopted it.
        guard.keep()?;
        return Err(busy);
    }
    let file = open(&path, access)?;
    Ok(Made { path, file, lock: Some(held), guard: Some(guard), found: None })
}

fn adopt(held: &File, path: &Path, ledger: &Ledger) -> Result<Guard> {
    let metadata = held.metadata().map_err(|e| Error::io("look at", path, e))?;
    let identity = Some(Identity::of(&metadata));
    Ok(ledger.will_make(Thing::File { path: path.to_owned(), identity })?.guard())
}

fn not_ours(path: &Path) -> Error {
    let what = format!("{} exists and is not a file of ours", path.display());
    Error::new(Kind::NotOurs, what).advise("move it away, or probe another directory")
}

/// Whether a killed run owes this file: it is then ours to remove at the end, unlike one that somebody kept.
fn is_leftover(path: &Path) -> bool {
    let is_this = |thing: &Thing| matches!(thing, Thing::File { path: left, .. } if left == path);
    dead_things().is_ok_and(|found| found.iter().any(|found| is_this(&found.thing)))
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let what = format!("another probe is at work on {}", path.display());
            Err(Error::new(Kind::Busy, what).advise("wait for it, or take another directory"))
        }
        // A file system without locks: two probes there would only disturb each other's figures.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The usable length of a file that carries our stamps at its start and end; anything else is not ours.
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
        // Killed before its first write: empty, so nothing is lost by taking it.
        return Ok(0);
    }
    if len == 0 || !stamped(0) {
        return Err(not_ours(path));
    }
    // Laid out whole? The end and a few places between tell; if not, it is ours to lay out again.
    let chunks = len / CHUNK as u64;
    let whole = (1..=16).all(|i| stamped((chunks * i / 16).saturating_sub(1) * CHUNK as u64));
    Ok(if whole { len } else { 0 })
}

/// Whether an append file that a killed run left is there; refuses anything else of that name.
fn check_journal(path: &Path) -> Result<bool> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(false) };
    // What is no plain file is not opened: opening a pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(not_ours(path));
    }
    let mut head = [0; CHUNK];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let blank_or_stamped =
        metadata.len() == 0 || (read.is_ok() && (read_stamp(&head).is_some() || head == [0; CHUNK]));
    if blank_or_stamped { Ok(true) } else { Err(not_ours(path)) }
}

/// The size to test: as asked for, if there is room; else a quarter of the room, between 16 MiB and 2 GiB.
fn decide_size(place: &Place, asked: Option<Bytes>, found: Option<u64>, journal: bool) -> Result<Bytes> {
    let whole_chunks = |bytes: u64| Bytes(bytes / CHUNK as u64 * CHUNK as u64);
    if place.is_device {
        let size = asked.map_or(place.total_bytes, Bytes::get);
        if size > place.total_bytes {
            let what = format!(
                "a size of {} is more than the device has ({})",
                Bytes(size),
                Bytes(place.total_bytes)
            );
            return Err(Error::usage(what));
        }
        return Ok(whole_chunks(size));
    }
    // What an earlier file of ours takes counts as room.
    let room = place.free_bytes + found.unwrap_or(0);
    let where_ = place.path.display();
    let beside = |size: Bytes| if journal { JOURNAL_BYTES.min(size.get()) } else { 0 };
    match asked {
        Some(size) if size < SIZE_MIN => {
            let advice = "smaller files fit into any cache and say nothing about a disk";
            Err(Error::usage(format!("a size of {size} is too small; take at least {SIZE_MIN}"))
                .advise(advice))
        }
        Some(size) if size.get().saturating_add(beside(size)) > room => {
            let and = if journal { " with a journal file beside it" } else { "" };
            let what = format!("a size of {size}{and} does not fit: {where_} has {} free", Bytes(room));
            Err(Error::new(Kind::NoSpace, what).advise("take a smaller --size or free some room"))
        }
        Some(size) => Ok(whole_chunks(size.get())),
        None => {
            if let Some(found) = found.filter(|found| *found >= SIZE_MIN.get()) {
                return Ok(whole_chunks(found));
            }
            let quarter = room.saturating_sub(SPARE_BYTES) / 4;
            if quarter < SIZE_MIN.get() {
                let what = format!(
                    "{where_} has only {} free, too little to probe without filling it up",
                    Bytes(room)
                );
                return Err(
                    Error::new(Kind::NoSpace, what).advise("free some room, or insist with --size 16M")
                );
            }
            Ok(whole_chunks(quarter.min(Bytes::gib(2).get()) >> 20 << 20))
        }
    }
}

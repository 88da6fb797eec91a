//! Unpacking, and checking without unpacking: every byte is held for hostile.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};
use tar::{Archive, Entry, EntryType};
use zstd::stream::read::Decoder;

use super::parts::{Summed, is_run_name};
use super::{BundleList, FORMAT, LIST, LIST_BYTES_MAX, refused};
use crate::Run;
use crate::folders::{IMPORTING, is_record};
use crate::writer::{LATENCY, MANIFEST};

/// The most memory that reading may take, as a power of two: what our own level needs, and some.
const WINDOW_LOG_MAX: u32 = 27;
/// Room that must stay free where a bundle is unpacked.
const ROOM_LEFT: u64 = 64 << 20;

/// What was unpacked.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// Where it is.
    pub folder: PathBuf,
    /// The list.
    pub list: BundleList,
}

/// Checks every file of a bundle against its list; writes nothing.
///
/// # Errors
/// When it is not what its list says, or unpacks to more than `bytes_max`.
pub fn check(bundle: &Path, bytes_max: u64) -> Result<BundleList> {
    check_archive(decompressed(bundle)?, bundle, bytes_max)
}

/// As [`check`], of the archive within a bundle; errors call it `bundle`.
///
/// # Errors
/// As [`check`].
pub fn check_archive(archive: impl Read, bundle: &Path, bytes_max: u64) -> Result<BundleList> {
    read(archive, bundle, bytes_max, |_| Ok(()), |_| Ok(io::sink()))
}

fn decompressed(bundle: &Path) -> Result<impl Read> {
    let file = File::open(bundle).map_err(|e| Error::io("open", bundle, e))?;
    let mut decoder = Decoder::new(file).map_err(|e| damaged(bundle, e))?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(|e| damaged(bundle, e))?;
    Ok(decoder)
}

fn damaged(bundle: &Path, error: io::Error) -> Error {
    refused(bundle, "it is not a whole bundle of a run, or was damaged").because(error)
}

/// Unpacks a bundle below `parent` under the name that it says.
///
/// # Errors
/// As [`check`]; and when a folder of that name is there, or there is no room. Nothing is left behind then.
pub fn unpack(bundle: &Path, parent: &Path, bytes_max: u64) -> Result<Unpacked> {
    fs::create_dir_all(parent).map_err(|e| Error::io("create", parent, e))?;
    let aside =
        Aside { folder: parent.join(format!("{IMPORTING}{}", std::process::id())), made: Cell::new(false) };
    let begin = |list: &BundleList| {
        is_free(&parent.join(&list.run))?;
        has_room(parent, list)?;
        let latency = aside.folder.join(LATENCY);
        fs::create_dir(&aside.folder).map_err(|e| Error::io("create", &aside.folder, e))?;
        aside.made.set(true);
        fs::create_dir(&latency).map_err(|e| Error::io("create", &latency, e))
    };
    let create = |name: &str| {
        let path = aside.folder.join(name);
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        made.map_err(|e| Error::io("create", &path, e))
    };
    let list = read(decompressed(bundle)?, bundle, bytes_max, begin, create)?;
    Run::open(&aside.folder).map_err(|e| refused(bundle, "its manifest cannot be read").because(e))?;
    let folder = parent.join(&list.run);
    is_free(&folder)?;
    match renameat_with(CWD, &aside.folder, CWD, &folder, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it; nothing was there just now.
        Err(rustix::io::Errno::INVAL) => fs::rename(&aside.folder, &folder),
        other => other.map_err(io::Error::from),
    }
    .map_err(|e| Error::io("create", &folder, e))?;
    Ok(Unpacked { folder, list })
}

/// What is being unpacked; goes away again, unless it was renamed.
struct Aside {
    folder: PathBuf,
    made: Cell<bool>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.made.get() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn is_free(folder: &Path) -> Result<()> {
    if fs::symlink_metadata(folder).is_err() {
        return Ok(());
    }
    let what = format!("{} is there already", folder.display());
    Err(Error::new(Kind::NotOurs, what).advise("import it below another --runs"))
}

fn has_room(parent: &Path, list: &BundleList) -> Result<()> {
    let about = statvfs(parent).map_err(|e| Error::io("look at", parent, e))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let needed = list.bytes().unwrap_or(u64::MAX).saturating_add(ROOM_LEFT);
    if needed <= free {
        return Ok(());
    }
    let what = format!("the bundle needs {needed} bytes below {}, where {free} are free", parent.display());
    Err(Error::new(Kind::NoSpace, what))
}

/// Reads a bundle once: the list to `begin`, then each file into what `create` gives.
fn read<W: Write>(
    archive: impl Read,
    bundle: &Path,
    bytes_max: u64,
    begin: impl FnOnce(&BundleList) -> Result<()>,
    create: impl Fn(&str) -> Result<W>,
) -> Result<BundleList> {
    let unreadable = |e: io::Error| damaged(bundle, e);
    // Headers and padding come on top of the files, a kilobyte each.
    let mut archive = Archive::new(archive.take(bytes_max.saturating_add(64 << 20)));
    let mut entries = archive.entries().map_err(unreadable)?;
    let first = entries.next().ok_or_else(|| refused(bundle, "it is empty"))?.map_err(unreadable)?;
    let list = list_of(bundle, first, bytes_max)?;
    begin(&list)?;
    for promised in &list.files {
        let entry = entries
            .next()
            .ok_or_else(|| refused(bundle, format!("{} is missing", promised.name)))?
            .map_err(unreadable)?;
        let expected = format!("{}/{}", list.run, promised.name);
        let is_it = is_plain(&entry) && entry.path_bytes() == expected.as_bytes();
        if !is_it || entry.size() != promised.bytes {
            return Err(refused(bundle, format!("an entry is not the promised {}", promised.name)));
        }
        let mut out = create(&promised.name)?;
        let mut through = Summed::new(&mut out);
        let mut entry = entry;
        copy(&mut entry, &mut through, unreadable)?;
        if through.done() != (promised.bytes, promised.sha256.clone()) {
            return Err(refused(bundle, format!("the SHA-256 of {} is another one", promised.name)));
        }
    }
    match entries.next() {
        None => Ok(list),
        Some(_) => Err(refused(bundle, "it holds more than its list says")),
    }
}

/// Copies, and tells a source that is damaged from a place that cannot be written.
fn copy(from: &mut impl Read, to: &mut impl Write, unreadable: impl Fn(io::Error) -> Error) -> Result<()> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        let count = from.read(&mut buffer).map_err(&unreadable)?;
        if count == 0 {
            return Ok(());
        }
        let part = buffer.get(..count).unwrap_or_default();
        to.write_all(part).map_err(|e| Error::io("write", "the unpacked run", e))?;
    }
}

fn is_plain<R: Read>(entry: &Entry<'_, R>) -> bool {
    entry.header().entry_type() == EntryType::Regular
}

fn list_of<R: Read>(bundle: &Path, mut entry: Entry<'_, R>, bytes_max: u64) -> Result<BundleList> {
    if !is_plain(&entry) || entry.path_bytes() != LIST.as_bytes() || entry.size() > LIST_BYTES_MAX {
        return Err(refused(bundle, format!("its first entry is not {LIST}")));
    }
    let mut text = Vec::new();
    let broken = |e: String| refused(bundle, "its list cannot be read").because(e);
    entry.read_to_end(&mut text).map_err(|e| broken(e.to_string()))?;
    let list: BundleList = serde_json::from_slice(&text).map_err(|e| broken(e.to_string()))?;
    if list.format > FORMAT {
        let what = format!("{} was written by a newer version (format {})", bundle.display(), list.format);
        return Err(Error::new(Kind::Unsupported, what).advise("import it with that version"));
    }
    if !is_run_name(&list.run) {
        return Err(refused(bundle, "the name of its run is none that Fathom gives"));
    }
    for (place, file) in list.files.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| list.files.get(before));
        if !is_record(&file.name) || before.is_some_and(|before| before.name >= file.name) {
            let name = file.name.escape_debug();
            return Err(refused(bundle, format!("'{name}' is no file of a run, or out of order")));
        }
    }
    if !list.files.iter().any(|file| file.name == MANIFEST) {
        return Err(refused(bundle, "it holds no manifest.json"));
    }
    match list.bytes() {
        Some(bytes) if bytes <= bytes_max => Ok(list),
        bytes => {
            let bytes = bytes.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string());
            Err(refused(bundle, format!("it unpacks to {bytes} bytes, of {bytes_max} at most"))
                .advise("allow more with --most, if you trust it"))
        }
    }
}

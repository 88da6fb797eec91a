//! Unpacks bundles, or checks them without unpacking; every byte is treated as hostile.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};
use tar::{Archive, Entries, Entry, EntryType};
use zstd::stream::read::Decoder;

use super::{BundleList, FORMAT, LIST, MAX_LIST_BYTES, MAX_NAME_BYTES, is_run_name, refused};
use crate::checksum_stream::ChecksumStream;
use crate::files::MANIFEST;
use crate::folders::{is_record, look};
use crate::staging_folder::StagingFolder;

/// The most memory that reading may take, as a power of two: enough for the level at which bundles are packed, with a margin.
const MAX_WINDOW_LOG: u32 = 27;
/// Space that must stay free on the file system of an unpacked bundle.
const MIN_FREE_BYTES: u64 = 64 << 20;

/// The result of unpacking.
#[derive(Clone, Debug)]
pub struct UnpackResult {
    pub folder: PathBuf,
    pub list: BundleList,
}

/// Checks every file of a bundle against its list; writes nothing.
///
/// # Errors
/// When it does not match its list, or unpacks to more than `bytes_max`.
pub fn check(bundle: &Path, bytes_max: u64) -> Result<BundleList> {
    check_archive(decompressed(opened(bundle)?, bundle)?, bundle, bytes_max)
}

/// Does the same as [`check`] for the archive within a bundle; errors call it `bundle`.
///
/// # Errors
/// As [`check`].
pub fn check_archive(archive: impl Read, bundle: &Path, bytes_max: u64) -> Result<BundleList> {
    read(archive, bundle, bytes_max, |_| Ok(()), |_| Ok(io::sink()))
}

fn opened(bundle: &Path) -> Result<File> {
    File::open(bundle).map_err(|e| Error::io("open", bundle, e))
}

fn decompressed(packed: impl Read, bundle: &Path) -> Result<impl Read> {
    let mut decoder = Decoder::new(packed).map_err(|e| damaged(bundle, e))?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(|e| damaged(bundle, e))?;
    Ok(decoder)
}

fn damaged(bundle: &Path, error: io::Error) -> Error {
    refused(bundle, "it is not a whole bundle of a run, or was damaged").because(error)
}

/// Unpacks a bundle below `parent` under the name in its list.
///
/// # Errors
/// As [`check`]; and when a folder of that name exists, or there is too little space. Nothing is left behind then.
pub fn unpack(bundle: &Path, parent: &Path, bytes_max: u64) -> Result<UnpackResult> {
    unpacked(decompressed(opened(bundle)?, bundle)?, bundle, parent, None, bytes_max)
}

/// Unpacks a bundle from a stream as the folder `folder`, whatever name its list has; errors call it `called`.
///
/// # Errors
/// As [`unpack`]; and when the parent of the folder does not exist.
pub fn unpack_as(packed: impl Read, called: &Path, folder: &Path, bytes_max: u64) -> Result<UnpackResult> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(parent).map_err(|e| Error::io("open", parent, e))?;
    unpacked(decompressed(packed, called)?, called, parent, Some(folder), bytes_max)
}

fn unpacked(
    archive: impl Read,
    bundle: &Path,
    parent: &Path,
    folder: Option<&Path>,
    bytes_max: u64,
) -> Result<UnpackResult> {
    let place = |list: &BundleList| folder.map_or_else(|| parent.join(&list.run), Path::to_owned);
    let aside = StagingFolder::new(parent);
    let begin = |list: &BundleList| {
        is_free(&place(list))?;
        aside.make(parent)?;
        has_room(parent, list)
    };
    let create = |name: &str| aside.create(name);
    let list = read(archive, bundle, bytes_max, begin, create)?;
    // The check that every list of runs makes.
    look(&aside.folder).map_err(|why| refused(bundle, format!("it {why}")))?;
    let folder = place(&list);
    is_free(&folder)?;
    match renameat_with(CWD, &aside.folder, CWD, &folder, RenameFlags::NOREPLACE) {
        // The file system cannot guarantee it; a moment ago there was no such folder.
        Err(rustix::io::Errno::INVAL) => fs::rename(&aside.folder, &folder),
        other => other.map_err(io::Error::from),
    }
    .map_err(|e| Error::io("create", &folder, e))?;
    aside.keep();
    Ok(UnpackResult { folder, list })
}

fn is_free(folder: &Path) -> Result<()> {
    if fs::symlink_metadata(folder).is_err() {
        return Ok(());
    }
    let what = format!("{} already exists", folder.display());
    Err(Error::new(Kind::NotOurs, what).advise("import it below another --runs"))
}

fn has_room(parent: &Path, list: &BundleList) -> Result<()> {
    let about = statvfs(parent).map_err(|e| Error::io("look at", parent, e))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let needed = list.bytes().unwrap_or(u64::MAX).saturating_add(MIN_FREE_BYTES);
    if needed <= free {
        return Ok(());
    }
    let what = format!("the bundle needs {needed} bytes below {}, where {free} are free", parent.display());
    Err(Error::new(Kind::NoSpace, what))
}

/// An entry with its name.
type NamedEntry<'a, R> = (Vec<u8>, Entry<'a, R>);

/// The next entry. A long name is in an entry of its own, which the library would read into memory at any length. The library also accepts
/// values from other such entries that no bundle of Fathom contains.
fn next<'a, R: Read>(entries: &mut Entries<'a, R>, bundle: &Path) -> Result<Option<NamedEntry<'a, R>>> {
    let mut one = || entries.next().transpose().map_err(|e| damaged(bundle, e));
    let Some(mut entry) = one()? else { return Ok(None) };
    if entry.header().entry_type() != EntryType::GNULongName {
        return Ok(Some((entry.path_bytes().into_owned(), entry)));
    }
    if entry.size() > MAX_NAME_BYTES {
        return Err(refused(bundle, format!("a name in it has {} bytes", entry.size())));
    }
    let mut name = Vec::new();
    entry.read_to_end(&mut name).map_err(|e| damaged(bundle, e))?;
    // The name ends with a zero byte.
    name.pop_if(|last| *last == 0);
    let named = one()?.ok_or_else(|| refused(bundle, "a name in it has no entry"))?;
    Ok(Some((name, named)))
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
    let mut entries = archive.entries().map_err(unreadable)?.raw(true);
    let first = next(&mut entries, bundle)?.ok_or_else(|| refused(bundle, "it is empty"))?;
    let list = list_of(bundle, first, bytes_max)?;
    begin(&list)?;
    for promised in &list.files {
        let (name, mut entry) = next(&mut entries, bundle)?
            .ok_or_else(|| refused(bundle, format!("{} is missing", promised.name)))?;
        let expected = format!("{}/{}", list.run, promised.name);
        let is_it = is_plain(&entry) && name == expected.as_bytes();
        if !is_it || entry.size() != promised.bytes {
            return Err(refused(bundle, format!("an entry is not the promised {}", promised.name)));
        }
        let mut out = create(&promised.name)?;
        let mut through = ChecksumStream::new(&mut out);
        copy(&mut entry, &mut through, unreadable)?;
        if through.done() != (promised.bytes, promised.sha256.clone()) {
            return Err(refused(bundle, format!("the SHA-256 of {} is another one", promised.name)));
        }
    }
    if next(&mut entries, bundle)?.is_some() || !is_blank(archive.into_inner()).map_err(unreadable)? {
        return Err(refused(bundle, "it holds more than its list says"));
    }
    Ok(list)
}

/// Whether only the zeros at the end of an archive are left.
fn is_blank(mut rest: impl Read) -> io::Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = rest.read(&mut buffer)?;
        if count == 0 {
            return Ok(true);
        }
        if buffer.iter().take(count).any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
}

/// Copies, and distinguishes a damaged source from a target that cannot be written.
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

fn list_of<R: Read>(
    bundle: &Path,
    (name, mut entry): NamedEntry<'_, R>,
    bytes_max: u64,
) -> Result<BundleList> {
    if !is_plain(&entry) || name != LIST.as_bytes() || entry.size() > MAX_LIST_BYTES {
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
            return Err(refused(bundle, format!("'{name}' is not a file of a run, or not in order")));
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

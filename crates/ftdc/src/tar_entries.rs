//! Finds the last file of each directory in a tar archive: after it, the server that recorded the directory is read whole, and need not be kept until the
//! archive ends.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek};

use flate2::read::MultiGzDecoder;

use crate::stream_path::{HEAD_BYTES, StreamFormat, StreamPath};

/// An archive with more directories is not looked through.
const MAX_DIRECTORIES: usize = 100_000;

/// The numbers of the entries of a tar archive, which may be compressed, that are the last of interest in their directories. The file is at its begin
/// again afterwards.
///
/// # Errors
/// If the file cannot be read from its begin.
pub(crate) fn last_entries(
    file: &mut File,
    at: &StreamPath,
    is_wanted: &dyn Fn(&str) -> bool,
) -> io::Result<HashSet<usize>> {
    let mut head = Vec::new();
    Read::by_ref(file).take(HEAD_BYTES).read_to_end(&mut head)?;
    file.rewind()?;
    let found = match StreamFormat::new(&head) {
        StreamFormat::Tar => last_of(tar::Archive::new(&mut *file).entries_with_seek(), at, is_wanted),
        StreamFormat::Gzip => {
            let contents = MultiGzDecoder::new(&mut *file);
            last_of(tar::Archive::new(contents).entries(), &at.decompressed(), is_wanted)
        }
        StreamFormat::Zstd => match zstd::Decoder::new(&mut *file) {
            Ok(contents) => last_of(tar::Archive::new(contents).entries(), &at.decompressed(), is_wanted),
            Err(_) => HashSet::new(),
        },
        StreamFormat::Zip | StreamFormat::Unread(_) | StreamFormat::Plain => HashSet::new(),
    };
    file.rewind()?;
    Ok(found)
}

/// The same for its entries, up to the first that cannot be read.
fn last_of<R: Read>(
    entries: io::Result<tar::Entries<'_, R>>,
    at: &StreamPath,
    is_wanted: &dyn Fn(&str) -> bool,
) -> HashSet<usize> {
    let mut last: HashMap<String, usize> = HashMap::new();
    let entries = entries.into_iter().flatten();
    for (number, entry) in entries.enumerate() {
        let Ok(entry) = entry else { break };
        let inside = at.inside(&String::from_utf8_lossy(&entry.path_bytes()));
        if is_wanted(&inside.name) {
            last.insert(inside.directory, number);
        }
        if last.len() > MAX_DIRECTORIES {
            return HashSet::new();
        }
    }
    last.into_values().collect()
}

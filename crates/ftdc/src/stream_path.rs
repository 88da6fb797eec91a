//! The path and the format of a stream: a file, an entry of an archive, or standard input.

use std::fmt;
use std::path::Path;

/// The first bytes of a stream that show its format: the mark of a tar archive is at byte 257 of its first block.
pub(crate) const HEAD_BYTES: u64 = 512;

/// The path of a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamPath {
    pub(crate) directory: String,
    pub(crate) name: String,
    /// True if the user named the file itself: then it is read regardless of its name.
    pub(crate) is_named: bool,
    pub(crate) is_in_archive: bool,
}

impl StreamPath {
    pub(crate) fn standard_input() -> StreamPath {
        StreamPath { directory: ".".to_owned(), name: "-".to_owned(), is_named: true, is_in_archive: false }
    }

    pub(crate) fn of_file(path: &Path, is_named: bool) -> StreamPath {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        StreamPath {
            directory: directory.unwrap_or(Path::new(".")).display().to_string(),
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            is_named,
            is_in_archive: false,
        }
    }

    /// A file inside this archive.
    pub(crate) fn inside(&self, entry: &str) -> StreamPath {
        let entry = entry.replace('\\', "/");
        // An archive of absolute paths begins at its root all the same.
        let entry = entry.trim_start_matches("./").trim_start_matches('/');
        let (folder, name) = entry.rsplit_once('/').unwrap_or(("", entry));
        let mut directory = self.to_string();
        if !folder.is_empty() {
            directory = format!("{directory}/{folder}");
        }
        StreamPath { directory, name: name.to_owned(), is_named: false, is_in_archive: true }
    }

    pub(crate) fn decompressed(&self) -> StreamPath {
        let name = match self.name.rsplit_once('.') {
            Some((stem, "gz" | "zst")) => stem.to_owned(),
            Some((stem, "tgz" | "tzst")) => format!("{stem}.tar"),
            _ => self.name.clone(),
        };
        StreamPath { name, ..self.clone() }
    }
}

impl fmt::Display for StreamPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.directory.as_str() {
            "." | "" => write!(f, "{}", self.name),
            directory => write!(f, "{directory}/{}", self.name),
        }
    }
}

/// The format of a stream, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    Gzip,
    Zstd,
    Tar,
    Zip,
    /// A format of this name that is not read.
    Unread(&'static str),
    /// Not compressed and not an archive.
    Plain,
}

/// The marks of formats that are not read. None of them is the length of a document.
const UNREAD: [(&[u8], &str); 5] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x04\x22\x4d\x18", "LZ4"),
];

impl StreamFormat {
    pub(crate) fn new(head: &[u8]) -> StreamFormat {
        match head {
            [0x1f, 0x8b, ..] => StreamFormat::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => StreamFormat::Zstd,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => StreamFormat::Zip,
            _ if head.get(257..262) == Some(b"ustar") => StreamFormat::Tar,
            _ => match UNREAD.iter().find(|(mark, _)| head.starts_with(mark)) {
                Some((_, name)) => StreamFormat::Unread(name),
                None => StreamFormat::Plain,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_an_archive_are_below_it_whatever_their_names_begin_with() {
        let archive = StreamPath::of_file(Path::new("case.tar"), true);
        for (entry, directory) in [
            ("./db1/metrics.interim", "case.tar/db1"),
            ("/var/lib/mongodb/metrics.interim", "case.tar/var/lib/mongodb"),
            ("../../db1/metrics.interim", "case.tar/../../db1"),
            ("C:\\data\\db\\metrics.interim", "case.tar/C:/data/db"),
            ("\\\\host\\share\\metrics.interim", "case.tar/host/share"),
            ("metrics.interim", "case.tar"),
        ] {
            let inside = archive.inside(entry);
            assert_eq!((inside.directory.as_str(), inside.name.as_str()), (directory, "metrics.interim"));
        }
    }
}

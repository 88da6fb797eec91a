//! The log file, whose frames are commits with a checksum, and the flaws that it can have on purpose.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use fathom_engine::KeyKind;

/// A violation of the rules, to test whether the suite detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Reports a write as done, but keeps up to 64 KiB in its buffer.
    ForgetsToFlush,
    /// Gives each change a frame of its own, and writes when a buffer is full rather than when a commit is.
    TearsTransactions,
    /// Writes a commit that waits before earlier ones that do not.
    LetsCommitsOvertake,
}

impl Flaw {
    pub(crate) const ALL: [Flaw; 3] =
        [Flaw::ForgetsToFlush, Flaw::TearsTransactions, Flaw::LetsCommitsOvertake];
}

#[derive(Clone, Debug)]
pub(crate) enum LoggedKey {
    Number(i64),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create(String, KeyKind),
    Drop(String),
    Put(String, LoggedKey, Vec<u8>),
    Remove(String, LoggedKey),
}

/// The file and what has not reached it.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    buffer: Vec<u8>,
    flaw: Option<Flaw>,
}

impl Log {
    /// Opens the log of a folder, and returns the changes up to the first incomplete frame.
    pub(crate) fn open(folder: &Path, flaw: Option<Flaw>) -> (Log, Vec<Change>) {
        let path = folder.join("log");
        let bytes = std::fs::read(&path).unwrap_or_default();
        let (changes, whole) = read_frames(&bytes);
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.set_len(whole as u64).unwrap();
        (Log { file, buffer: Vec::new(), flaw }, changes)
    }

    pub(crate) fn append(&mut self, changes: &[Change], durable: bool) {
        match self.flaw {
            Some(Flaw::TearsTransactions) => {
                for change in changes {
                    self.buffer.extend(frame(std::slice::from_ref(change)));
                    if self.buffer.len() > 2000 {
                        self.write();
                        // Leaves time for a kill in between.
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                }
            }
            Some(Flaw::LetsCommitsOvertake) if durable => {
                self.file.write_all(&frame(changes)).unwrap();
                return;
            }
            _ => self.buffer.extend(frame(changes)),
        }
        if durable {
            self.flush();
        }
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&mut self) {
        if self.flaw != Some(Flaw::ForgetsToFlush) || self.buffer.len() > 65_536 {
            self.write();
        }
    }

    fn write(&mut self) {
        self.file.write_all(&self.buffer).unwrap();
        self.buffer.clear();
    }
}

fn frame(changes: &[Change]) -> Vec<u8> {
    let mut body = Vec::new();
    changes.iter().for_each(|change| write_change(change, &mut body));
    [&(body.len() as u64).to_le_bytes()[..], &checksum(&body).to_le_bytes(), &body].concat()
}

fn read_frames(bytes: &[u8]) -> (Vec<Change>, usize) {
    let (mut changes, mut whole) = (Vec::new(), 0);
    while let Some((length, sum)) = bytes.get(whole..).and_then(|rest| Some((word(rest, 0)?, word(rest, 8)?)))
    {
        let start = whole + 16;
        let Some(mut body) = bytes.get(start..start + length as usize).filter(|body| checksum(body) == sum)
        else {
            break;
        };
        whole = start + body.len();
        while !body.is_empty() {
            changes.push(read_change(&mut body));
        }
    }
    (changes, whole)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().unwrap()))
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(1, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7))
}

fn write_field(field: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(field.len() as u64).to_le_bytes());
    out.extend_from_slice(field);
}

fn read_field<'b>(body: &mut &'b [u8]) -> &'b [u8] {
    let (length, rest) = body.split_at(8);
    let (field, rest) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    *body = rest;
    field
}

fn write_key(key: &LoggedKey, out: &mut Vec<u8>) {
    match key {
        LoggedKey::Number(number) => write_field(&[b"n", &number.to_le_bytes()[..]].concat(), out),
        LoggedKey::Bytes(bytes) => write_field(&[b"b", &bytes[..]].concat(), out),
    }
}

fn read_key(body: &mut &[u8]) -> LoggedKey {
    match read_field(body).split_first().unwrap() {
        (b'n', number) => LoggedKey::Number(i64::from_le_bytes(number.try_into().unwrap())),
        (_, bytes) => LoggedKey::Bytes(bytes.to_vec()),
    }
}

fn write_change(change: &Change, out: &mut Vec<u8>) {
    let (letter, ident) = match change {
        Change::Create(ident, KeyKind::Number) => (b'n', ident),
        Change::Create(ident, KeyKind::Bytes) => (b'b', ident),
        Change::Drop(ident) => (b'd', ident),
        Change::Put(ident, ..) => (b'p', ident),
        Change::Remove(ident, _) => (b'r', ident),
    };
    out.push(letter);
    write_field(ident.as_bytes(), out);
    match change {
        Change::Create(..) | Change::Drop(_) => (),
        Change::Put(_, key, value) => {
            write_key(key, out);
            write_field(value, out);
        }
        Change::Remove(_, key) => write_key(key, out),
    }
}

fn read_change(body: &mut &[u8]) -> Change {
    let (letter, rest) = body.split_first().unwrap();
    *body = rest;
    let ident = String::from_utf8(read_field(body).to_vec()).unwrap();
    match letter {
        b'n' => Change::Create(ident, KeyKind::Number),
        b'b' => Change::Create(ident, KeyKind::Bytes),
        b'd' => Change::Drop(ident),
        b'p' => Change::Put(ident, read_key(body), read_field(body).to_vec()),
        _ => Change::Remove(ident, read_key(body)),
    }
}

//! The records that the child writes and the check of what is left after a kill: keys, values with a checksum,
//! acknowledgement lines, and the comparison with what was acknowledged.

use std::collections::BTreeSet;
use std::path::Path;

use crate::conformance::Subject;
use crate::conformance::fixture::{OwnedKey, all};
use crate::conformance::random::Random;
use crate::{Engine, Kind, Table};

/// How many threads write.
pub(super) const WRITERS: usize = 4;

/// A sequence number for each writer; 0 for none yet.
pub(super) type Writers = [u64; WRITERS];

/// The table with the records, by [`record_key`], and the writers' heads, by [`head_key`].
pub(super) const RECORDS: &str = "crash-records";

/// The table with an entry for each record.
pub(super) const ENTRIES: &str = "crash-entries";

/// The number of its records that each writer keeps. It removes older ones as it adds new ones, so that later rounds do not
/// take longer.
pub(super) const KEPT: Writers = [500, 500, 50, 20];

const SEQUENCE_BITS: u32 = 40;

/// The key of a record, which identifies its writer.
pub(super) fn record_key(writer: usize, sequence: u64) -> i64 {
    (((writer as u64) << SEQUENCE_BITS) | sequence).cast_signed()
}

/// The writer and sequence of a record's key; `None` for a head.
pub(super) fn parse_record_key(key: i64) -> Option<(usize, u64)> {
    let key = u64::try_from(key).ok()?;
    let writer = usize::try_from(key >> SEQUENCE_BITS).ok()?;
    (writer < WRITERS).then_some((writer, key & ((1 << SEQUENCE_BITS) - 1)))
}

/// The key of the row that every commit of a writer overwrites.
pub(super) fn head_key(writer: usize) -> i64 {
    -1 - writer as i64
}

/// The key of a record's index entry, scattered over the table as user keys are.
pub(super) fn entry_key(writer: usize, sequence: u64) -> Vec<u8> {
    let scattered = Random::new(sequence << 3 | writer as u64).next();
    [&scattered.to_be_bytes()[..], &[writer as u8], &sequence.to_be_bytes()].concat()
}

/// The content of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) writer: usize,
    pub(super) sequence: u64,
    /// The commits of each writer before this transaction began.
    pub(super) seen: Writers,
}

impl Content {
    /// The value: the numbers, bytes to fill a size that varies with the sequence, and a checksum.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        for word in [self.writer as u64, self.sequence].iter().chain(&self.seen) {
            value.extend_from_slice(&word.to_le_bytes());
        }
        let mut random = Random::new(self.sequence);
        let size = match self.sequence % 50 {
            49 => random.below(100_000),
            _ => random.below(1500),
        };
        value.extend(random.bytes(size as usize));
        let sum = checksum(&value);
        value.extend_from_slice(&sum.to_le_bytes());
        value
    }

    /// Decodes a value; `None` if it is not intact.
    pub(super) fn decode(value: &[u8]) -> Option<Content> {
        let (body, sum) = value.split_last_chunk()?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut words =
            body.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let (writer, sequence) = (usize::try_from(words.next()?).ok()?, words.next()?);
        let mut seen = [0; WRITERS];
        for one in &mut seen {
            *one = words.next()?;
        }
        Some(Content { writer, sequence, seen })
    }
}

/// FNV-1a (Fowler, Noll and Vo) with 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The line that reports that a writer's commits up to a sequence are durable.
pub(super) fn acknowledgement(writer: usize, sequence: u64) -> String {
    format!("durable {writer} {sequence}\n")
}

/// The writer and sequence of an acknowledgement line; `None` if it is incomplete or another line.
pub(super) fn read_acknowledgement(line: &str) -> Option<(usize, u64)> {
    let (writer, sequence) = line.strip_prefix("durable ")?.strip_suffix('\n')?.split_once(' ')?;
    let writer = writer.parse().ok().filter(|writer| *writer < WRITERS)?;
    Some((writer, sequence.parse().ok()?))
}

type Inspection<T> = Result<T, String>;

/// Opens the folder, checks everything and closes it again. Returns the newest commit found of each writer.
pub(super) fn inspect(subject: &Subject<'_>, folder: &Path, durable: &Writers) -> Inspection<Writers> {
    let engine = (subject.open)(folder).map_err(|error| format!("the engine does not open: {error}"))?;
    let result = look(&*engine, durable);
    let closed = engine.close().map_err(|error| format!("the engine does not close: {error}"));
    result.and_then(|found| closed.map(|()| found))
}

fn look(engine: &dyn Engine, durable: &Writers) -> Inspection<Writers> {
    let (Some(records), Some(entries)) = (open(engine, RECORDS)?, open(engine, ENTRIES)?) else {
        // The child was killed before it had created its tables.
        return if *durable == [0; WRITERS] { Ok(*durable) } else { Err("a table is gone".to_owned()) };
    };
    let session = engine.session().map_err(|error| error.to_string())?;
    let mut heads = [0; WRITERS];
    let mut found = BTreeSet::new();
    let mut contents = Vec::new();
    for (key, value) in all(&*session, &records) {
        let key = key.as_key().number().ok_or("a record whose key is no number")?;
        let content = Content::decode(&value).ok_or_else(|| format!("the value of record {key} is torn"))?;
        match parse_record_key(key) {
            Some(own) if own == (content.writer, content.sequence) => found.insert(own),
            None if key == head_key(content.writer) => {
                heads[content.writer] = content.sequence;
                true
            }
            _ => return Err(format!("record {key} has the value of another: {content:?}")),
        };
        contents.push(content);
    }
    check_heads(&heads, durable)?;
    check_records(&heads, &found)?;
    check_order(&heads, &contents)?;
    let expected: BTreeSet<(OwnedKey, Vec<u8>)> =
        found.iter().map(|(writer, sequence)| entry(*writer, *sequence)).collect();
    let held: BTreeSet<_> = all(&*session, &entries).into_iter().collect();
    if let Some((key, _)) = expected.symmetric_difference(&held).next() {
        return Err(format!("the tables disagree on index entry {key:?}: half a transaction is there"));
    }
    Ok(heads)
}

fn open(engine: &dyn Engine, ident: &str) -> Inspection<Option<Table>> {
    match engine.open_table(ident) {
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(|error| format!("table {ident} does not open: {error}")),
    }
}

fn entry(writer: usize, sequence: u64) -> (OwnedKey, Vec<u8>) {
    (OwnedKey::Bytes(entry_key(writer, sequence)), record_key(writer, sequence).to_le_bytes().to_vec())
}

/// Checks that no acknowledged commit is lost.
fn check_heads(heads: &Writers, durable: &Writers) -> Inspection<()> {
    for (writer, (head, durable)) in heads.iter().zip(durable).enumerate() {
        if head < durable {
            return Err(format!("writer {writer} is at {head}, but {durable} was acknowledged as durable"));
        }
    }
    Ok(())
}

/// Checks that each writer has exactly the records that its newest commit left.
fn check_records(heads: &Writers, found: &BTreeSet<(usize, u64)>) -> Inspection<()> {
    let mut expected = BTreeSet::new();
    for (writer, head) in heads.iter().enumerate() {
        let first = head.saturating_sub(KEPT[writer]) + 1;
        expected.extend((first..=*head).map(|sequence| (writer, sequence)));
    }
    match expected.symmetric_difference(found).next() {
        Some(one) if found.contains(one) => {
            Err(format!("record {one:?} is there and must not be; heads {heads:?}"))
        }
        Some(one) => Err(format!("record {one:?} is not there, but later ones are; heads {heads:?}")),
        None => Ok(()),
    }
}

/// Checks that no commit exists without those that were committed before it began.
fn check_order(heads: &Writers, contents: &[Content]) -> Inspection<()> {
    match contents.iter().find(|content| content.seen.iter().zip(heads).any(|(seen, head)| seen > head)) {
        Some(content) => Err(format!("{content:?} survived, and commits before it did not; heads {heads:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_back_and_torn_ones_do_not() {
        for sequence in 0..120 {
            let content = Content { writer: 2, sequence, seen: [1, 2, 3, sequence] };
            let mut value = content.encode();
            assert_eq!(Content::decode(&value), Some(content));
            let middle = value.len() / 2;
            value[middle] ^= 1;
            assert_eq!(Content::decode(&value), None);
        }
        assert_eq!(Content::decode(b""), None);
    }

    #[test]
    fn keys_and_acknowledgements_come_back() {
        assert_eq!(parse_record_key(record_key(3, 77)), Some((3, 77)));
        assert_eq!(parse_record_key(head_key(3)), None);
        assert_eq!(read_acknowledgement(&acknowledgement(1, 99)), Some((1, 99)));
        assert_eq!(read_acknowledgement("durable 1 9"), None, "a line that the kill cut off");
        assert_eq!(read_acknowledgement("running 1 test\n"), None);
    }
}

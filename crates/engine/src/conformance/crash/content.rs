//! What the child writes and the parent expects: keys, values with a checksum, and lines of acknowledgement.

use crate::conformance::random::Random;

/// How many threads write.
pub(super) const WRITERS: usize = 4;

/// A sequence number for each writer; 0 for none yet.
pub(super) type Writers = [u64; WRITERS];

/// The table with the records, by [`record_key`], and the writers' heads, by [`head_key`].
pub(super) const RECORDS: &str = "crash-records";

/// The table with an entry for each record.
pub(super) const ENTRIES: &str = "crash-entries";

/// How many of its records a writer keeps; it removes older ones as it adds, so that rounds do not grow
/// longer and longer.
pub(super) const KEPT: Writers = [500, 500, 50, 20];

const SEQUENCE_BITS: u32 = 40;

/// The key of a record, which says whose it is.
pub(super) fn record_key(writer: usize, sequence: u64) -> i64 {
    (((writer as u64) << SEQUENCE_BITS) | sequence).cast_signed()
}

/// The writer and sequence of a record's key; none for a head.
pub(super) fn parse_record_key(key: i64) -> Option<(usize, u64)> {
    let key = u64::try_from(key).ok()?;
    let writer = usize::try_from(key >> SEQUENCE_BITS).ok()?;
    (writer < WRITERS).then_some((writer, key & ((1 << SEQUENCE_BITS) - 1)))
}

/// The key of the row that every commit of a writer overwrites.
pub(super) fn head_key(writer: usize) -> i64 {
    -1 - writer as i64
}

/// The key of a record's index entry: scattered over the table, as keys of users are.
pub(super) fn entry_key(writer: usize, sequence: u64) -> Vec<u8> {
    let scattered = Random::new(sequence << 3 | writer as u64).next();
    [&scattered.to_be_bytes()[..], &[writer as u8], &sequence.to_be_bytes()].concat()
}

/// What a value says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) writer: usize,
    pub(super) sequence: u64,
    /// What each writer had committed before this transaction began.
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

    /// What a value says; none if it is not whole.
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

/// The line that says that everything of a writer up to a sequence is durable.
pub(super) fn acknowledgement(writer: usize, sequence: u64) -> String {
    format!("durable {writer} {sequence}\n")
}

/// The writer and sequence of such a line, if it is one and whole.
pub(super) fn read_acknowledgement(line: &str) -> Option<(usize, u64)> {
    let (writer, sequence) = line.strip_prefix("durable ")?.strip_suffix('\n')?.split_once(' ')?;
    let writer = writer.parse().ok().filter(|writer| *writer < WRITERS)?;
    Some((writer, sequence.parse().ok()?))
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

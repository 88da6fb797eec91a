//! The position of an entry in the oplog: its timestamp, and the term of the primary that wrote it.
//!
//! An optime does not identify the history that it belongs to: that takes the log itself.

use std::fmt;

use bson::{Bson, Document, Timestamp, doc};
use fathom_wire::{Code, Failure};

use crate::fields;

/// The term of an optime that refers to no entry (mongodb/mongo:src/mongo/db/repl/optime.h).
pub const NO_TERM: i64 = -1;

/// The position of an entry, ordered first by term, then by timestamp, as in MongoDB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpTime {
    /// The term of the primary that wrote it; -1 for none. Compared first, hence the first field.
    pub term: i64,
    /// MongoDB's timestamp: seconds since 1970 in the upper, an increment in the lower 32 bits.
    pub timestamp: u64,
}

impl OpTime {
    /// No entry at all; sorts before every entry.
    pub const NULL: OpTime = OpTime { term: NO_TERM, timestamp: 0 };

    /// The entry of this timestamp and term.
    pub fn new(timestamp: u64, term: i64) -> OpTime {
        OpTime { term, timestamp }
    }

    /// Whether it refers to no entry.
    pub fn is_null(self) -> bool {
        self.timestamp == 0
    }

    /// Seconds since 1970, from the upper half.
    pub fn seconds(self) -> u32 {
        to_bson(self.timestamp).time
    }

    /// The increment within the second.
    pub fn increment(self) -> u32 {
        to_bson(self.timestamp).increment
    }

    /// The second of the entry as a date: MongoDB 4.0 shows a member's last write this way.
    pub fn date(self) -> bson::DateTime {
        bson::DateTime::from_millis(i64::from(self.seconds()) * 1000)
    }

    /// The document `{ts, t}`.
    pub fn to_document(self) -> Document {
        doc! { "ts": to_bson(self.timestamp), "t": self.term }
    }

    /// Reads `{ts, t}`; fails with TypeMismatch or NoSuchKey.
    pub fn from_document(document: &Document) -> Result<OpTime, Failure> {
        let timestamp = timestamp_in(document, "ts")?.ok_or_else(|| fields::missing("ts"))?;
        let term = fields::integer(document, "t")?.ok_or_else(|| fields::missing("t"))?;
        Ok(OpTime { term, timestamp })
    }

    /// The optime in a field of a document, if the field exists.
    pub fn in_field(document: &Document, name: &str) -> Result<Option<OpTime>, Failure> {
        match fields::document(document, name)? {
            Some(value) => OpTime::from_document(value).map(Some),
            None => Ok(None),
        }
    }

    /// The optime in a required field.
    pub(crate) fn required(document: &Document, name: &str) -> Result<OpTime, Failure> {
        OpTime::in_field(document, name)?.ok_or_else(|| fields::missing(name))
    }
}

impl Default for OpTime {
    fn default() -> Self {
        OpTime::NULL
    }
}

impl fmt::Display for OpTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ ts: Timestamp({}, {}), t: {} }}", self.seconds(), self.increment(), self.term)
    }
}

impl fmt::Debug for OpTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{}|{})", self.term, self.seconds(), self.increment())
    }
}

/// A timestamp as a BSON value.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of a 64-bit number")]
pub fn to_bson(timestamp: u64) -> Timestamp {
    Timestamp { time: (timestamp >> 32) as u32, increment: timestamp as u32 }
}

/// A timestamp as one number.
pub fn from_bson(timestamp: Timestamp) -> u64 {
    u64::from(timestamp.time) << 32 | u64::from(timestamp.increment)
}

/// The timestamp in a field; a date with the same 64 bits counts, as older members sent it.
pub(crate) fn timestamp_in(document: &Document, name: &str) -> Result<Option<u64>, Failure> {
    match document.get(name) {
        None => Ok(None),
        Some(Bson::Timestamp(value)) => Ok(Some(from_bson(*value))),
        Some(Bson::DateTime(value)) => Ok(Some(value.timestamp_millis().cast_unsigned())),
        Some(value) => Err(fields::mismatch(name, "timestamp", value)),
    }
}

/// Fails with ProtocolError if the value is no valid term.
pub(crate) fn check_term(term: i64) -> Result<i64, Failure> {
    if term < NO_TERM {
        return Err(Failure::new(Code::BadValue, format!("term {term} is negative")));
    }
    Ok(term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_term_counts_before_the_timestamp() {
        let old = OpTime::new(900 << 32, 1);
        let new = OpTime::new(100 << 32, 2);
        assert!(old < new);
        assert!(OpTime::NULL < OpTime::new(0, 0) && OpTime::NULL < old);
        assert!(OpTime::new(5 << 32 | 1, 2) < OpTime::new(5 << 32 | 2, 2));
    }

    #[test]
    fn a_document_holds_it_whole() {
        let optime = OpTime::new(1_795_239_307 << 32 | 80, 1);
        let document = optime.to_document();
        assert_eq!(document.get_timestamp("ts").unwrap(), Timestamp { time: 1_795_239_307, increment: 80 });
        assert_eq!(OpTime::from_document(&document).unwrap(), optime);
        assert_eq!((optime.seconds(), optime.increment()), (1_795_239_307, 80));
        assert_eq!(OpTime::from_document(&doc! { "t": 1 }).unwrap_err().code(), Code::NoSuchKey);
        assert_eq!(OpTime::from_document(&doc! { "ts": 1, "t": 1 }).unwrap_err().code(), Code::TypeMismatch);
    }
}

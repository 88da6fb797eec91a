//! Reads the fields of a reply that give an operation's outcome, in one pass.

use bson::{RawArray, RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure};

use crate::measurements::Status;

/// The contents of a reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplyContent<'a> {
    /// Whether the command was carried out.
    pub(crate) ok: bool,
    /// `n`: how many documents were inserted, matched or removed.
    pub(crate) n: i64,
    /// `cursor`, of a `find` or `getMore`.
    pub(crate) cursor: Option<&'a RawDocument>,
    write_errors: Option<&'a RawArray>,
    write_concern_error: Option<&'a RawDocument>,
}

impl<'a> ReplyContent<'a> {
    /// Reads a reply. Malformed BSON ends the pass; a reply without `ok` is not ok.
    pub(crate) fn from_reply(reply: &'a RawDocument) -> ReplyContent<'a> {
        let mut answer = ReplyContent::default();
        for (name, value) in reply.iter().flatten() {
            match (name.as_str(), value) {
                ("ok", value) => answer.ok = number(value) == Some(1),
                ("n", value) => answer.n = number(value).unwrap_or(0),
                ("cursor", RawBsonRef::Document(cursor)) => answer.cursor = Some(cursor),
                ("writeErrors", RawBsonRef::Array(errors)) => answer.write_errors = Some(errors),
                ("writeConcernError", RawBsonRef::Document(error)) => {
                    answer.write_concern_error = Some(error)
                }
                _ => {}
            }
        }
        answer
    }

    /// The number of writes of the command that failed individually.
    pub(crate) fn failed_writes(&self) -> u64 {
        self.write_errors.map_or(0, |errors| errors.into_iter().count() as u64)
    }

    /// Whether the command and all its writes succeeded.
    pub(crate) fn is_clean(&self) -> bool {
        self.ok && self.write_errors.is_none() && self.write_concern_error.is_none()
    }

    /// The error in a reply: of the command, of its first write that failed, or of the write concern.
    #[cold]
    pub(crate) fn failure(&self, reply: &RawDocument) -> Option<Failure> {
        if !self.ok {
            return Some(failure_in(reply));
        }
        let first = self.write_errors.and_then(|errors| errors.into_iter().flatten().next());
        let error = first.and_then(RawBsonRef::as_document).or(self.write_concern_error);
        error.map(failure_in)
    }

    /// The documents of a cursor's batch, and the cursor's number: 0 after the last batch.
    pub(crate) fn batch(&self) -> (Option<&'a RawArray>, i64) {
        let (mut documents, mut id) = (None, 0);
        for (name, value) in self.cursor.into_iter().flat_map(|cursor| cursor.iter().flatten()) {
            match (name.as_str(), value) {
                ("firstBatch" | "nextBatch", RawBsonRef::Array(batch)) => documents = Some(batch),
                ("id", value) => id = number(value).unwrap_or(0),
                _ => {}
            }
        }
        (documents, id)
    }
}

/// The status of a failed operation, in YCSB's words.
pub(crate) fn status_of(failure: &Failure) -> Status {
    match failure.code() {
        Code::Unauthorized => Status::Forbidden,
        _ => Status::Error,
    }
}

fn number(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(i64::from(value)),
        RawBsonRef::Int64(value) => Some(value),
        RawBsonRef::Double(value) if value.fract() == 0.0 => Some(value as i64),
        RawBsonRef::Boolean(value) => Some(i64::from(value)),
        _ => None,
    }
}

fn failure_in(document: &RawDocument) -> Failure {
    let code = document.get("code").ok().flatten().and_then(number).and_then(|code| i32::try_from(code).ok());
    let message = document.get_str("errmsg").unwrap_or("the server gave no reason").to_owned();
    Failure::new(code.map_or(Code::UnknownError, Code), message)
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn replies_say_how_it_went() {
        let found =
            rawdoc! { "cursor": { "firstBatch": [{ "_id": 1 }], "id": 7_i64, "ns": "d.c" }, "ok": 1.0 };
        let answer = ReplyContent::from_reply(&found);
        assert!(answer.is_clean() && answer.failure(&found).is_none());
        let (batch, id) = answer.batch();
        assert_eq!((batch.unwrap().into_iter().count(), id), (1, 7));
        let refused = rawdoc! { "ok": 0.0, "errmsg": "not allowed", "code": 13, "codeName": "Unauthorized" };
        let failure = ReplyContent::from_reply(&refused).failure(&refused).unwrap();
        assert_eq!((failure.message(), status_of(&failure)), ("not allowed", Status::Forbidden));
        let twice =
            rawdoc! { "n": 0, "writeErrors": [{ "index": 0, "code": 11000, "errmsg": "E11000" }], "ok": 1 };
        let answer = ReplyContent::from_reply(&twice);
        assert_eq!((answer.is_clean(), answer.failed_writes()), (false, 1));
        assert_eq!(answer.failure(&twice).unwrap().code(), Code(11000));
        let late = rawdoc! { "n": 1, "writeConcernError": { "code": 64, "errmsg": "waiting" }, "ok": 1 };
        assert_eq!(ReplyContent::from_reply(&late).failure(&late).unwrap().code(), Code(64));
        assert!(!ReplyContent::from_reply(&rawdoc! {}).ok);
    }
}

//! Write concern: of a server that stands alone `w` up to 1 or majority, `j`, `wtimeout`; of a member of a set all of it
//! (server.md, 4.2), which `fathom-replication` reads and judges.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use crate::Result;
use crate::parse;

/// What a write waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteConcern {
    /// Whether the journal must hold it. `w: "majority"` implies it, as `writeConcernMajorityJournalDefault` does.
    pub(crate) journal: bool,
    /// What a member of a set waits for; the set's default if none was given.
    pub(crate) of_set: Option<fathom_replication::WriteConcern>,
}

impl WriteConcern {
    /// Reads it as a member of a set.
    pub(crate) fn parse_for_set(value: RawBsonRef<'_>) -> Result<WriteConcern> {
        let RawBsonRef::Document(document) = value else {
            return Err(parse::wrong_type("writeConcern", value, "object"));
        };
        let of_set = match document.is_empty() {
            true => None,
            false => Some(fathom_replication::WriteConcern::parse(&parse::owned(document)?)?),
        };
        Ok(WriteConcern { journal: false, of_set })
    }

    /// Reads `{w, j, fsync, wtimeout}`.
    pub(crate) fn parse(value: RawBsonRef<'_>) -> Result<WriteConcern> {
        let RawBsonRef::Document(document) = value else {
            return Err(parse::wrong_type("writeConcern", value, "object"));
        };
        let mut concern = WriteConcern::default();
        let mut journal_given = None;
        for element in document {
            let (name, value) = element.map_err(|error| parse::malformed(&error))?;
            match name.as_str() {
                "w" => concern.journal |= check_w(value)?,
                "j" | "journal" => journal_given = Some(parse::truth_of(value)),
                "fsync" => concern.journal |= parse::truth_of(value),
                "wtimeout" | "wtimeoutMS" => {
                    parse::integer_of(value)
                        .ok_or_else(|| Failure::new(Code::FailedToParse, "wtimeout must be a number"))?;
                }
                "provenance" | "getLastError" | "wOpTime" | "wElectionId" => {}
                other => {
                    return Err(Failure::new(
                        Code::FailedToParse,
                        format!("unrecognized write concern field: {other}"),
                    ));
                }
            }
        }
        if let Some(journal) = journal_given {
            concern.journal = journal;
        }
        Ok(concern)
    }
}

/// Whether `w` implies the journal; a number above 1 has nobody to wait for.
fn check_w(value: RawBsonRef<'_>) -> Result<bool> {
    match value {
        RawBsonRef::String("majority") => Ok(true),
        RawBsonRef::String(mode) => Err(Failure::new(
            Code::BadValue,
            format!("cannot use non-majority 'w' mode {mode} when a host is not a member of a replica set"),
        )),
        value => match parse::integer_of(value) {
            Some(0 | 1) => Ok(false),
            Some(2..=50) => {
                Err(Failure::new(Code::BadValue, "cannot use 'w' > 1 when a host is not replicated"))
            }
            Some(_) => Err(Failure::new(
                Code::FailedToParse,
                "w has to be a non-negative number and not greater than 50",
            )),
            None => Err(Failure::new(Code::FailedToParse, "w has to be a number or a string")),
        },
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn parsed(document: RawDocumentBuf) -> Result<WriteConcern> {
        WriteConcern::parse(RawBsonRef::Document(&document))
    }

    #[test]
    fn majority_implies_the_journal_unless_told_otherwise() {
        assert_eq!(parsed(rawdoc! {}).unwrap(), WriteConcern::default());
        assert!(parsed(rawdoc! { "w": "majority" }).unwrap().journal);
        assert!(!parsed(rawdoc! { "w": "majority", "j": false }).unwrap().journal);
        assert!(parsed(rawdoc! { "w": 1, "j": true, "wtimeout": 5 }).unwrap().journal);
    }

    #[test]
    fn what_needs_other_members_is_refused() {
        for (concern, code) in [
            (rawdoc! { "w": 2 }, Code::BadValue),
            (rawdoc! { "w": "dc" }, Code::BadValue),
            (rawdoc! { "w": 51 }, Code::FailedToParse),
            (rawdoc! { "x": 1 }, Code::FailedToParse),
        ] {
            assert_eq!(parsed(concern).unwrap_err().code(), code);
        }
    }
}

//! The last vote of a member, which must survive a restart: two votes in one term could make two primaries.

use bson::{Document, doc};
use fathom_wire::Failure;

use crate::fields;
use crate::optime::{NO_TERM, check_term};

/// The last vote of a member, as `local.replset.election` stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastVote {
    /// The term of the election.
    pub term: i64,
    /// The candidate's index in the configuration at that time; -1 for none.
    pub candidate_index: i64,
}

impl LastVote {
    /// No vote was given yet.
    pub const NONE: LastVote = LastVote { term: NO_TERM, candidate_index: -1 };

    /// The document `{term, candidateIndex}`; the caller adds an `_id`.
    pub fn to_document(self) -> Document {
        doc! { "term": self.term, "candidateIndex": self.candidate_index }
    }

    /// Reads the stored document.
    pub fn from_document(document: &Document) -> Result<LastVote, Failure> {
        let term = fields::integer(document, "term")?.ok_or_else(|| fields::missing("term"))?;
        let candidate_index =
            fields::integer(document, "candidateIndex")?.ok_or_else(|| fields::missing("candidateIndex"))?;
        Ok(LastVote { term: check_term(term)?, candidate_index })
    }
}

//! `onPrimaryTransactionalWrite`: what happens to a retryable write that is done and not yet answered
//! (mongodb/mongo@v4.0:src/mongo/db/session.cpp).
//!
//! Where mongod strikes each statement, this server strikes the command. `failBeforeCommitExceptionCode` is refused: `failCommand` with
//! an `errorCode` fails a write before it is done.

use bson::RawDocument;
use fathom_query::{Code, Failure};

use crate::Result;
use crate::parse;

/// `data` of the fail point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionalWrite {
    pub(super) close_connection: bool,
}

impl TransactionalWrite {
    /// Reads the data; a field that is not known is refused.
    pub(super) fn parse(data: &RawDocument) -> Result<TransactionalWrite> {
        let mut point = TransactionalWrite { close_connection: true };
        for element in data {
            let (name, value) = element.map_err(|error| parse::malformed(&error))?;
            match name.as_str() {
                "closeConnection" => point.close_connection = parse::truth_of(value),
                other => {
                    let what =
                        format!("the data of onPrimaryTransactionalWrite has an unknown field '{other}'");
                    return Err(Failure::new(Code::InvalidOptions, what));
                }
            }
        }
        Ok(point)
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn it_closes_connections_unless_told_otherwise() {
        assert!(TransactionalWrite::parse(&rawdoc! {}).unwrap().close_connection);
        assert!(!TransactionalWrite::parse(&rawdoc! { "closeConnection": false }).unwrap().close_connection);
        let refused = TransactionalWrite::parse(&rawdoc! { "failBeforeCommitExceptionCode": 1 });
        assert_eq!(refused.unwrap_err().code(), Code::InvalidOptions);
    }
}

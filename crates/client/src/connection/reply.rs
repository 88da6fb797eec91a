//! Whether a reply says that the command succeeded, and the failure if not.

use bson::{Bson, RawBsonRef, RawDocument};
use fathom_wire::{Code, Failure};

use crate::{Error, Result};

/// The labels that drivers act on; others stay a field of the failure.
const LABELS: [&str; 6] = [
    "RetryableWriteError",
    "TransientTransactionError",
    "UnknownTransactionCommitResult",
    "ResumableChangeStreamError",
    "NoWritesPerformed",
    "SystemOverloadedError",
];

/// An error if `reply` is not ok.
pub(super) fn check(reply: &RawDocument) -> Result<()> {
    let ok = match reply.get("ok") {
        Ok(Some(RawBsonRef::Double(value))) => value == 1.0,
        Ok(Some(RawBsonRef::Int32(value))) => value == 1,
        Ok(Some(RawBsonRef::Int64(value))) => value == 1,
        Ok(Some(RawBsonRef::Boolean(value))) => value,
        _ => return Err(Error::protocol("its reply has no ok")),
    };
    if ok { Ok(()) } else { Err(Error::Server(failure(reply))) }
}

#[cold]
fn failure(reply: &RawDocument) -> Failure {
    let code = reply.get_i32("code").map_or(Code::UnknownError, Code);
    let message = reply.get_str("errmsg").unwrap_or("the server gave no reason").to_owned();
    let mut failure = Failure::new(code, message);
    for (name, value) in reply.iter().flatten() {
        match (name.as_str(), value) {
            ("ok" | "code" | "errmsg" | "codeName", _) => {}
            ("errorLabels", RawBsonRef::Array(labels)) => {
                let known = |text: &str| LABELS.into_iter().find(|label| *label == text);
                for label in labels.into_iter().flatten().filter_map(|label| known(label.as_str()?)) {
                    failure = failure.labelled(label);
                }
            }
            (name, value) => {
                if let Ok(value) = Bson::try_from(value) {
                    failure = failure.with(name, value);
                }
            }
        }
    }
    failure
}

//! An error in the form in which a MongoDB reply carries it.

use std::borrow::Cow;
use std::fmt;

use bson::Document;
use fathom_errors::{Error, Kind};

use crate::Code;

/// The failure of a command, or of one write of a batch: it becomes `{ok: 0, errmsg, code, codeName}` or a `writeErrors` item.
#[derive(Clone, PartialEq)]
pub struct Failure(Box<FailureBody>);

#[derive(Clone, PartialEq)]
struct FailureBody {
    code: Code,
    message: Cow<'static, str>,
    labels: Vec<&'static str>,
    extra: Document,
}

impl Failure {
    /// A failure with MongoDB's code and a message of one sentence.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Failure(Box::new(FailureBody {
            code,
            message: message.into(),
            labels: Vec::new(),
            extra: Document::new(),
        }))
    }

    /// Adds a top-level field of the reply, such as `keyPattern` or `errInfo`.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<bson::Bson>) -> Self {
        self.0.extra.insert(field, value);
        self
    }

    /// Adds an error label, such as `TransientTransactionError`.
    #[must_use]
    pub fn labelled(mut self, label: &'static str) -> Self {
        self.0.labels.push(label);
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn labels(&self) -> &[&'static str] {
        &self.0.labels
    }

    /// Further fields of the reply.
    pub fn extra(&self) -> &Document {
        &self.0.extra
    }
}

/// Converts a library's error into MongoDB's codes.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::WriteConflict => Code::WriteConflict,
            Kind::Duplicate => Code::DuplicateKey,
            Kind::Stopped => Code::ShutdownInProgress,
            Kind::NoSpace => Code::OutOfDiskSpace,
            Kind::Usage => Code::BadValue,
            Kind::Malformed => Code::FailedToParse,
            Kind::Unsupported => Code::CommandNotSupported,
            _ => Code::InternalError,
        };
        Failure::new(code, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.code, self.0.message)
    }
}

impl std::error::Error for Failure {}

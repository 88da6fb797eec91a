//! The error type of every library crate: the failure, its kind, its cause and its remedy.
//!
//! A user needs one sentence and a remedy, and a script needs an exit code. Both are decided when the error is made, by
//! its [`Kind`]; callers need not parse text. The type is opaque so that a library may extend it without breaking its
//! callers. It carries no backtrace and no debug dump: those belong in a log.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The shorthand every library function returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The family of an error; it decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// The command line or a configuration value is invalid.
    Usage,
    /// A document (JSON, a counters file, a run folder) does not follow its grammar.
    Malformed,
    /// A file, device or program that was named does not exist.
    NotFound,
    /// The operating system refused permission.
    Permission,
    /// The file system is mounted read-only.
    ReadOnly,
    /// No space is left, or not enough for the request.
    NoSpace,
    /// The kernel, the file system or the device does not support the request.
    Unsupported,
    /// A file that Fathom did not make exists at the path to write.
    NotOurs,
    /// Another process holds the resource.
    Busy,
    /// An input/output operation failed.
    Io,
    /// The bytes read back differ from those written.
    Corruption,
    /// Two transactions wrote the same key; roll back and try again.
    WriteConflict,
    /// A key that must be unique already exists.
    Duplicate,
    /// The component was closed, or stopped itself after a failure from which it must not continue.
    Stopped,
    /// The reader of our output has closed it; no message is printed.
    OutputClosed,
}

impl Kind {
    /// The process exit code for this kind: 1 failed operations, 2 usage, 3 environment, 0 for a closed pipe.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::OutputClosed => 0,
            Kind::Io | Kind::Corruption | Kind::WriteConflict | Kind::Duplicate => 1,
            Kind::Usage | Kind::Malformed => 2,
            _ => 3,
        }
    }

    /// The id of a refusal of this kind that has no id of its own. Scripts and docs/exits.md name it, so it never changes.
    pub fn id(self) -> &'static str {
        match self {
            Kind::Usage => "usage",
            Kind::Malformed => "malformed",
            Kind::NotFound => "not-found",
            Kind::Permission => "permission",
            Kind::ReadOnly => "read-only",
            Kind::NoSpace => "no-space",
            Kind::Unsupported => "unsupported",
            Kind::NotOurs => "not-ours",
            Kind::Busy => "busy",
            Kind::Io => "io",
            Kind::Corruption => "corruption",
            Kind::WriteConflict => "write-conflict",
            Kind::Duplicate => "duplicate",
            Kind::Stopped => "stopped",
            Kind::OutputClosed => "output-closed",
        }
    }
}

#[derive(Debug)]
struct ErrorBody {
    kind: Kind,
    id: Option<&'static str>,
    what: String,
    advice: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// An error: the failure, its kind, its cause and its remedy. Displays as one sentence.
pub struct Error(Box<ErrorBody>);

impl Error {
    /// An error of `kind`; `what` names the action and its object, without a full stop.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error(Box::new(ErrorBody { kind, id: None, what: what.into(), advice: None, source: None }))
    }

    /// Shorthand for a [`Kind::Usage`] error.
    pub fn usage(what: impl Into<String>) -> Self {
        Error::new(Kind::Usage, what)
    }

    /// An error for a failed system call on `path`; the kind follows from the error number.
    pub fn io(action: &str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let what = format!("cannot {action} {}", path.as_ref().display());
        Error::new(kind_of(&source), what).because(source)
    }

    /// Adds the remedy for the reader, as a phrase without a full stop.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error with another kind, if the caller knows more than the error number.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Gives the error an id of its own, in lower case with hyphens. It never changes, and docs/exits.md lists it.
    #[must_use]
    pub fn with_id(mut self, id: &'static str) -> Self {
        self.0.id = Some(id);
        self
    }

    /// Gives the error an id unless it has one, for callers that know only the part that failed.
    #[must_use]
    pub fn or_id(self, id: &'static str) -> Self {
        if self.own_id().is_some() { self } else { self.with_id(id) }
    }

    /// The stable id of the error: its own, else that of a cause of the same kind, else that of the kind.
    pub fn id(&self) -> &'static str {
        self.own_id().unwrap_or_else(|| self.0.kind.id())
    }

    fn own_id(&self) -> Option<&'static str> {
        let cause =
            || self.0.source.as_deref()?.downcast_ref::<Error>().filter(|cause| cause.kind() == self.kind());
        self.0.id.or_else(|| cause()?.own_id())
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The failure, without cause and advice.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// The advice of the error, if there is one.
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }
}

/// The kind of an operating system error number.
pub fn kind_of(error: &io::Error) -> Kind {
    use rustix::io::Errno;
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Kind::OutputClosed;
    }
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO) => Kind::NotFound,
        Some(Errno::ACCESS | Errno::PERM) => Kind::Permission,
        Some(Errno::ROFS) => Kind::ReadOnly,
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Kind::NoSpace,
        Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Kind::Unsupported,
        Some(Errno::BUSY | Errno::TXTBSY) => Kind::Busy,
        _ => Kind::Io,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        if let Some(advice) = &self.0.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const KINDS: [Kind; 15] = [
        Kind::Usage,
        Kind::Malformed,
        Kind::NotFound,
        Kind::Permission,
        Kind::ReadOnly,
        Kind::NoSpace,
        Kind::Unsupported,
        Kind::NotOurs,
        Kind::Busy,
        Kind::Io,
        Kind::Corruption,
        Kind::WriteConflict,
        Kind::Duplicate,
        Kind::Stopped,
        Kind::OutputClosed,
    ];

    #[test]
    fn ids_are_unique_words_with_hyphens() {
        let ids: BTreeSet<&str> = KINDS.iter().map(|kind| kind.id()).collect();
        assert_eq!(ids.len(), KINDS.len());
        for id in ids {
            assert!(id.split('-').all(|word| !word.is_empty()), "{id}");
            assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{id}");
        }
    }

    #[test]
    fn an_id_of_its_own_takes_precedence_and_is_not_in_the_sentence() {
        let error = Error::new(Kind::NotFound, "there is no run folder");
        assert_eq!(error.id(), "not-found");
        let error = error.with_id("no-run-folder").with_kind(Kind::Usage);
        assert_eq!((error.id(), error.to_string().as_str()), ("no-run-folder", "there is no run folder"));
        assert_eq!(format!("{error:?}"), "Usage: there is no run folder");
        assert_eq!(error.or_id("other").id(), "no-run-folder");
    }

    #[test]
    fn an_error_takes_the_id_of_a_cause_of_its_kind() {
        let cause = || Error::new(Kind::NotFound, "no program").with_id("no-program");
        assert_eq!(Error::new(Kind::NotFound, "the cell cannot be made").because(cause()).id(), "no-program");
        assert_eq!(Error::usage("the study is refused").because(cause()).id(), "usage");
        assert_eq!(
            Error::usage("the study is refused").because(cause()).or_id("bad-study").id(),
            "bad-study"
        );
    }

    #[test]
    fn display_is_one_sentence_with_cause_and_advice() {
        let error =
            Error::io("create", "/mnt/full/x", io::Error::from_raw_os_error(28)).advise("free some space");
        assert_eq!(
            error.to_string(),
            "cannot create /mnt/full/x: No space left on device (os error 28); free some space"
        );
        assert_eq!(error.kind(), Kind::NoSpace);
        assert_eq!(error.kind().exit_code(), 3);
    }

    #[test]
    fn exit_codes_follow_the_design() {
        assert_eq!(Kind::Usage.exit_code(), 2);
        assert_eq!(Kind::Permission.exit_code(), 3);
        assert_eq!(Kind::Corruption.exit_code(), 1);
        assert_eq!(Kind::OutputClosed.exit_code(), 0);
    }
}

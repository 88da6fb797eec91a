//! One error for every library crate: what failed, which kind, what caused it and what to do about it.
//!
//! A person who meets an error wants one sentence and a way out, and a script wants an exit code. Both are
//! decided where the error is made, by its [`Kind`]; nothing above has to guess from text. The type is opaque so
//! that a library may enrich it without breaking its callers. It refuses to carry a backtrace or a debug dump:
//! those belong in a log.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The shorthand every library function returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which family an error belongs to; it decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// The command line or a configuration value makes no sense.
    Usage,
    /// A document (JSON, a counters file, a run folder) does not follow its grammar.
    Malformed,
    /// A file, device or program that was named does not exist.
    NotFound,
    /// The operating system refused for want of rights.
    Permission,
    /// The file system is mounted read-only.
    ReadOnly,
    /// No room left, or not enough for what was asked.
    NoSpace,
    /// The kernel, the file system or the device cannot do what was asked.
    Unsupported,
    /// Something that we did not make stands where we would write.
    NotOurs,
    /// Somebody else holds the thing.
    Busy,
    /// An input/output operation failed.
    Io,
    /// What was read back is not what was written.
    Corruption,
    /// Two transactions wrote the same key; roll back and try again.
    WriteConflict,
    /// A key that must be unique is there already.
    Duplicate,
    /// The thing was closed, or stopped itself after a failure that it must not go on from.
    Stopped,
    /// Whoever read our output went away; not worth a message.
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
}

#[derive(Debug)]
struct Inner {
    kind: Kind,
    what: String,
    advice: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What failed, of which kind, why, and what to do. Displays as one sentence.
pub struct Error(Box<Inner>);

impl Error {
    /// An error of `kind`; `what` names the action and its object, without a full stop.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, what: what.into(), advice: None, source: None }))
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

    /// Adds what the reader can do about it, as a phrase without a full stop.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(advice.into());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error under another kind, where the caller knows better than the error number.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Which family it belongs to.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What failed, without cause and advice.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// What to do about it, where we know.
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }
}

/// The kind that an operating system error number stands for.
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
    use super::*;

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

//! How a command is sent to shards: to which member, and whether it may be sent twice.

use fathom_client::{ReadMode, ReadPreference};

/// How commands are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    /// Which member is asked.
    pub(crate) preference: ReadPreference,
    /// Whether it does no harm to send them twice.
    pub(crate) idempotent: bool,
    /// Whether the client has numbered them, so that it may send them again itself.
    pub(crate) numbered: bool,
}

impl Sending {
    /// Reads from primaries.
    pub(crate) fn read() -> Sending {
        Sending { preference: ReadMode::Primary.into(), idempotent: true, numbered: false }
    }

    /// Writes.
    pub(crate) fn write() -> Sending {
        Sending { preference: ReadMode::Primary.into(), idempotent: false, numbered: false }
    }
}

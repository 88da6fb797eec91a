//! The TTL monitor: deletes what has expired, once a minute.

use crate::instance::Instance;

/// Runs until the server stops.
pub(crate) fn run(_instance: &Instance) {}

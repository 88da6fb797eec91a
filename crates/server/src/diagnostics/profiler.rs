//! Which operations are slow enough to be logged or kept.

use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use crate::config::Config;

/// The settings of `profile`, changeable at run time.
#[derive(Debug)]
pub(crate) struct Profiler {
    slow_ms: AtomicI64,
    level: AtomicI32,
}

impl Profiler {
    /// As the server is started.
    pub(crate) fn new(config: &Config) -> Profiler {
        Profiler { slow_ms: AtomicI64::new(config.slow_ms), level: AtomicI32::new(config.profile) }
    }

    /// Operations at least this long are slow, in milliseconds.
    pub(crate) fn slow_ms(&self) -> i64 {
        self.slow_ms.load(Ordering::Relaxed)
    }

    /// 0 off, 1 slow operations, 2 all.
    pub(crate) fn level(&self) -> i32 {
        self.level.load(Ordering::Relaxed)
    }
}

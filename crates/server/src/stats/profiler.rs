//! Decides which operations are slow enough to be logged or profiled: `slowms`, `slowOpSampleRate`, and the level of each database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::config::Config;

/// The settings of `profile`, which can change at run time. As in mongod the level is per database, the other settings are server-wide.
#[derive(Debug)]
pub(crate) struct Profiler {
    slow_ms: AtomicI64,
    /// The bits of a double from 0 to 1.
    sample_rate: AtomicU64,
    /// The level of databases without their own.
    usual_level: i32,
    levels: RwLock<BTreeMap<String, i32>>,
    /// Whether any level is above 0: the only setting that a fast operation reads.
    profiling: AtomicBool,
}

/// The treatment of an operation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProfileDecision {
    pub(crate) log: bool,
    pub(crate) profile: bool,
}

impl Profiler {
    /// The settings with which the server is started.
    pub(crate) fn new(config: &Config) -> Profiler {
        Profiler {
            slow_ms: AtomicI64::new(config.slow_ms),
            sample_rate: AtomicU64::new(config.slow_sample_rate.to_bits()),
            usual_level: config.profile,
            levels: RwLock::default(),
            profiling: AtomicBool::new(config.profile > 0),
        }
    }

    /// Operations that take longer are slow, in milliseconds; below 0 all are slow.
    pub(crate) fn slow_ms(&self) -> i64 {
        self.slow_ms.load(Ordering::Relaxed)
    }

    /// Changes the threshold of slow operations.
    pub(crate) fn set_slow_ms(&self, slow_ms: i64) {
        self.slow_ms.store(slow_ms, Ordering::Relaxed);
    }

    /// The share of slow operations that is logged and recorded, 0 to 1.
    pub(crate) fn sample_rate(&self) -> f64 {
        f64::from_bits(self.sample_rate.load(Ordering::Relaxed))
    }

    /// Sets the share of operations that are profiled.
    pub(crate) fn set_sample_rate(&self, share: f64) {
        self.sample_rate.store(share.to_bits(), Ordering::Relaxed);
    }

    /// The level: 0 off, 1 slow operations, 2 all.
    pub(crate) fn level(&self, database: &str) -> i32 {
        self.levels.read().get(database).copied().unwrap_or(self.usual_level)
    }

    /// Sets the level of a database.
    pub(crate) fn set_level(&self, database: &str, level: i32) {
        let mut levels = self.levels.write();
        levels.insert(database.to_owned(), level);
        let profiling = self.usual_level > 0 || levels.values().any(|level| *level > 0);
        self.profiling.store(profiling, Ordering::Relaxed);
    }

    /// Whether [`Profiler::judge`] must be called: false for fast operations while profiling is off.
    pub(crate) fn may_care(&self, micros: u64) -> bool {
        self.is_slow(micros) || self.profiling.load(Ordering::Relaxed)
    }

    /// The treatment of an operation on a database that took `micros`.
    pub(crate) fn judge(&self, database: &str, micros: u64) -> ProfileDecision {
        let log = self.is_slow(micros) && crate::random::fraction() < self.sample_rate();
        let level = self.level(database);
        ProfileDecision { log, profile: level >= 2 || (level == 1 && log) }
    }

    /// Whether an operation of `micros` is slow.
    pub(crate) fn is_slow(&self, micros: u64) -> bool {
        match u64::try_from(self.slow_ms()) {
            Ok(slow_ms) => micros > slow_ms.saturating_mul(1000),
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_of_databases_and_sampling_of_slow_operations() {
        let profiler = Profiler::new(&Config::default());
        assert!(!profiler.may_care(100_000));
        assert!(profiler.may_care(100_001));
        assert_eq!(profiler.judge("a", 100_001), ProfileDecision { log: true, profile: false });
        profiler.set_level("a", 2);
        assert!(profiler.may_care(0));
        assert_eq!(profiler.judge("a", 5), ProfileDecision { log: false, profile: true });
        assert_eq!(profiler.judge("b", 5), ProfileDecision { log: false, profile: false });
        profiler.set_level("a", 1);
        assert_eq!(profiler.judge("a", 5), ProfileDecision { log: false, profile: false });
        profiler.set_slow_ms(-1);
        assert_eq!(profiler.judge("a", 0), ProfileDecision { log: true, profile: true });
        profiler.set_sample_rate(0.0);
        assert_eq!(profiler.judge("a", 0), ProfileDecision { log: false, profile: false });
        profiler.set_level("a", 0);
        profiler.set_slow_ms(0);
        assert!(!profiler.may_care(0));
        let started = Profiler::new(&Config { slow_sample_rate: 0.0, ..Config::default() });
        assert_eq!((started.sample_rate(), started.judge("a", 100_001).log), (0.0, false));
    }
}

//! One fail point: whether it is set, when it strikes, and how often it has.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::mode::Mode;

/// A fail point with the data `T`. Not set at first.
#[derive(Debug)]
pub(super) struct FailPoint<T> {
    is_set: AtomicBool,
    held: Mutex<Option<Held<T>>>,
}

#[derive(Debug)]
struct Held<T> {
    mode: Mode,
    data: T,
    /// How often it struck.
    count: i64,
}

impl<T> Default for FailPoint<T> {
    fn default() -> FailPoint<T> {
        FailPoint { is_set: AtomicBool::new(false), held: Mutex::new(None) }
    }
}

impl<T: Clone> FailPoint<T> {
    /// Sets it, or switches it off; how often it struck before.
    pub(super) fn configure(&self, mode: Mode, data: T) -> i64 {
        let mut held = self.held.lock();
        let count = held.as_ref().map_or(0, |one| one.count);
        self.is_set.store(mode != Mode::Off, Ordering::Relaxed);
        *held = Some(Held { mode, data, count });
        count
    }

    /// Whether it may strike.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Its data, if it strikes what it meets now and what it meets concerns it.
    pub(super) fn strike(&self, concerns: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut held = self.held.lock();
        let point = held.as_mut()?;
        if !concerns(&point.data) || !point.mode.strikes() {
            return None;
        }
        point.count += 1;
        if point.mode == Mode::Off {
            self.is_set.store(false, Ordering::Relaxed);
        }
        Some(point.data.clone())
    }
}

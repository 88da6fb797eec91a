//! A fail point: whether it is set, how often it was triggered, and its mode: never, always, a number of times, after a number of times, or by
//! chance.

use std::sync::atomic::{AtomicBool, Ordering};

use bson::RawBsonRef;
use fathom_query::{Code, Failure};
use parking_lot::Mutex;

use crate::Result;
use crate::parse;

/// The `mode` of `configureFailPoint`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FailPointMode {
    Off,
    Always,
    /// Triggered this number of times, then off.
    Times(u64),
    /// Skipped this number of times, then always triggered.
    Skip(u64),
    /// Triggered with this probability.
    Chance(f64),
}

impl FailPointMode {
    /// Reads `"off"`, `"alwaysOn"`, `{times}`, `{skip}` or `{activationProbability}`.
    pub(super) fn parse(value: RawBsonRef<'_>) -> Result<FailPointMode> {
        let mode = match value {
            RawBsonRef::String("off") => return Ok(FailPointMode::Off),
            RawBsonRef::String("alwaysOn") => return Ok(FailPointMode::Always),
            RawBsonRef::String(other) => {
                return Err(Failure::new(Code::BadValue, format!("unknown mode: {other}")));
            }
            RawBsonRef::Document(mode) => mode,
            other => {
                let what = format!("'mode' must be a string or JSON object, not {}", parse::type_name(other));
                return Err(Failure::new(Code::TypeMismatch, what));
            }
        };
        if parse::field(mode, "times").is_some() {
            return Ok(match count(mode, "times")? {
                0 => FailPointMode::Off,
                times => FailPointMode::Times(times),
            });
        }
        if parse::field(mode, "skip").is_some() {
            return Ok(FailPointMode::Skip(count(mode, "skip")?));
        }
        match parse::field(mode, "activationProbability") {
            Some(RawBsonRef::Double(chance)) if (0.0..=1.0).contains(&chance) => {
                Ok(FailPointMode::Chance(chance))
            }
            Some(other) => match parse::integer_of(other) {
                Some(0) => Ok(FailPointMode::Chance(0.0)),
                Some(1) => Ok(FailPointMode::Chance(1.0)),
                _ => Err(Failure::new(Code::BadValue, "activationProbability must be between 0.0 and 1.0")),
            },
            None => Err(Failure::new(
                Code::BadValue,
                "'mode' must be one of 'off', 'alwaysOn', 'times', 'skip' and 'activationProbability'",
            )),
        }
    }

    /// Whether it is triggered by a command that it affects.
    pub(super) fn strikes(&mut self) -> bool {
        match self {
            FailPointMode::Off => false,
            FailPointMode::Always => true,
            FailPointMode::Times(left) => {
                *left -= 1;
                if *left == 0 {
                    *self = FailPointMode::Off;
                }
                true
            }
            FailPointMode::Skip(0) => true,
            FailPointMode::Skip(left) => {
                *left -= 1;
                false
            }
            FailPointMode::Chance(chance) => crate::random::fraction() < *chance,
        }
    }
}

fn count(mode: &bson::RawDocument, name: &str) -> Result<u64> {
    let number = parse::integer(mode, name)?.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| Failure::new(Code::BadValue, format!("'{name}' option to 'mode' must be positive")))
}

/// A fail point with the data `T`. It is off at first.
#[derive(Debug)]
pub(super) struct FailPoint<T> {
    is_set: AtomicBool,
    held: Mutex<Option<FailPointState<T>>>,
}

#[derive(Debug)]
struct FailPointState<T> {
    mode: FailPointMode,
    data: T,
    /// The number of times it was triggered.
    count: i64,
}

impl<T> Default for FailPoint<T> {
    fn default() -> FailPoint<T> {
        FailPoint { is_set: AtomicBool::new(false), held: Mutex::new(None) }
    }
}

impl<T: Clone> FailPoint<T> {
    /// Sets it, or switches it off; returns how often it was triggered before.
    pub(super) fn configure(&self, mode: FailPointMode, data: T) -> i64 {
        let mut held = self.held.lock();
        let count = held.as_ref().map_or(0, |one| one.count);
        self.is_set.store(mode != FailPointMode::Off, Ordering::Relaxed);
        *held = Some(FailPointState { mode, data, count });
        count
    }

    /// Switches it off, with the data that it has; returns how often it was triggered before.
    pub(super) fn switch_off(&self) -> i64 {
        let mut held = self.held.lock();
        self.is_set.store(false, Ordering::Relaxed);
        held.as_mut().map_or(0, |one| {
            one.mode = FailPointMode::Off;
            one.count
        })
    }

    /// Whether it may be triggered.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Its data, if it is triggered now and `concerns` accepts the data.
    pub(super) fn strike(&self, concerns: impl FnOnce(&T) -> bool) -> Option<T> {
        let mut held = self.held.lock();
        let point = held.as_mut()?;
        if !concerns(&point.data) || !point.mode.strikes() {
            return None;
        }
        point.count += 1;
        if point.mode == FailPointMode::Off {
            self.is_set.store(false, Ordering::Relaxed);
        }
        Some(point.data.clone())
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn strikes(mode: &bson::RawDocument) -> Vec<bool> {
        let mut mode = FailPointMode::parse(RawBsonRef::Document(mode)).unwrap();
        (0..4).map(|_| mode.strikes()).collect()
    }

    #[test]
    fn each_mode_strikes_when_it_should() {
        assert_eq!(strikes(&rawdoc! { "times": 2 }), [true, true, false, false]);
        assert_eq!(strikes(&rawdoc! { "skip": 3 }), [false, false, false, true]);
        assert_eq!(strikes(&rawdoc! { "activationProbability": 0.0 }), [false; 4]);
        assert_eq!(strikes(&rawdoc! { "activationProbability": 1 }), [true; 4]);
        assert_eq!(strikes(&rawdoc! { "times": 0 }), [false; 4]);
        assert!(FailPointMode::parse(RawBsonRef::String("alwaysOn")).unwrap().strikes());
        for bad in [rawdoc! { "times": -1 }, rawdoc! {}, rawdoc! { "activationProbability": 2.5 }] {
            assert!(FailPointMode::parse(RawBsonRef::Document(&bad)).is_err());
        }
        assert!(FailPointMode::parse(RawBsonRef::String("on")).is_err());
        assert!(FailPointMode::parse(RawBsonRef::Int32(1)).is_err());
    }
}

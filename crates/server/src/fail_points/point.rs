//! One fail point: whether it is set, how often it has struck, and when it strikes: never, always, so many times, after so many, or by chance.

use std::sync::atomic::{AtomicBool, Ordering};

use bson::RawBsonRef;
use fathom_query::{Code, Failure};
use parking_lot::Mutex;

use crate::Result;
use crate::parse;

/// `mode` of `configureFailPoint`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Off,
    Always,
    /// So many times, then off.
    Times(u64),
    /// Not the first so many times, then always.
    Skip(u64),
    /// With this probability.
    Chance(f64),
}

impl Mode {
    /// Reads `"off"`, `"alwaysOn"`, `{times}`, `{skip}` or `{activationProbability}`.
    pub(super) fn parse(value: RawBsonRef<'_>) -> Result<Mode> {
        let mode = match value {
            RawBsonRef::String("off") => return Ok(Mode::Off),
            RawBsonRef::String("alwaysOn") => return Ok(Mode::Always),
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
                0 => Mode::Off,
                times => Mode::Times(times),
            });
        }
        if parse::field(mode, "skip").is_some() {
            return Ok(Mode::Skip(count(mode, "skip")?));
        }
        match parse::field(mode, "activationProbability") {
            Some(RawBsonRef::Double(chance)) if (0.0..=1.0).contains(&chance) => Ok(Mode::Chance(chance)),
            Some(other) => match parse::integer_of(other) {
                Some(0) => Ok(Mode::Chance(0.0)),
                Some(1) => Ok(Mode::Chance(1.0)),
                _ => Err(Failure::new(Code::BadValue, "activationProbability must be between 0.0 and 1.0")),
            },
            None => Err(Failure::new(
                Code::BadValue,
                "'mode' must be one of 'off', 'alwaysOn', 'times', 'skip' and 'activationProbability'",
            )),
        }
    }

    /// Whether it strikes now, when a command that it concerns comes.
    pub(super) fn strikes(&mut self) -> bool {
        match self {
            Mode::Off => false,
            Mode::Always => true,
            Mode::Times(left) => {
                *left -= 1;
                if *left == 0 {
                    *self = Mode::Off;
                }
                true
            }
            Mode::Skip(0) => true,
            Mode::Skip(left) => {
                *left -= 1;
                false
            }
            Mode::Chance(chance) => crate::random::fraction() < *chance,
        }
    }
}

fn count(mode: &bson::RawDocument, name: &str) -> Result<u64> {
    let number = parse::integer(mode, name)?.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| Failure::new(Code::BadValue, format!("'{name}' option to 'mode' must be positive")))
}

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

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn strikes(mode: &bson::RawDocument) -> Vec<bool> {
        let mut mode = Mode::parse(RawBsonRef::Document(mode)).unwrap();
        (0..4).map(|_| mode.strikes()).collect()
    }

    #[test]
    fn each_mode_strikes_when_it_should() {
        assert_eq!(strikes(&rawdoc! { "times": 2 }), [true, true, false, false]);
        assert_eq!(strikes(&rawdoc! { "skip": 3 }), [false, false, false, true]);
        assert_eq!(strikes(&rawdoc! { "activationProbability": 0.0 }), [false; 4]);
        assert_eq!(strikes(&rawdoc! { "activationProbability": 1 }), [true; 4]);
        assert_eq!(strikes(&rawdoc! { "times": 0 }), [false; 4]);
        assert!(Mode::parse(RawBsonRef::String("alwaysOn")).unwrap().strikes());
        for bad in [rawdoc! { "times": -1 }, rawdoc! {}, rawdoc! { "activationProbability": 2.5 }] {
            assert!(Mode::parse(RawBsonRef::Document(&bad)).is_err());
        }
        assert!(Mode::parse(RawBsonRef::String("on")).is_err());
        assert!(Mode::parse(RawBsonRef::Int32(1)).is_err());
    }
}

//! Log levels for each part of the server: `logLevel` for all parts, `logComponentVerbosity` for one.
//!
//! Only components that log messages are known; other components of mongod are refused.

use std::sync::atomic::{AtomicI8, Ordering};

use bson::{Bson, Document, doc};
use fathom_query::{Code, Failure};

use crate::Result;

pub const MAX_LEVEL: i8 = 5;
/// The level of the parent component, or the default.
const INHERITED: i8 = -1;

/// The components by their names in `logComponentVerbosity` and in the log; the first is the default for all.
static PARTS: [(&str, &str); 2] = [("", "DEFAULT"), ("storage", "STORAGE")];

/// The level of each part.
#[derive(Debug)]
pub(super) struct LogLevels([AtomicI8; PARTS.len()]);

impl LogLevels {
    pub(super) fn new(level: u8) -> LogLevels {
        let levels = LogLevels(std::array::from_fn(|_| AtomicI8::new(INHERITED)));
        levels.set_default(i8::try_from(level).unwrap_or(MAX_LEVEL));
        levels
    }

    fn set_default(&self, level: i8) {
        if let Some(first) = self.0.first() {
            first.store(level, Ordering::Relaxed);
        }
    }

    /// The default level of all components.
    pub(super) fn default_level(&self) -> i8 {
        self.0.first().map_or(0, |level| level.load(Ordering::Relaxed))
    }

    /// The level of a component, by its name in the log.
    pub(super) fn level(&self, component: &str) -> i8 {
        let place = PARTS.iter().position(|part| part.1 == component).unwrap_or(0);
        match self.0.get(place).map_or(INHERITED, |level| level.load(Ordering::Relaxed)) {
            INHERITED => self.default_level(),
            level => level,
        }
    }

    /// The levels as `getParameter` shows them.
    pub(super) fn document(&self) -> Document {
        let mut all = doc! { "verbosity": i32::from(self.default_level()) };
        for ((name, _), level) in PARTS.iter().zip(&self.0).skip(1) {
            all.insert(*name, doc! { "verbosity": i32::from(level.load(Ordering::Relaxed)) });
        }
        all
    }

    /// Changes the levels that `settings` names, or none if one is invalid.
    pub(super) fn change(&self, settings: &Document) -> Result<()> {
        let mut changes = Vec::new();
        for (name, value) in settings {
            let (part, value) = match (name.as_str(), value) {
                ("verbosity", level) => ("", Some(level)),
                (name, Bson::Document(inner)) => {
                    if let Some(other) = inner.keys().find(|key| *key != "verbosity") {
                        return Err(unknown(&format!("{name}.{other}")));
                    }
                    (name, inner.get("verbosity"))
                }
                (name, level) => (name, Some(level)),
            };
            let Some(place) = PARTS.iter().position(|known| known.0 == part) else {
                return Err(unknown(name));
            };
            let Some(value) = value else { continue };
            let least = if place == 0 { 0 } else { INHERITED };
            changes.push((place, level_of(name, value, least)?));
        }
        for (place, level) in changes {
            if let Some(held) = self.0.get(place) {
                held.store(level, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

fn level_of(name: &str, value: &Bson, least: i8) -> Result<i8> {
    let number = match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast of a whole number")]
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    };
    let level = number.and_then(|number| i8::try_from(number).ok());
    level.filter(|level| (least..=MAX_LEVEL).contains(level)).ok_or_else(|| {
        let what = format!(
            "Expected '{name}' verbosity to be a number from {least} to {MAX_LEVEL}, but found {value}"
        );
        Failure::new(Code::BadValue, what)
    })
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::BadValue, format!("Invalid component name '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_goes_with_all_until_it_is_told_otherwise() {
        let levels = LogLevels::new(1);
        assert_eq!((levels.level("STORAGE"), levels.level("INDEX")), (1, 1));
        levels.change(&doc! { "storage": { "verbosity": 3 }, "verbosity": 2 }).unwrap();
        assert_eq!((levels.level("STORAGE"), levels.level("INDEX")), (3, 2));
        levels.change(&doc! { "storage": -1 }).unwrap();
        assert_eq!(levels.level("STORAGE"), 2);
        for refused in [
            doc! { "geo": 1 },
            doc! { "storage": { "journal": { "verbosity": 1 } } },
            doc! { "verbosity": -1 },
            doc! { "storage": 6 },
        ] {
            assert!(levels.change(&doc! { "verbosity": 0 }).is_ok());
            let mut both = doc! { "verbosity": 4 };
            both.extend(refused.clone());
            assert!(levels.change(&refused).is_err(), "{refused}");
            assert!(levels.change(&both).is_err());
            assert_eq!(levels.default_level(), 0);
        }
    }
}

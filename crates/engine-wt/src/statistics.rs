//! WiredTiger's counters, divided into sections and names as mongod divides them.

use std::ffi::{CStr, c_int};

use fathom_engine::Statistics;
use fathom_engine_wt_sys::{self as sys, WT_NOTFOUND};

use crate::connection::SessionHandle;
use crate::names;

/// All counters of a statistics URI.
pub(crate) fn all(session: &SessionHandle, uri: &CStr, settings: &CStr) -> Result<Statistics, c_int> {
    let mut cursor = session.open_cursor(uri, Some(settings))?;
    let mut statistics = Statistics::default();
    let outcome = loop {
        match cursor.next_statistic() {
            Ok((description, value)) => {
                let (section, name) = divide(&description);
                statistics.push(section, name, saturated(value));
            }
            Err(WT_NOTFOUND) => {
                names::add_old(&mut statistics);
                break Ok(statistics);
            }
            Err(code) => break Err(code),
        }
    };
    cursor.close();
    outcome
}

/// One counter of a statistics URI, by its number in WiredTiger's header.
pub(crate) fn one(session: &SessionHandle, uri: &CStr, settings: &CStr, number: u32) -> Result<u64, c_int> {
    let mut cursor = session.open_cursor(uri, Some(settings))?;
    let value = cursor.search_statistic(number);
    cursor.close();
    value
}

/// WiredTiger's counts for one session: bytes and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionStatistics([u64; SESSION.len()]);

/// Numbers in the library's header, and section and name in mongod's log.
const SESSION: [(u32, &str, &str); 7] = [
    (sys::WT_STAT_SESSION_BYTES_READ, "data", "bytesRead"),
    (sys::WT_STAT_SESSION_READ_TIME, "data", "timeReadingMicros"),
    (sys::WT_STAT_SESSION_BYTES_WRITE, "data", "bytesWritten"),
    (sys::WT_STAT_SESSION_WRITE_TIME, "data", "timeWritingMicros"),
    (sys::WT_STAT_SESSION_LOCK_DHANDLE_WAIT, "timeWaitingMicros", "handleLock"),
    (sys::WT_STAT_SESSION_LOCK_SCHEMA_WAIT, "timeWaitingMicros", "schemaLock"),
    (sys::WT_STAT_SESSION_CACHE_TIME, "timeWaitingMicros", "cache"),
];

/// The counts of a session since it was last reset; zeros if the library has none.
#[cold]
pub(crate) fn of_session(session: &SessionHandle) -> SessionStatistics {
    let mut counted = SessionStatistics::default();
    if let Ok(mut cursor) = session.open_cursor(c"statistics:session", Some(c"statistics=(fast)")) {
        for (place, (number, _, _)) in counted.0.iter_mut().zip(SESSION) {
            *place = cursor.search_statistic(number).unwrap_or(0);
        }
        cursor.close();
    }
    counted
}

impl SessionStatistics {
    pub(crate) fn plus(mut self, other: SessionStatistics) -> SessionStatistics {
        self.0.iter_mut().zip(other.0).for_each(|(one, other)| *one += other);
        self
    }

    /// The counts above zero, under mongod's names.
    pub(crate) fn named(self) -> Statistics {
        let mut statistics = Statistics::default();
        for (value, (_, section, name)) in self.0.into_iter().zip(SESSION) {
            if value > 0 {
                statistics.push(section, name, saturated(value));
            }
        }
        statistics
    }
}

/// Mongod's rule: the section before the first colon, or else before the first space, or else the whole with the name "num".
fn divide(description: &str) -> (&str, &str) {
    let divided = description.split_once(':').or_else(|| description.split_once(' '));
    divided.map_or((description, "num"), |(section, name)| (section, name.trim_start()))
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_divided_as_mongod_does() {
        assert_eq!(divide("cache: bytes currently in the cache"), ("cache", "bytes currently in the cache"));
        assert_eq!(divide("LSM: sleep for: x"), ("LSM", "sleep for: x"));
        assert_eq!(divide("two words"), ("two", "words"));
        assert_eq!(divide("single"), ("single", "num"));
        assert_eq!(saturated(u64::MAX), i64::MAX);
    }
}

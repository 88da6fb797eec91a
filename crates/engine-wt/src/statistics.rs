//! WiredTiger's counters, divided into sections and names as mongod divides them.

use std::ffi::{CStr, c_int};

use fathom_engine::Statistics;
use fathom_engine_wt_sys::WT_NOTFOUND;

use crate::names;
use crate::session_handle::SessionHandle;

/// All counters behind a statistics address.
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

/// One counter behind a statistics address, by its number in the library's header.
pub(crate) fn one(session: &SessionHandle, uri: &CStr, settings: &CStr, number: u32) -> Result<u64, c_int> {
    let mut cursor = session.open_cursor(uri, Some(settings))?;
    let value = cursor.search_statistic(number);
    cursor.close();
    value
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

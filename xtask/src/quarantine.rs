//! The quarantine: tests that were seen to fail on good code, which `make test` repeats until they are mended, for 14 days at most.
//!
//! `cargo xtask quarantine` writes the overrides for cargo-nextest (`--tool-config-file`).

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::value::{Date, Datetime};

/// The path of the list, from the root.
pub(crate) const LIST: &str = "xtask/quarantine.toml";
/// The days that a test may stay.
const MAX_DAYS: i64 = 14;
/// The attempts after the first.
const MAX_RETRIES: u32 = 2;

/// The tests that are in quarantine now.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quarantine {
    #[serde(default, rename = "test")]
    pub(crate) tests: Vec<QuarantinedTest>,
}

/// One entry of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuarantinedTest {
    /// A filter expression of cargo-nextest.
    pub(crate) filter: String,
    /// The day on which it was seen to fail.
    since: Datetime,
    /// The cause, as far as known.
    pub(crate) reason: String,
}

impl Quarantine {
    pub(crate) fn parse(text: &str) -> Result<Quarantine> {
        toml::from_str(text).with_context(|| format!("cannot understand {LIST}"))
    }

    /// The configuration of cargo-nextest that repeats these tests.
    fn config(&self) -> String {
        let overrides = self.tests.iter().map(|test| {
            let filter = toml::Value::String(test.filter.clone());
            format!("[[profile.default.overrides]]\nfilter = {filter}\nretries = {MAX_RETRIES}\n\n")
        });
        overrides.collect()
    }
}

impl QuarantinedTest {
    /// Whether the test has stayed too long on `day`, written `2026-11-28`.
    ///
    /// # Errors
    /// If either is not a day.
    pub(crate) fn is_overdue(&self, day: &str) -> Result<bool> {
        let now: Datetime = day.parse().with_context(|| format!("'{day}' is no day"))?;
        let (Some(now), Some(since)) = (now.date, self.since.date) else {
            bail!("the entry {} has a time and no day", self.filter);
        };
        Ok(day_number(now) - day_number(since) > MAX_DAYS)
    }
}

/// The days since 1 March of the year 0 in the Gregorian calendar.
fn day_number(date: Date) -> i64 {
    // A year begins in March, so that the leap day is its last.
    let (year, month, day) = (i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1
}

/// Writes the configuration to standard output.
pub fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    if let Some(word) = arguments.first() {
        bail!("quarantine takes no argument, but got '{word}'");
    }
    let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    io::stdout().write_all(Quarantine::parse(&text)?.config().as_bytes())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[test]]\nfilter = 'test(\"a\")'\nsince = 2028-02-20\nreason = \"a rate\"\n";

    #[test]
    fn a_test_stays_for_14_days_also_over_a_leap_day() {
        let list = Quarantine::parse(TEXT).unwrap();
        let is_overdue = |day| list.tests[0].is_overdue(day).unwrap();
        assert!(!is_overdue("2028-02-20") && !is_overdue("2028-03-05") && is_overdue("2028-03-06"));
        assert!(list.tests[0].is_overdue("yesterday").is_err());
    }

    #[test]
    fn its_configuration_is_one_of_nextest() {
        let config: toml::Table = Quarantine::parse(TEXT).unwrap().config().parse().unwrap();
        let one = &config["profile"]["default"]["overrides"][0];
        assert_eq!((one["filter"].as_str(), one["retries"].as_integer()), (Some("test(\"a\")"), Some(2)));
        assert_eq!(Quarantine::default().config(), "");
        assert!(Quarantine::parse("[[test]]\nfilter = 'a'\n").is_err());
    }
}

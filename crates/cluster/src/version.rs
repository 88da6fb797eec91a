//! Determines the version of a server binary from its `--version` output.
//!
//! A binary that prints no version is refused: a guessed version would choose the wrong options.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version of MongoDB; release candidates count as their release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
}

impl Version {
    /// A release, such as 4.2; every patch of it compares as at least this.
    pub const fn release(major: u16, minor: u16) -> Version {
        Version { major, minor, patch: 0 }
    }

    /// Finds `db version v4.0.3` or `mongos version v8.0.0-rc1` anywhere in the output.
    pub fn find(output: &str) -> Option<Version> {
        let lines = output.lines().filter(|line| line.contains("version"));
        lines.flat_map(str::split_ascii_whitespace).find_map(Version::parse)
    }

    /// `v4.0.3`, `4.0.3`, `4.2.0-rc1`, `4.4.29-28` (Percona's).
    fn parse(word: &str) -> Option<Version> {
        let word = word.trim_start_matches('v').trim_end_matches(',');
        let mut numbers = word.split(['.', '-']).map(str::parse::<u16>);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // Versions such as `4.2-rc0` have no third number.
        let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
        Some(Version { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_print() {
        for (output, expected) in [
            ("db version v4.0.3\ngit version: 7ea530946fa7880364d88c8d8b6026bbc9ffa48c\n", "4.0.3"),
            ("mongos version v4.2.24\nBuild Info: {\n    \"version\": \"4.2.24\"\n", "4.2.24"),
            ("db version v8.0.0-rc1\n", "8.0.0"),
            ("db version v4.4.29-28\nBuild Info: {\n", "4.4.29"),
            ("2026-11-22 warning: something\ndb version v6.0.9\n", "6.0.9"),
            ("db version v4.4.29\nfathom 0.1.0\n", "4.4.29"),
        ] {
            assert_eq!(Version::find(output).map(|version| version.to_string()).as_deref(), Some(expected));
        }
        for output in ["", "command not found", "git version: 7ea530946fa7", "version unknown"] {
            assert_eq!(Version::find(output), None, "{output}");
        }
        assert!(Version::find("db version v4.10.0") > Some(Version::release(4, 4)));
    }
}

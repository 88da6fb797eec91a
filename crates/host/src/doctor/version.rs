//! Versions of MongoDB, and the ranges of versions that a rule holds for.
//!
//! The vendor's advice reverses between releases (transparent huge pages: never up to 7.0, always from 8.0), so a rule
//! without a range would be wrong for some version. Ranges are data, shown on the page of rules; a range is closed at
//! its start and open at its end.

use std::fmt;
use std::str::FromStr;

use fathom_errors::Error;

/// A version as three numbers that compare in order.
pub type Triple = (u32, u32, u32);

/// A version of MongoDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MongoVersion(pub Triple);

impl MongoVersion {
    /// The version that is assumed if none is known: the current long-term release line.
    pub const CURRENT: MongoVersion = MongoVersion((8, 0, 0));

    /// The newest release whose advice the rules were compared with.
    pub const NEWEST_KNOWN: MongoVersion = MongoVersion((8, 3, 0));

    /// Whether a release series is newer than [`MongoVersion::NEWEST_KNOWN`].
    pub fn is_newer_than_known(self) -> bool {
        let (major, minor, _) = self.0;
        (major, minor) > (Self::NEWEST_KNOWN.0.0, Self::NEWEST_KNOWN.0.1)
    }

    /// The first version inside `text` (`/opt/mongodb-7.0.12/bin/mongod`), three numbers with dots between.
    pub fn within(text: &str) -> Option<Self> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.')
            .map(|word| word.trim_matches('.'))
            .filter(|word| word.split('.').count() == 3)
            .find_map(|word| word.parse().ok())
    }
}

impl FromStr for MongoVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || {
            Error::usage(format!("'{text}' is not a version of MongoDB"))
                .advise("write it as 8.0 or 7.0.12; releases from 2.0 are known")
        };
        let release = text.trim().trim_start_matches('v');
        let release = release.split_once(['-', '+', '~']).map_or(release, |(release, _)| release);
        let numbers: Vec<u32> =
            release.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| refuse())?;
        match numbers.as_slice() {
            [major @ 2..=99] => Ok(MongoVersion((*major, 0, 0))),
            [major @ 2..=99, minor] => Ok(MongoVersion((*major, *minor, 0))),
            [major @ 2..=99, minor, patch] => Ok(MongoVersion((*major, *minor, *patch))),
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for MongoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(self.0))
    }
}

/// The versions from one (included) until another (excluded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The first version of the range, if it is bounded.
    pub from: Option<Triple>,
    /// The first version after the range, if it is bounded.
    pub until: Option<Triple>,
}

impl Versions {
    pub const ALL: Versions = Versions { from: None, until: None };

    /// `first` and everything later.
    pub const fn since(first: Triple) -> Self {
        Versions { from: Some(first), until: None }
    }

    /// Every version before `end`, which is excluded.
    pub const fn before(end: Triple) -> Self {
        Versions { from: None, until: Some(end) }
    }

    /// `first` and everything later, but before `end`.
    pub const fn between(first: Triple, end: Triple) -> Self {
        Versions { from: Some(first), until: Some(end) }
    }

    pub fn contains(&self, version: Triple) -> bool {
        self.from.is_none_or(|from| version >= from) && self.until.is_none_or(|until| version < until)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.until) {
            (None, None) => f.write_str("all"),
            (Some(from), None) => write!(f, "{} and later", short(from)),
            (None, Some(until)) => write!(f, "before {}", short(until)),
            (Some(from), Some(until)) => write!(f, "{} to before {}", short(from), short(until)),
        }
    }
}

fn short((major, minor, patch): Triple) -> String {
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_the_forms_people_write() {
        assert_eq!("8".parse::<MongoVersion>().unwrap().0, (8, 0, 0));
        assert_eq!("v7.0.12".parse::<MongoVersion>().unwrap().to_string(), "7.0.12");
        assert_eq!("8.2.0-rc1".parse::<MongoVersion>().unwrap().to_string(), "8.2");
        for bad in ["", "eight", "0.1", "7.", "7.0.1.2", "-1", "99999999999.0"] {
            assert!(bad.parse::<MongoVersion>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_release_after_the_newest_known_is_newer() {
        let is_newer = |text: &str| text.parse::<MongoVersion>().unwrap().is_newer_than_known();
        let (known, newer) = (["4.4", "8.0", "8.3", "8.3.9"], ["8.4", "9.0", "99"]);
        assert!(!known.into_iter().any(is_newer) && newer.into_iter().all(is_newer));
    }

    #[test]
    fn a_version_is_found_inside_a_path() {
        assert_eq!(
            MongoVersion::within("/opt/mongodb-linux-x86_64-rhel80-7.0.5/bin/mongod"),
            Some(MongoVersion((7, 0, 5)))
        );
        assert_eq!(MongoVersion::within("/usr/bin/mongod"), None);
    }

    #[test]
    fn ranges_are_open_at_their_end() {
        let range = Versions::between((6, 19, 0), (7, 0, 14));
        assert!(range.contains((6, 19, 0)) && range.contains((7, 0, 13)) && !range.contains((7, 0, 14)));
        assert_eq!(range.to_string(), "6.19 to before 7.0.14");
        assert!(Versions::ALL.contains((3, 10, 0)));
    }
}

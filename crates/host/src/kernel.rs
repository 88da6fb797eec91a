//! The kernel's version, and its consequences for the counters.
//!
//! A distributor's suffix (`-1160.el7`, `-fc-v595`) is kept for display and does not affect the order: distributors
//! backport fixes, so facts that depend on a version are stated with the version range, never as a certainty.

use std::cmp::Ordering;
use std::fmt;

use crate::View;

/// `6.18.44-fc-v595`, ordered by its three numbers.
#[derive(Clone, Debug)]
pub struct KernelVersion {
    /// The 6 of 6.18.
    pub major: u32,
    /// The 18 of 6.18.
    pub minor: u32,
    /// 44; 0 where the text has none.
    pub patch: u32,
    /// The whole text, as `uname -r` prints it.
    pub text: String,
}

impl KernelVersion {
    /// A version without a suffix, to compare with.
    pub fn new(major: u32, minor: u32, patch: u32) -> Self {
        KernelVersion { major, minor, patch, text: format!("{major}.{minor}.{patch}") }
    }

    /// Parses the output of `uname -r`; `None` if it does not begin with two numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (major, rest) = leading_number(text)?;
        let (minor, rest) = leading_number(rest.strip_prefix('.')?)?;
        let patch = rest.strip_prefix('.').and_then(leading_number).map_or(0, |(patch, _)| patch);
        Some(KernelVersion { major, minor, patch, text: text.to_owned() })
    }

    /// Returns whether this kernel is at least `major.minor`.
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    fn numbers(&self) -> (u32, u32, u32) {
        (self.major, self.minor, self.patch)
    }
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

impl PartialEq for KernelVersion {
    fn eq(&self, other: &Self) -> bool {
        self.numbers() == other.numbers()
    }
}

impl Eq for KernelVersion {}

impl PartialOrd for KernelVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KernelVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers())
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kernel of a machine; `None` if it cannot be read.
pub fn read(view: &View) -> Option<KernelVersion> {
    KernelVersion::parse(&view.value("proc/sys/kernel/osrelease")?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn real_versions_parse_and_order() {
        let parse = |text| KernelVersion::parse(text).unwrap();
        assert_eq!(parse("6.18.44-fc-v595\n").numbers(), (6, 18, 44));
        assert_eq!(parse("3.10.0-1160.el7.x86_64").numbers(), (3, 10, 0));
        assert_eq!(parse("6.1-rc3").numbers(), (6, 1, 0));
        assert_eq!(parse("5.15.0-1023-aws").to_string(), "5.15.0-1023-aws");
        assert!(parse("6.9.12") < parse("6.10.0-rc1"));
        assert!(parse("4.18.0-553.el8_10.x86_64").at_least(4, 18));
        assert!(!parse("4.18.0").at_least(5, 0));
        for text in ["", "linux", "6", "6.", ".1", "99999999999.1"] {
            assert!(KernelVersion::parse(text).is_none(), "{text}");
        }
        assert!(read(&View::live()).is_some());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}") {
            KernelVersion::parse(&text);
        }

        #[test]
        fn what_was_printed_is_parsed(major in 0u32..99, minor in 0u32..99, patch in 0u32..999, suffix in "(-[a-z0-9.]{0,20})?") {
            let version = KernelVersion::parse(&format!("{major}.{minor}.{patch}{suffix}")).unwrap();
            prop_assert_eq!(version, KernelVersion::new(major, minor, patch));
        }
    }
}

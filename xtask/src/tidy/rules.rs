//! The rules that are in files rather than in code: `xtask/floors.toml` and `xtask/ratchet.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The contents of `xtask/floors.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Floors {
    /// Package name to floor, 0 at the bottom.
    pub(super) floors: BTreeMap<String, u8>,
    /// Packages outside the floors, with their purpose: no product package may need them to run.
    #[serde(default)]
    pub(super) beside: BTreeMap<String, String>,
    /// Imports within one floor that are wanted.
    #[serde(default)]
    pub(super) sideways: Vec<SidewaysEdge>,
    /// Packages that may import only up to a floor lower than their own would allow.
    #[serde(default)]
    pub(super) ceiling: Vec<Ceiling>,
    /// Files that may hold unsafe code, with the reason.
    #[serde(default)]
    pub(super) unsafe_code: BTreeMap<String, String>,
    /// Files with tests that sleep once, with the reason why their outcome does not depend on the machine's speed.
    #[serde(default)]
    pub(super) sleeping_tests: BTreeMap<String, String>,
    /// Files with tests on a real disk, network, guest or browser, with the reason why their outcome does not depend on the machine's
    /// speed.
    #[serde(default)]
    pub(super) real_machine_tests: BTreeMap<String, String>,
    /// The layers of the modules of a package, the lowest first.
    #[serde(default)]
    pub(super) modules: BTreeMap<String, Vec<Vec<String>>>,
    /// Packages that may use a dependency, for the few restricted dependencies.
    #[serde(default)]
    pub(super) reserved: BTreeMap<String, Vec<String>>,
}

/// An allowed import between two packages of one floor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SidewaysEdge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) reason: String,
}

/// The highest floor that a package may import.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ceiling {
    pub(super) package: String,
    pub(super) floor: u8,
    pub(super) reason: String,
}

/// `xtask/ratchet.toml`: today's exceptions, which may shrink but not grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ratchet {
    /// `path::Type::function` to its length in lines.
    #[serde(default)]
    pub(super) functions: BTreeMap<String, usize>,
    /// Packages with the sizes of their circles of files, the largest first.
    #[serde(default)]
    pub(super) circles: BTreeMap<String, Vec<usize>>,
    /// The idioms of a private dialect.
    #[serde(default)]
    pub(super) idioms: IdiomLimits,
}

/// The most idioms in all comments, and in all pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdiomLimits {
    #[serde(default)]
    pub(super) comments: usize,
    #[serde(default)]
    pub(super) pages: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_rule_is_refused() {
        assert!(toml::from_str::<Floors>("[floors]\na = 0\n[sidewards]\n").is_err());
        assert!(toml::from_str::<Ratchet>("[function]\n").is_err());
        assert!(toml::from_str::<Ratchet>("").is_ok());
    }
}

//! Chooses the member of a replica set to read from (mongodb/specifications:source/server-selection/server-selection.md).
//!
//! `maxStalenessSeconds` is refused: this crate does not track the lag of members.

use std::str::FromStr;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};

use super::description::{DeploymentServer, Role};
use crate::Target;

/// Members within this time of the nearest count as equally near (`localThresholdMS`; the drivers' default).
const MAX_LATENCY_ABOVE_NEAREST: Duration = Duration::from_millis(15);

/// The roles that qualify for reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    #[default]
    Primary,
    /// A secondary only if there is no primary.
    PrimaryPreferred,
    Secondary,
    /// The primary only if there is no secondary.
    SecondaryPreferred,
    /// The member with the shortest round trip.
    Nearest,
}

impl ReadMode {
    /// Every mode, for parsing and help.
    pub const ALL: [ReadMode; 5] = [
        ReadMode::Primary,
        ReadMode::PrimaryPreferred,
        ReadMode::Secondary,
        ReadMode::SecondaryPreferred,
        ReadMode::Nearest,
    ];

    /// The name in connection strings and commands.
    pub fn name(self) -> &'static str {
        match self {
            ReadMode::Primary => "primary",
            ReadMode::PrimaryPreferred => "primaryPreferred",
            ReadMode::Secondary => "secondary",
            ReadMode::SecondaryPreferred => "secondaryPreferred",
            ReadMode::Nearest => "nearest",
        }
    }
}

impl FromStr for ReadMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<ReadMode> {
        ReadMode::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let names = ReadMode::ALL.map(ReadMode::name).join(", ");
            Error::usage(format!("'{text}' is not a read preference")).advise(format!("use one of {names}"))
        })
    }
}

/// The rule for choosing a member to read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPreference {
    /// The roles that qualify.
    pub mode: ReadMode,
    /// The tags that secondaries must have: the first of these sets that any member matches completely. Without sets, any member.
    pub tag_sets: Vec<Vec<(String, String)>>,
    /// The additional round-trip time that a member may have over the nearest.
    pub local_threshold: Duration,
}

impl From<ReadMode> for ReadPreference {
    fn from(mode: ReadMode) -> Self {
        ReadPreference { mode, tag_sets: Vec::new(), local_threshold: MAX_LATENCY_ABOVE_NEAREST }
    }
}

impl ReadPreference {
    /// Reads `readPreference`, `readPreferenceTags` and `localThresholdMS` of a connection string.
    pub fn new(target: &Target) -> Result<ReadPreference> {
        let mode = target
            .other_option("readPreference")
            .map(str::parse::<ReadMode>)
            .transpose()?
            .unwrap_or_default();
        let mut preference = ReadPreference::from(mode);
        let all = target.other_options.iter();
        for (_, tags) in all.filter(|(name, _)| name.eq_ignore_ascii_case("readPreferenceTags")) {
            preference.tag_sets.push(tag_set(tags)?);
        }
        if mode == ReadMode::Primary && !preference.tag_sets.is_empty() {
            return Err(Error::usage("readPreferenceTags cannot be used with the read preference primary"));
        }
        // -1 means none in the drivers.
        if target.other_option("maxStalenessSeconds").is_some_and(|seconds| seconds != "-1") {
            return Err(Error::new(Kind::Unsupported, "maxStalenessSeconds is not supported"));
        }
        if let Some(threshold) = target.other_option("localThresholdMS") {
            let number = threshold.parse().map_err(|_| {
                Error::usage("localThresholdMS in the connection string is not a number of milliseconds")
            })?;
            preference.local_threshold = Duration::from_millis(number);
        }
        Ok(preference)
    }

    /// The qualifying `members`, the nearest first.
    pub(super) fn choose<'m>(&self, members: &'m [DeploymentServer]) -> Vec<&'m DeploymentServer> {
        let primary = || members.iter().filter(|member| member.role == Role::Primary).collect();
        let secondaries = || self.tagged(members.iter().filter(|member| member.role == Role::Secondary));
        let chosen = match self.mode {
            ReadMode::Primary => primary(),
            ReadMode::PrimaryPreferred => or(primary(), secondaries),
            ReadMode::Secondary => secondaries(),
            ReadMode::SecondaryPreferred => or(secondaries(), primary),
            ReadMode::Nearest => {
                let both = [Role::Primary, Role::Secondary];
                self.tagged(members.iter().filter(|member| both.contains(&member.role)))
            }
        };
        self.near(chosen)
    }

    fn tagged<'m>(&self, members: impl Iterator<Item = &'m DeploymentServer>) -> Vec<&'m DeploymentServer> {
        let members: Vec<&DeploymentServer> = members.collect();
        if self.tag_sets.is_empty() {
            return members;
        }
        let having = |tags: &Vec<(String, String)>| {
            let has_all = |member: &&&DeploymentServer| tags.iter().all(|tag| member.tags.contains(tag));
            Some(members.iter().filter(has_all).copied().collect()).filter(|found: &Vec<_>| !found.is_empty())
        };
        self.tag_sets.iter().find_map(having).unwrap_or_default()
    }

    fn near<'m>(&self, mut members: Vec<&'m DeploymentServer>) -> Vec<&'m DeploymentServer> {
        let round_trip = |member: &&DeploymentServer| member.round_trip.unwrap_or(Duration::MAX);
        members.sort_by_key(round_trip);
        let farthest =
            members.first().map(round_trip).unwrap_or_default().saturating_add(self.local_threshold);
        members.retain(|member| round_trip(member) <= farthest);
        members
    }
}

fn or<'m>(
    first: Vec<&'m DeploymentServer>,
    second: impl FnOnce() -> Vec<&'m DeploymentServer>,
) -> Vec<&'m DeploymentServer> {
    if first.is_empty() { second() } else { first }
}

/// Parses `dc:ny,rack:1`; an empty set matches every member.
fn tag_set(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty());
    let wrong = |pair: &str, what| {
        Err(Error::usage(format!("'{}' in readPreferenceTags {what}", pair.escape_debug())))
    };
    let read = pairs.map(|pair| match pair.split_once(':') {
        // BSON names cannot contain a NUL.
        _ if pair.contains('\0') => wrong(pair, "contains a NUL"),
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => wrong(pair, "is not written name:value"),
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn member(port: u16, role: Role, milliseconds: u64, place: &str) -> DeploymentServer {
        DeploymentServer {
            address: Address::new("h", port),
            role,
            tags: vec![("dc".to_owned(), place.to_owned())],
            round_trip: Some(Duration::from_millis(milliseconds)),
            fault: None,
            is_resolvable: true,
        }
    }

    fn chosen(members: &[DeploymentServer], options: &str) -> Vec<u16> {
        let target = format!("mongodb://h/?{options}").parse().unwrap();
        let preference = ReadPreference::new(&target).unwrap();
        preference.choose(members).iter().map(|member| member.address.port).collect()
    }

    #[test]
    fn modes() {
        let members = [
            member(1, Role::Primary, 5, "ny"),
            member(2, Role::Secondary, 9, "ny"),
            member(3, Role::Secondary, 3, "la"),
            member(4, Role::Secondary, 30, "la"),
            member(5, Role::Arbiter, 1, "ny"),
        ];
        for (options, with_primary, without) in [
            ("", &[1][..], &[][..]),
            ("readPreference=primary", &[1], &[]),
            ("readPreference=primaryPreferred", &[1], &[3, 2]),
            ("readPreference=secondary", &[3, 2], &[3, 2]),
            ("readPreference=secondary&localThresholdMS=0", &[3], &[3]),
            ("readPreference=secondary&localThresholdMS=100", &[3, 2, 4], &[3, 2, 4]),
            ("readPreference=nearest", &[3, 1, 2], &[3, 2]),
            ("readPreference=secondary&readPreferenceTags=dc:ny", &[2], &[2]),
            ("readPreference=nearest&readPreferenceTags=dc:ny", &[1, 2], &[2]),
            ("readPreference=secondary&readPreferenceTags=dc:x&readPreferenceTags=dc:ny", &[2], &[2]),
            ("readPreference=secondary&readPreferenceTags=dc:x&readPreferenceTags=", &[3, 2], &[3, 2]),
            ("readPreference=secondary&readPreferenceTags=dc:x", &[], &[]),
            ("readPreference=secondaryPreferred&readPreferenceTags=dc:x", &[1], &[]),
        ] {
            assert_eq!(chosen(&members, options), with_primary, "{options}");
            assert_eq!(chosen(&members[1..], options), without, "{options} without a primary");
        }
        assert_eq!(chosen(&members[..1], "readPreference=secondaryPreferred"), [1]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (options, expected) in [
            (
                "readPreference=closest",
                "'closest' is not a read preference; use one of primary, primaryPreferred",
            ),
            ("readPreferenceTags=dc:ny", "cannot be used with the read preference primary"),
            ("readPreference=nearest&readPreferenceTags=ny", "'ny'"),
            ("readPreference=nearest&readPreferenceTags=d%00c:ny", "contains a NUL"),
            ("readPreference=nearest&maxStalenessSeconds=90", "maxStalenessSeconds is not supported"),
            ("localThresholdMS=x", "localThresholdMS"),
        ] {
            let target = format!("mongodb://h/?{options}").parse().unwrap();
            let error = ReadPreference::new(&target).unwrap_err().to_string();
            assert!(error.contains(expected), "{options}: {error}");
        }
    }
}

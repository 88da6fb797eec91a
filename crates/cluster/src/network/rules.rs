//! Rules for which servers reach each other, and their delays. Kept in a file next to the cluster's state, which the proxy reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

const FILE: &str = ".fathom_network";

/// The faults in force, by the ports that clients use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The side that a server is on; unlisted servers are on side 0.
    sides: BTreeMap<u16, u32>,
    /// Servers that are cut off from clients too.
    without_clients: BTreeSet<u16>,
    /// The additional time of a round trip to or from a server, in microseconds.
    round_trip_us: BTreeMap<u16, u64>,
}

impl Rules {
    /// The path of a cluster's rules.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Reads the rules of a cluster; without a file there are none.
    pub fn read(folder: &Path) -> Result<Rules> {
        let path = Rules::path(folder);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|cause| {
                Error::new(Kind::Malformed, format!("{} holds no rules", path.display())).because(cause)
            }),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(Rules::default()),
            Err(cause) => Err(Error::io("read", &path, cause)),
        }
    }

    /// Replaces the rules of a cluster; the proxy applies them within a moment.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = Rules::path(folder);
        let beside = folder.join(format!("{FILE}.new"));
        let text = serde_json::to_string(self)
            .map_err(|cause| Error::new(Kind::Malformed, "the rules cannot be written").because(cause))?;
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|cause| Error::io("write", &path, cause))
    }

    /// Puts servers on a side of their own, cut off from all others.
    pub fn cut(&mut self, ports: &[u16], from_clients: bool) {
        let side = self.sides.values().max().map_or(1, |side| side.saturating_add(1));
        for &port in ports {
            self.sides.insert(port, side);
            if from_clients {
                self.without_clients.insert(port);
            } else {
                self.without_clients.remove(&port);
            }
        }
    }

    /// Makes round trips to and from servers longer.
    pub fn delay(&mut self, ports: &[u16], round_trip: Duration) {
        let us = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        for &port in ports {
            self.round_trip_us.insert(port, us);
        }
        self.round_trip_us.retain(|_, us| *us > 0);
    }

    /// Whether two ends are cut off from each other; a client has no port of ours.
    pub(crate) fn is_cut(&self, from: Option<u16>, to: u16) -> bool {
        let side = |port: u16| self.sides.get(&port).copied().unwrap_or(0);
        match from {
            Some(from) => side(from) != side(to),
            None => self.without_clients.contains(&to),
        }
    }

    /// The delay of bytes from one end to the other.
    pub(crate) fn one_way(&self, from: Option<u16>, to: u16) -> Duration {
        let of = |port: u16| self.round_trip_us.get(&port).copied().unwrap_or(0);
        let both = of(to).saturating_add(from.filter(|from| *from != to).map_or(0, of));
        Duration::from_micros(both / 2)
    }

    /// The rules in force: one phrase for each fault.
    pub fn phrases(&self) -> Vec<String> {
        let mut sides: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (port, side) in &self.sides {
            sides.entry(*side).or_default().push(*port);
        }
        let join = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let cut = sides.values().map(|ports| {
            let clients = ports.iter().all(|port| self.without_clients.contains(port));
            let whom = if clients { "the others and from clients" } else { "the others" };
            format!("{} cut off from {whom}", join(ports))
        });
        let late = self
            .round_trip_us
            .iter()
            .map(|(port, us)| format!("{port} {} ms further away", *us as f64 / 1000.0));
        cut.chain(late).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_do_not_reach_each_other() {
        let mut rules = Rules::default();
        assert!(!rules.is_cut(Some(1), 2) && !rules.is_cut(None, 2));
        rules.cut(&[1], false);
        rules.cut(&[2, 3], true);
        for (from, to, expected) in
            [(1, 2, true), (2, 1, true), (2, 3, false), (1, 4, true), (4, 5, false), (1, 1, false)]
        {
            assert_eq!(rules.is_cut(Some(from), to), expected, "{from} {to}");
        }
        assert!(!rules.is_cut(None, 1) && rules.is_cut(None, 2));
        assert_eq!(
            rules.phrases(),
            ["1 cut off from the others", "2, 3 cut off from the others and from clients"]
        );
    }

    #[test]
    fn delays_of_both_ends_add_up() {
        let mut rules = Rules::default();
        rules.delay(&[1], Duration::from_millis(20));
        rules.delay(&[2], Duration::from_millis(10));
        let ms = |from, to| rules.one_way(from, to).as_millis();
        assert_eq!(
            (ms(None, 1), ms(Some(1), 2), ms(Some(3), 2), ms(Some(1), 1), ms(None, 3)),
            (10, 15, 5, 10, 0)
        );
        rules.delay(&[1, 2], Duration::ZERO);
        assert_eq!(rules, Rules::default());
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Rules::read(folder.path()).unwrap(), Rules::default());
        let mut rules = Rules::default();
        rules.cut(&[7], true);
        rules.delay(&[8], Duration::from_millis(3));
        rules.write(folder.path()).unwrap();
        assert_eq!(Rules::read(folder.path()).unwrap(), rules);
        fs::write(Rules::path(folder.path()), "{").unwrap();
        assert_eq!(Rules::read(folder.path()).unwrap_err().kind(), Kind::Malformed);
    }
}

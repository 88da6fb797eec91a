//! The mix of operations by YCSB's proportions, from which the next operation is drawn.

use fathom_errors::Error;
use fathom_stats::SeededRandom;

use crate::properties::{Properties, default_number};

/// An operation of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// One record by its key.
    Read,
    /// One field of a record, or all.
    Update,
    Insert,
    /// Records from a key on.
    Scan,
    /// A read and an update of the same record.
    ReadModifyWrite,
    /// Deletes a record. Not in YCSB.
    Delete,
}

/// Table: the property with the weight of each operation. `deleteproportion` is ours.
const PROPORTIONS: [(Operation, &str); 6] = [
    (Operation::Read, "readproportion"),
    (Operation::Update, "updateproportion"),
    (Operation::Insert, "insertproportion"),
    (Operation::Scan, "scanproportion"),
    (Operation::ReadModifyWrite, "readmodifywriteproportion"),
    (Operation::Delete, "deleteproportion"),
];

/// Operations with their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Each operation that occurs, with the sum of the weights up to it; the last sum is 1.
    sums: Vec<(Operation, f64)>,
}

impl Mix {
    /// The mix that the properties define; weights need not add up to 1.
    ///
    /// # Errors
    /// `Kind::Usage` if a weight is not a number of at least 0, or if all are 0.
    pub fn from_properties(properties: &Properties) -> Result<Mix, Error> {
        let mut weights = Vec::new();
        for (operation, name) in PROPORTIONS {
            let weight = properties.number(name)?.unwrap_or_else(|| default_number(name));
            if weight > 0.0 {
                weights.push((operation, weight));
            }
        }
        let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
        if all == 0.0 {
            return Err(Error::usage("all proportions are 0, so there is nothing to do")
                .advise("give one of readproportion, updateproportion, insertproportion, scanproportion"));
        }
        let mut sum = 0.0;
        let sums = weights.into_iter().map(|(operation, weight)| {
            sum += weight / all;
            (operation, sum)
        });
        Ok(Mix { sums: sums.collect() })
    }

    /// Draws the next operation by its share.
    pub fn draw(&self, random: &mut SeededRandom) -> Operation {
        let place = random.uniform();
        let found = self.sums.iter().find(|(_, sum)| place < *sum).or(self.sums.last());
        found.map_or(Operation::Read, |(operation, _)| *operation)
    }

    /// The share of an operation, 0 to 1.
    pub fn share(&self, operation: Operation) -> f64 {
        let place = self.sums.iter().position(|(one, _)| *one == operation);
        let sum_at = |place: usize| self.sums.get(place).map_or(0.0, |(_, sum)| *sum);
        place.map_or(0.0, |place| sum_at(place) - place.checked_sub(1).map_or(0.0, sum_at))
    }

    /// A warning if the default of one proportion changes a mix in which others are given. A file that sets only
    /// inserts also reads and updates, by half, because the weights of reads and updates are not 0 by default.
    pub fn surprise(properties: &Properties) -> Option<String> {
        let given = |name: &str| properties.get(name).is_some();
        let some_are = PROPORTIONS.iter().any(|(_, name)| given(name));
        let missing: Vec<String> = PROPORTIONS
            .iter()
            .filter(|(_, name)| default_number(name) > 0.0 && !given(name))
            .map(|(_, name)| format!("{name}={}", default_number(name)))
            .collect();
        (some_are && !missing.is_empty()).then(|| {
            format!("{} is in the mix by default; set it to 0 to leave it out", missing.join(" and "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(given: &[(&str, &str)]) -> Properties {
        let mut properties = Properties::default();
        given.iter().for_each(|(name, value)| properties.set(name, value, "-p"));
        properties
    }

    #[test]
    fn weights_become_shares() {
        let mix = Mix::from_properties(&properties(&[
            ("readproportion", "50"),
            ("updateproportion", "50"),
            ("deleteproportion", "100"),
        ]));
        let mix = mix.unwrap();
        for (operation, share) in [
            (Operation::Read, 0.25),
            (Operation::Update, 0.25),
            (Operation::Delete, 0.5),
            (Operation::Scan, 0.0),
        ] {
            assert!((mix.share(operation) - share).abs() < 1e-12, "{operation:?}");
        }
        let mut random = SeededRandom::from_seed(9);
        let deletes = (0..20_000).filter(|_| mix.draw(&mut random) == Operation::Delete).count();
        assert!((9700..10_300).contains(&deletes), "{deletes}");
    }

    #[test]
    fn defaults_mix_in_and_are_told() {
        let inserts = properties(&[("insertproportion", "1")]);
        assert!((Mix::from_properties(&inserts).unwrap().share(Operation::Insert) - 0.5).abs() < 1e-12);
        let told = Mix::surprise(&inserts).unwrap();
        assert!(told.contains("readproportion=0.95 and updateproportion=0.05"), "{told}");
        assert_eq!(Mix::surprise(&properties(&[])), None);
        let all = properties(&[("readproportion", "1"), ("updateproportion", "0")]);
        assert_eq!(
            (Mix::surprise(&all), Mix::from_properties(&all).unwrap().share(Operation::Read)),
            (None, 1.0)
        );
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        assert!(
            Mix::from_properties(&properties(&[("readproportion", "0"), ("updateproportion", "0")])).is_err()
        );
        assert!(Mix::from_properties(&properties(&[("readproportion", "-1")])).is_err());
    }
}

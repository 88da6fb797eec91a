//! A sampler with its period and its thread: what the runner takes.

use std::time::Duration;

use crate::Sampler;
use crate::table::{Lane, row};

/// A sampler, how often it is to read, and what is lost when it cannot.
pub struct Scheduled {
    /// The sampler.
    pub sampler: Box<dyn Sampler>,
    /// How often it reads; at least a millisecond.
    pub period: Duration,
    /// Whose thread it runs on.
    pub lane: Lane,
    /// What cannot be said without it, to end the sentence "without it there is …".
    pub without: String,
}

impl Scheduled {
    /// As its row in the table of samplers says; one that has no row reads each second on a thread of its own.
    pub fn new(sampler: Box<dyn Sampler>) -> Scheduled {
        let row = row(&sampler.name());
        Scheduled {
            period: row.map_or(Duration::from_secs(1), |row| row.period),
            lane: row.map_or(Lane::Own, |row| row.lane),
            without: row.map_or_else(|| "a gap in the record".to_owned(), |row| row.without.to_owned()),
            sampler,
        }
    }

    /// With another period.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Scheduled {
        self.period = period;
        self
    }
}

impl std::fmt::Debug for Scheduled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} every {:?}", self.sampler.name(), self.period)
    }
}

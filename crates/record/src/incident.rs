//! An incident of a server's recording: a stretch in which a figure was worse than usual or nothing ran, its cause, and its cost.

use serde::{Deserialize, Serialize};

use crate::Confidence;
use crate::verdict::Domain;

/// A figure during an incident and outside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncidentFigure {
    /// The subject (`a sync of the journal`).
    pub of: String,
    /// The mean outside unusual periods, in microseconds.
    pub usual_us: f64,
    /// The mean in the incident.
    pub mean_us: f64,
}

/// The times of many reads or writes, in buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeDistribution {
    /// The subject (`reads of the engine`).
    pub of: String,
    /// How many there were in the incident.
    pub count: f64,
    /// The buckets, the shortest times first.
    pub shares: Vec<TimeShare>,
}

/// A bucket of a distribution, up to the bound of the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeShare {
    /// Its lower bound, in milliseconds.
    pub from_ms: u32,
    /// The part of them in it, 0 to 1.
    pub share: f64,
    /// The same in calm; absent if there were too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_share: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// The number of the server.
    pub member: usize,
    /// Begin, in milliseconds since 1970 in UTC.
    pub begin_ms: i64,
    /// End, on the same clock.
    pub end_ms: i64,
    /// The stable id of its cause (`storage-reads`, `process-stopped`; docs/recordings.md has the table).
    pub cause: String,
    /// The part of the system that the cause belongs to; absent if no cause can be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Domain>,
    pub confidence: Confidence,
    /// The cause in one sentence.
    pub sentence: String,
    /// The additional time of operations compared with the usual, summed over all of them, in seconds.
    pub lost_s: f64,
    /// The 95 % interval of that, from the variation between calm stretches of the same length; absent if there are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_range_s: Option<(f64, f64)>,
    /// The time lost as a part of the time of all operations in the incident, 0 to 1.
    pub lost_share: f64,
    /// The part of the operations' time in the incident that faster storage could remove at most, in seconds.
    #[serde(default)]
    pub storage_s: f64,
    /// The figures by which it was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<IncidentFigure>,
    /// The waits of the mean operation, by the resource that it waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<IncidentFigure>,
    /// How long the engine's reads and writes of files took, if the recording counts that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_times: Vec<TimeDistribution>,
    /// The evidence for the cause, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The evidence against it, or against another cause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<String>,
    /// The next thing to look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Incident {
    /// Its length in seconds.
    pub fn length_s(&self) -> f64 {
        (self.end_ms - self.begin_ms) as f64 / 1e3
    }

    /// The interval of the time lost if it is worth showing: below a tenth of the time it adds no information.
    pub fn wide_range_s(&self) -> Option<(f64, f64)> {
        self.lost_range_s.filter(|(low_s, high_s)| high_s - low_s >= 0.1 * self.lost_s)
    }

    /// Whether storage is its cause.
    pub fn is_storage(&self) -> bool {
        self.domain == Some(Domain::Storage)
    }
}

//! The burst allowance of a disk: a rate that lasts, or one that falls when a bucket is empty.

use serde::{Deserialize, Serialize};

/// Whether a rate lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BurstVerdict {
    /// The rate lasts: the disk served more than any burst allowance of such a device holds.
    Sustained,
    /// The rate lasted for the time in which the disk was driven. A larger bucket cannot be excluded.
    NoStep,
    /// The rate does not last: it fell, or rose after a rest.
    Burst,
    /// The figures do not decide.
    CannotTell,
}

/// A period with one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstLevel {
    /// Start, nanoseconds since the run's start.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Requests a second that the disk serves in it.
    pub per_s: f64,
    /// The 95 % interval of that rate; absent with fewer than three seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_per_s: Option<(f64, f64)>,
}

/// The requests that came back after a rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketRest {
    /// The time in which no requests were sent to the disk.
    pub seconds: f64,
    /// The requests after it that exceed the lowest rate.
    pub requests: f64,
    /// Whether the bucket was full again before the rest was over: then `requests` is its size.
    pub is_full: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its size: the requests above the refill until it was empty.
    pub requests: f64,
    /// Whether it may hold more, because no reading shows that it was full.
    pub is_least: bool,
    /// Tokens that come back a second: those after the first rest unless it filled the bucket, else the lowest rate.
    pub refill_per_s: f64,
    /// The rests, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests: Vec<BucketRest>,
}

/// Whether the rate of a disk lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstAllowance {
    pub verdict: BurstVerdict,
    /// The answer in words.
    pub words: String,
    /// The time in which the disk was driven.
    pub seconds: f64,
    /// The requests in that time, including those of the search for the knee.
    pub requests: u64,
    /// The rates one after the other. Empty if the disk was not driven for this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<BurstLevel>,
    /// The bucket that was emptied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// The largest bucket that would have been emptied if there were one. A bucket that makes the rate fall by a fifth refills with four
    /// fifths of the rate, so this is a fifth of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_requests: Option<f64>,
    /// The class of the device, by its model or its behaviour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_class: Option<String>,
}

impl BurstAllowance {
    /// The last rate, which is the one to plan with; `None` if the disk was not driven.
    pub fn lowest(&self) -> Option<&BurstLevel> {
        self.levels.last()
    }
}

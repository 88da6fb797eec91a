//! The largest burst allowance that a kind of device may have, and the number of requests that proves that a disk has none.

/// A fall to this share of a rate, or lower, is the end of a burst. A smaller fall may be a slow change.
pub const MAX_BURST_END_SHARE: f64 = 0.8;

/// The largest burst allowance of a kind of device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AllowanceLimit {
    None,
    /// At most a bucket of this many requests, and a burst of this many seconds at the highest rate.
    Bucket {
        requests: f64,
        seconds: f64,
    },
    /// The limit is unknown.
    Unknown,
}

impl AllowanceLimit {
    /// Whether this many requests, at a highest rate, would have emptied it. A bucket that lets the rate fall by a fifth refills
    /// while it is drained, with up to four fifths of the rate, so a fifth of the requests counts.
    pub fn is_exceeded(self, requests: f64, highest_per_s: f64) -> bool {
        match self {
            AllowanceLimit::None => true,
            AllowanceLimit::Bucket { requests: most, seconds } => {
                excluded_requests(requests) > most && requests > seconds * highest_per_s
            }
            AllowanceLimit::Unknown => false,
        }
    }
}

/// The largest bucket that this many requests would have emptied.
pub fn excluded_requests(requests: f64) -> f64 {
    (1.0 - MAX_BURST_END_SHARE) * requests
}

/// The burst of a gp2 volume (docs/methods.md#burst-allowances), and of an instance whose limit for its volumes is above its baseline: half an hour a
/// day (aws.amazon.com/blogs/compute/improving-application-performance-and-reducing-costs-with-amazon-ebs-optimized-instance-burst-capability).
pub(super) const EBS_LIMIT: AllowanceLimit = AllowanceLimit::Bucket { requests: 5.4e6, seconds: 1800.0 };
/// The credits of Azure's disks up to 512 GiB: 3,500 per second for half an hour (docs/methods.md#burst-allowances).
pub(super) const AZURE_LIMIT: AllowanceLimit =
    AllowanceLimit::Bucket { requests: 3500.0 * 1800.0, seconds: 1800.0 };

/// A volume without credits of its own, on an instance that has them.
pub(super) const INSTANCE_LIMIT: AllowanceLimit = AllowanceLimit::Bucket { requests: 0.0, seconds: 1800.0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_exceeded_when_its_slowest_emptying_is_over() {
        assert!(
            AllowanceLimit::None.is_exceeded(0.0, 1.0) && !AllowanceLimit::Unknown.is_exceeded(1e12, 1.0)
        );
        // 3,000 a second falls to 2,400 when 5.4 million tokens are used up, which takes 2.5 hours.
        let hours = |hours: f64| EBS_LIMIT.is_exceeded(3_000.0 * 3600.0 * hours, 3_000.0);
        assert!(!hours(2.4) && hours(2.6));
        // 60,000 a second would have emptied that in minutes; the burst of the instance lasts half an hour.
        let minutes = |minutes: f64| EBS_LIMIT.is_exceeded(60_000.0 * 60.0 * minutes, 60_000.0);
        assert!(!minutes(29.0) && minutes(31.0));
    }
}

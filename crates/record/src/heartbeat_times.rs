//! The times of a member's heartbeats on its own clock. The offset of two members' clocks follows from them.

use std::collections::BTreeMap;

/// The heartbeats of a member of a set. All times are milliseconds since 1970 on its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatTimes {
    /// Its number in the configuration of the set (`_id`), if it was recorded.
    pub member: Option<i64>,
    /// The time between two heartbeats (`heartbeatIntervalMillis`), if it was recorded.
    pub interval_ms: Option<i64>,
    /// By periods of [`HeartbeatTimes::PERIOD_MS`] on the primary's clock, which all members share, what the member recorded of each member by its
    /// number, itself included.
    pub periods: BTreeMap<i64, BTreeMap<i64, PeerTimes>>,
}

impl HeartbeatTimes {
    /// The length of a period, in milliseconds.
    pub const PERIOD_MS: i64 = 120_000;
}

/// The heartbeats that a member recorded of one other member in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerTimes {
    /// When replies to heartbeats came from it (`lastHeartbeat`, while it is healthy).
    pub replies_ms: Vec<i64>,
    /// When heartbeats came from it (`lastHeartbeatRecv`).
    pub requests_ms: Vec<i64>,
    /// The least age of what it had applied last: the time of `replSetGetStatus` less `lastAppliedWallTime`, which is on the primary's clock.
    pub applied_age_ms: Option<i64>,
}

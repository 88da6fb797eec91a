//! A member's knowledge of another: the contents of its heartbeats, its progress, and the connection to its host.

use std::time::Duration;

use crate::host::Host;
use crate::member_state::MemberState;
use crate::messages::HeartbeatReply;
use crate::monotonic_time::MonotonicTime;
use crate::optime::{NO_TERM, OpTime};
use crate::write_concern::Progress;

/// The number of immediate retries of a failed heartbeat (mongodb/mongo:src/mongo/db/repl/topology_coordinator.h,
/// kMaxHeartbeatRetries).
const MAX_RETRIES: u32 = 2;

/// Whether a member answers heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// It was not asked yet.
    #[default]
    Unknown,
    /// It answered the last heartbeat.
    Up,
    /// It did not answer the last heartbeat.
    Down,
}

/// One other member, or this one (which uses only the host).
#[derive(Clone, Debug)]
pub(super) struct MemberPeer {
    pub(super) id: i32,
    pub(super) host: Host,
    pub(super) health: Health,
    pub(super) state: MemberState,
    /// The term of its last reply.
    pub(super) term: i64,
    /// Its progress in its last reply; null while it is down.
    pub(super) heartbeat: Progress,
    /// Its furthest progress in any report.
    pub(super) progress: Progress,
    pub(super) election_time: Option<u64>,
    pub(super) syncing_to: Option<Host>,
    pub(super) config_version: i64,
    pub(super) up_since: Option<MonotonicTime>,
    pub(super) last_heartbeat: Option<MonotonicTime>,
    pub(super) last_heartbeat_received: Option<MonotonicTime>,
    pub(super) message: String,
    pub(super) unauthorized: bool,
    /// The last time that we heard of it, directly or through others.
    pub(super) heard: MonotonicTime,
    /// Whether that is longer ago than the election timeout.
    pub(super) stale: bool,
    /// Whether it answered, or failed to, since the primary began its catch-up.
    pub(super) asked_since_restart: bool,
}

impl MemberPeer {
    pub(super) fn new(id: i32, host: Host, now: MonotonicTime) -> MemberPeer {
        MemberPeer {
            id,
            host,
            health: Health::Unknown,
            state: MemberState::Unknown,
            term: NO_TERM,
            heartbeat: Progress::default(),
            progress: Progress::default(),
            election_time: None,
            syncing_to: None,
            config_version: crate::config::NO_VERSION,
            up_since: None,
            last_heartbeat: None,
            last_heartbeat_received: None,
            message: String::new(),
            unauthorized: false,
            heard: now,
            stale: false,
            asked_since_restart: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.health == Health::Up
    }

    /// Notes that we heard of it, directly or through others.
    pub(super) fn heard_of(&mut self, now: MonotonicTime) {
        self.heard = now;
        self.stale = false;
    }

    /// Takes a report of its progress, which never moves back. Returns whether it progressed.
    pub(super) fn advance(&mut self, progress: Progress) -> bool {
        let before = self.progress;
        self.progress.applied = before.applied.max(progress.applied);
        self.progress.durable = before.durable.max(progress.durable);
        self.progress != before
    }

    /// Takes a successful reply. Returns whether the member progressed.
    pub(super) fn set_up(&mut self, now: MonotonicTime, reply: &HeartbeatReply) -> bool {
        if self.health != Health::Up {
            self.up_since = Some(now);
        }
        self.health = Health::Up;
        self.unauthorized = false;
        self.last_heartbeat = Some(now);
        self.asked_since_restart = true;
        self.state = reply.state;
        self.term = reply.term;
        self.election_time = reply.election_time;
        self.syncing_to.clone_from(&reply.syncing_to);
        self.config_version = reply.config_version;
        self.message.clear();
        self.heard_of(now);
        self.heartbeat = Progress { applied: reply.applied, durable: reply.durable };
        self.advance(self.heartbeat)
    }

    /// Marks it down: its last reply no longer counts.
    pub(super) fn set_down(&mut self, now: MonotonicTime, message: &str) {
        self.health = Health::Down;
        self.state = MemberState::Down;
        self.forget(now, message);
    }

    /// Marks it as refusing us authorization.
    pub(super) fn set_unauthorized(&mut self, now: MonotonicTime) {
        self.health = Health::Down;
        self.state = MemberState::Unknown;
        self.forget(now, "");
        self.unauthorized = true;
    }

    fn forget(&mut self, now: MonotonicTime, message: &str) {
        self.unauthorized = false;
        self.up_since = None;
        self.last_heartbeat = Some(now);
        self.asked_since_restart = true;
        self.term = NO_TERM;
        self.heartbeat = Progress { applied: OpTime::NULL, durable: OpTime::NULL };
        self.election_time = None;
        self.syncing_to = None;
        message.clone_into(&mut self.message);
    }
}

/// The state of heartbeats to one host.
#[derive(Clone, Debug)]
pub(super) struct HostLink {
    /// When to send the next heartbeat, while none is outstanding.
    pub(super) due: MonotonicTime,
    pub(super) flight: Option<Flight>,
    /// The start of the current series of tries, while it has neither succeeded nor failed.
    pub(super) trying_since: Option<MonotonicTime>,
    pub(super) failures: u32,
    /// The number of replies so far.
    pub(super) hits: u64,
    /// The moving average of the round-trip time.
    pub(super) ping: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) sequence: u64,
    pub(super) deadline: MonotonicTime,
}

impl HostLink {
    pub(super) fn new(due: MonotonicTime) -> HostLink {
        HostLink { due, flight: None, trying_since: None, failures: 0, hits: 0, ping: None }
    }

    /// The time of the next event on this link.
    pub(super) fn next_event(&self) -> MonotonicTime {
        self.flight.map_or(self.due, |flight| flight.deadline)
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    pub(super) fn ping(&self) -> Option<Duration> {
        self.ping
    }

    /// Sends a heartbeat again now; an outstanding reply no longer counts.
    pub(super) fn restart(&mut self, now: MonotonicTime) {
        self.flight = None;
        self.trying_since = None;
        self.due = now;
    }

    /// One fifth of the new value and four fifths of the old, MongoDB's smoothing.
    pub(super) fn hit(&mut self, round_trip: Duration) {
        self.hits += 1;
        self.trying_since = None;
        self.ping = Some(self.ping.map_or(round_trip, |average| (average * 4 + round_trip) / 5));
    }

    /// Notes a failed try. Returns whether it was the last.
    pub(super) fn miss(&mut self) -> bool {
        self.failures += 1;
        let last = self.failures > MAX_RETRIES;
        if last {
            self.trying_since = None;
        }
        last
    }
}

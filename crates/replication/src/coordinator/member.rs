//! What one member knows of another: what its heartbeats said, how far it is, and the way to its host.

use std::time::Duration;

use crate::host::Host;
use crate::member_state::MemberState;
use crate::messages::HeartbeatReply;
use crate::moment::Moment;
use crate::optime::{NO_TERM, OpTime};
use crate::write_concern::Progress;

/// How often a heartbeat that failed is sent again at once (mongodb/mongo:src/mongo/db/repl/topology_coordinator.h,
/// kMaxHeartbeatRetries).
const RETRIES: u32 = 2;

/// Whether a member answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// Not asked yet.
    #[default]
    Unknown,
    /// Answered last time.
    Up,
    /// Did not.
    Down,
}

/// One other member, or this one (whose fields stay unused but for the host).
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) id: i32,
    pub(super) host: Host,
    pub(super) health: Health,
    pub(super) state: MemberState,
    /// The term of its last reply.
    pub(super) term: i64,
    /// How far it was by its last reply; null while it is down.
    pub(super) heartbeat: Progress,
    /// The furthest that it ever was, by any report.
    pub(super) progress: Progress,
    pub(super) election_time: Option<u64>,
    pub(super) syncing_to: Option<Host>,
    pub(super) config_version: i64,
    pub(super) up_since: Option<Moment>,
    pub(super) last_heartbeat: Option<Moment>,
    pub(super) last_heartbeat_received: Option<Moment>,
    pub(super) message: String,
    pub(super) unauthorized: bool,
    /// When we heard of it last, by any way.
    pub(super) heard: Moment,
    /// Whether that is longer ago than the election timeout.
    pub(super) stale: bool,
    /// Whether it answered, or failed to, since the primary began to catch up.
    pub(super) asked_since_restart: bool,
}

impl Peer {
    pub(super) fn new(id: i32, host: Host, now: Moment) -> Peer {
        Peer {
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

    /// We heard of it, by whatever way.
    pub(super) fn heard_of(&mut self, now: Moment) {
        self.heard = now;
        self.stale = false;
    }

    /// Takes a report of how far it is; never goes back. Says whether it got further.
    pub(super) fn advance(&mut self, progress: Progress) -> bool {
        let before = self.progress;
        self.progress.applied = before.applied.max(progress.applied);
        self.progress.durable = before.durable.max(progress.durable);
        self.progress != before
    }

    /// Takes a good reply. Says whether the member got further.
    pub(super) fn set_up(&mut self, now: Moment, reply: &HeartbeatReply) -> bool {
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

    /// It does not answer: what it said last is of no use any more.
    pub(super) fn set_down(&mut self, now: Moment, message: &str) {
        self.health = Health::Down;
        self.state = MemberState::Down;
        self.forget(now, message);
    }

    /// It does not let us in.
    pub(super) fn set_unauthorized(&mut self, now: Moment) {
        self.health = Health::Down;
        self.state = MemberState::Unknown;
        self.forget(now, "");
        self.unauthorized = true;
    }

    fn forget(&mut self, now: Moment, message: &str) {
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

/// The way to one host.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// When to ask next, while nothing is under way.
    pub(super) due: Moment,
    pub(super) flight: Option<Flight>,
    /// When the present series of tries began, while it has neither succeeded nor failed.
    pub(super) trying_since: Option<Moment>,
    pub(super) failures: u32,
    /// How often it answered.
    pub(super) hits: u64,
    /// The moving average of the time to its answers.
    pub(super) ping: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) sequence: u64,
    pub(super) deadline: Moment,
}

impl Link {
    pub(super) fn new(due: Moment) -> Link {
        Link { due, flight: None, trying_since: None, failures: 0, hits: 0, ping: None }
    }

    /// When something is to happen.
    pub(super) fn next_event(&self) -> Moment {
        self.flight.map_or(self.due, |flight| flight.deadline)
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits
    }

    pub(super) fn ping(&self) -> Option<Duration> {
        self.ping
    }

    /// Asks again now; an answer that is under way no longer counts.
    pub(super) fn restart(&mut self, now: Moment) {
        self.flight = None;
        self.trying_since = None;
        self.due = now;
    }

    /// A fifth of the new and four fifths of the old, as MongoDB smooths it.
    pub(super) fn hit(&mut self, round_trip: Duration) {
        self.hits += 1;
        self.trying_since = None;
        self.ping = Some(self.ping.map_or(round_trip, |average| (average * 4 + round_trip) / 5));
    }

    /// Says whether this was the last try.
    pub(super) fn miss(&mut self) -> bool {
        self.failures += 1;
        let last = self.failures > RETRIES;
        if last {
            self.trying_since = None;
        }
        last
    }
}

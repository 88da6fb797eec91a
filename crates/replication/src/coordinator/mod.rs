//! The state machine of one member: takes messages, the time and the member's own progress as inputs, and produces actions.
//!
//! Every input is a method that takes the time at which it came, and may produce actions, which the driver takes with [`Coordinator::take_actions`]
//! and executes in order. The coordinator does nothing by itself: the driver calls [`Coordinator::tick`] at the time that
//! [`Coordinator::next_wakeup`] returns, and asks for that time again after each input. It opens no socket, keeps no thread, reads no clock and
//! stores no data; its random numbers come from a seed. It asks the driver to store its vote and its configuration, which must survive a restart,
//! before it relies on them.
//!
//! The rules are those of MongoDB 4.0 (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, replication_coordinator_impl*.cpp). If
//! they leave a gap that a later version closed, the later rule applies, and a comment says so.

mod action;
mod catch_up;
mod election;
mod heartbeats;
mod member;
mod progress;
mod reconfig;
mod role;
mod status;
mod stepdown;
mod sync_source;
mod takeover;

use std::collections::BTreeMap;
use std::time::Duration;

pub use action::{Action, ElectionOutcome, ElectionReason, StepDownReason};
pub use election::Ballot;
pub use status::{StatusContext, election_id};
pub use stepdown::StepDownRequest;

use crate::config::ReplicaSetConfig;
use crate::host::Host;
use crate::last_vote::LastVote;
use crate::member_state::MemberState;
use crate::monotonic_time::MonotonicTime;
use crate::optime::OpTime;
use crate::splitmix::Chance;
use crate::write_concern::Progress;
use member::{HostLink, MemberPeer};
use role::{CatchUp, Election, LeaderMode, MemberRole, StepDownAttempt, Takeovers};

/// The options of a member at its start.
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    /// The name of the set that this server was started for.
    pub set_name: String,
    /// Whether it was started as a config server.
    pub config_server: bool,
    /// The seed of the random numbers; differs between members, so that their elections do not coincide.
    pub seed: u64,
    /// The maximum lag of a sync source behind the most advanced member (`maxSyncSourceLagSecs`, 30 s).
    pub max_sync_source_lag: Duration,
    /// The maximum lag of a member that takes over because of its priority (`priorityTakeoverFreshnessWindowSeconds`, 2 s).
    pub takeover_freshness: Duration,
}

impl CoordinatorOptions {
    /// The defaults of mongod.
    pub fn new(set_name: &str, seed: u64) -> CoordinatorOptions {
        CoordinatorOptions {
            set_name: set_name.to_owned(),
            config_server: false,
            seed,
            max_sync_source_lag: Duration::from_secs(30),
            takeover_freshness: Duration::from_secs(2),
        }
    }
}

/// The present work of a member that is not primary, as its driver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowerMode {
    /// Getting its data for the first time, or starting.
    Startup2,
    /// Has data that cannot be read yet.
    Recovering,
    /// Undoing entries that no later primary has.
    Rollback,
    /// Follows a primary, or looks for one.
    Secondary,
}

/// One member of a replica set.
#[derive(Debug)]
pub struct Coordinator {
    options: CoordinatorOptions,
    chance: Chance,
    actions: Vec<Action>,
    config: Option<ReplicaSetConfig>,
    /// Our place in the configuration.
    own_index: Option<usize>,
    /// In the order of the configuration; empty if we are not in one.
    peers: Vec<MemberPeer>,
    /// The state of the connection to each host that we ask.
    links: BTreeMap<Host, HostLink>,
    sequence: u64,
    role: MemberRole,
    follower_mode: FollowerMode,
    maintenance: u32,
    /// The state that was announced last.
    announced: MemberState,
    term: i64,
    /// A later term that we adopt once we have stepped down.
    pending_term: Option<i64>,
    last_vote: LastVote,
    own: Progress,
    /// The newest entry in our journal, applied or not.
    journaled: OpTime,
    primary_index: Option<usize>,
    last_committed: OpTime,
    /// The first entry of our own term as primary; `None` until it is written.
    first_of_term: Option<OpTime>,
    election_time: u64,
    election: Option<Election>,
    election_due: Option<MonotonicTime>,
    takeovers: Takeovers,
    catch_up: Option<CatchUp>,
    step_down: Option<StepDownAttempt>,
    /// The time until which we do not stand for election.
    frozen_until: MonotonicTime,
    /// The time until which a single member does not stand again, after it could not store its vote.
    not_alone_before: MonotonicTime,
    sync_source: Option<Host>,
    forced_source: Option<Host>,
    denied: BTreeMap<Host, MonotonicTime>,
    /// The version of the configuration that the driver is installing.
    installing: Option<i64>,
    message: (MonotonicTime, String),
}

impl Coordinator {
    /// A member without a configuration. `vote` is the last one that was stored; `own` is the end of its log.
    pub fn new(options: CoordinatorOptions, vote: Option<LastVote>, own: Progress) -> Coordinator {
        let chance = Chance::new(options.seed);
        Coordinator {
            options,
            chance,
            actions: Vec::new(),
            config: None,
            own_index: None,
            peers: Vec::new(),
            links: BTreeMap::new(),
            sequence: 0,
            role: MemberRole::Follower,
            follower_mode: FollowerMode::Startup2,
            maintenance: 0,
            announced: MemberState::Startup,
            term: crate::optime::NO_TERM,
            pending_term: None,
            last_vote: vote.unwrap_or(LastVote::NONE),
            own,
            journaled: own.durable,
            primary_index: None,
            last_committed: OpTime::NULL,
            first_of_term: None,
            election_time: 0,
            election: None,
            election_due: None,
            takeovers: Takeovers::default(),
            catch_up: None,
            step_down: None,
            frozen_until: MonotonicTime::default(),
            not_alone_before: MonotonicTime::default(),
            sync_source: None,
            forced_source: None,
            denied: BTreeMap::new(),
            installing: None,
            message: (MonotonicTime::default(), String::new()),
        }
    }

    /// Takes the actions, to be executed in this order, and leaves the list empty.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Does the work that is due.
    pub fn tick(&mut self, now: MonotonicTime) {
        self.send_due_heartbeats(now);
        self.check_liveness(now);
        self.check_election_deadline(now);
        self.check_catch_up_deadline(now);
        self.check_election_timers(now);
        self.settle(now);
    }

    /// The time of the next tick if no input comes before; `None` for never.
    pub fn next_wakeup(&self) -> Option<MonotonicTime> {
        let links = self.links.values().map(HostLink::next_event);
        let others = [
            self.election_due,
            self.takeovers.next(),
            self.election.as_ref().map(Election::deadline),
            self.catch_up.as_ref().and_then(CatchUp::deadline),
            self.step_down.as_ref().map(StepDownAttempt::next_event),
            self.next_stale(),
            self.alone_at(),
        ];
        links.chain(others.into_iter().flatten()).min()
    }

    /// The state that other members see.
    pub fn state(&self) -> MemberState {
        let (Some(config), Some(own)) = (&self.config, self.own_member()) else {
            return if self.config.is_some() { MemberState::Removed } else { MemberState::Startup };
        };
        if config.config_server != self.options.config_server {
            return MemberState::Removed;
        }
        if self.is_leader() {
            return MemberState::Primary;
        }
        if own.arbiter {
            return MemberState::Arbiter;
        }
        match self.follower_mode {
            FollowerMode::Startup2 => MemberState::Startup2,
            FollowerMode::Recovering => MemberState::Recovering,
            FollowerMode::Rollback => MemberState::Rollback,
            FollowerMode::Secondary if self.maintenance > 0 || self.nobody_lets_us_in() => {
                MemberState::Recovering
            }
            FollowerMode::Secondary => MemberState::Secondary,
        }
    }

    /// The term; -1 before there is a configuration.
    pub fn term(&self) -> i64 {
        self.term
    }

    /// The configuration, once there is one.
    pub fn config(&self) -> Option<&ReplicaSetConfig> {
        self.config.as_ref()
    }

    /// Our index in the configuration.
    pub fn own_index(&self) -> Option<usize> {
        self.own_index
    }

    /// The host of the primary that we know, ourselves included.
    pub fn primary(&self) -> Option<&Host> {
        let member = self.config.as_ref()?.members.get(self.primary_index?)?;
        Some(&member.host)
    }

    /// Whether clients' writes are accepted: we are primary, our term has its first entry, and we are not about to step down.
    pub fn can_accept_writes(&self) -> bool {
        self.role == MemberRole::Leader(LeaderMode::Writable) && self.state() == MemberState::Primary
    }

    /// Whether we are a primary in catch-up: entries may still be fetched.
    pub fn is_catching_up(&self) -> bool {
        self.catch_up.is_some()
    }

    /// Sets what we do while not primary. Ignored on a primary, which has its data.
    pub fn set_follower_mode(&mut self, now: MonotonicTime, mode: FollowerMode) {
        if !self.is_leader() {
            self.follower_mode = mode;
            self.settle(now);
        }
    }

    /// Begins or ends one maintenance task (`replSetMaintenance`); the state is RECOVERING while one is active. Fails with
    /// NotSecondary on a primary and OperationFailed if none is active.
    pub fn set_maintenance(&mut self, now: MonotonicTime, on: bool) -> Result<(), fathom_wire::Failure> {
        use fathom_wire::{Code, Failure};
        if self.role != MemberRole::Follower {
            return Err(Failure::new(Code::NotSecondary, "primaries can't modify maintenance mode"));
        }
        self.maintenance = match (on, self.maintenance) {
            (true, count) => count.saturating_add(1),
            (false, 0) => return Err(Failure::new(Code::OperationFailed, "already out of maintenance mode")),
            (false, count) => count - 1,
        };
        self.settle(now);
        Ok(())
    }

    fn is_leader(&self) -> bool {
        matches!(self.role, MemberRole::Leader(_))
    }

    fn own_member(&self) -> Option<&crate::config::Member> {
        self.config.as_ref()?.members.get(self.own_index?)
    }

    /// The settings in force: those of the configuration, or the defaults.
    fn settings(&self) -> crate::config::Settings {
        self.config.as_ref().map_or_else(Default::default, |config| config.settings.clone())
    }

    fn election_timeout(&self) -> Duration {
        let usual = || crate::config::Settings::default().election_timeout;
        self.config.as_ref().map_or_else(usual, |config| config.settings.election_timeout)
    }

    /// Whether every member that answers refuses us authorization: then we cannot be read from.
    fn nobody_lets_us_in(&self) -> bool {
        let others = || self.peers.iter().enumerate().filter(|(index, _)| Some(*index) != self.own_index);
        !others().any(|(_, peer)| peer.is_up()) && others().any(|(_, peer)| peer.unauthorized)
    }

    /// The progress of the member at an index.
    fn progress_of(&self, index: usize) -> Progress {
        if Some(index) == self.own_index {
            return self.own;
        }
        self.peers.get(index).map_or_else(Progress::default, |peer| peer.progress)
    }

    fn all_progress(&self) -> Vec<Progress> {
        (0..self.peers.len()).map(|index| self.progress_of(index)).collect()
    }

    /// Evaluates the consequences of an input; every public input ends here.
    fn settle(&mut self, now: MonotonicTime) {
        self.check_candidacy();
        self.check_step_down(now);
        self.check_catch_up();
        self.stand_alone(now);
        self.announce(now);
    }

    fn announce(&mut self, now: MonotonicTime) {
        let state = self.state();
        if state != self.announced {
            let from = std::mem::replace(&mut self.announced, state);
            self.actions.push(Action::StateChanged { from, to: state });
            self.restart_election_timer(now);
        }
    }

    fn say(&mut self, now: MonotonicTime, message: String) {
        self.message = (now, message);
    }
}

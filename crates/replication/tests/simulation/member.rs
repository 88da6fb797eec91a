//! One simulated member: a coordinator with its driver, a log of optimes, and a disk that keeps what was synced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fathom_replication::coordinator::StepDownReason;
use fathom_replication::messages::{RequestVotesArguments, RequestVotesReply};
use fathom_replication::{
    Action, Ballot, Coordinator, FollowerMode, Host, LastVote, MemberState, Moment, OpTime, Options,
    Progress, ReplicaSetConfig,
};
use fathom_wire::{Code, Failure};

use crate::wire::{Fetched, Message};

/// What a member wants of the world.
pub(crate) enum Effect {
    Send {
        to: Host,
        message: Box<Message>,
    },
    /// Call [`Member::happen`] with this later.
    Later {
        after: Wait,
        what: Event,
    },
    /// It leads this term, with this log.
    Leads {
        term: i64,
    },
    Committed {
        optime: OpTime,
        leads: bool,
    },
    Voted {
        term: i64,
        candidate: i64,
    },
    RolledBack(Vec<OpTime>),
    Wrote(OpTime),
}

/// How long something takes.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// A sync of the disk.
    Disk,
    /// A moment of work.
    Short,
    Millis(u64),
}

/// What happens within a member.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Wake,
    OwnVoteStored(LastVote),
    VoteStored { to: Host, run: u64, round: u64, vote: LastVote, reply: RequestVotesReply },
    VoteAgain { from: Host, run: u64, round: u64, arguments: RequestVotesArguments },
    SteppedDown,
    Flushed { length: usize, generation: u64 },
    Drained { term: i64 },
    FetchTick,
    FetchLate { number: u64 },
    SendPosition,
    RollbackDone { common: usize },
}

/// What survives a crash.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) log: Vec<OpTime>,
    pub(crate) synced: usize,
    pub(crate) vote: Option<LastVote>,
}

pub(crate) struct Member {
    pub(crate) host: Host,
    pub(crate) coordinator: Coordinator,
    pub(crate) disk: Disk,
    pub(crate) arbiter: bool,
    /// Which run of its process this is.
    run: u64,
    generation: u64,
    flushing: bool,
    fetch: Option<u64>,
    fetches: u64,
    rolling_back: bool,
    telling: bool,
    /// Heartbeats on their way, with when they were sent.
    sent: BTreeMap<u64, Moment>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) highest_term: i64,
}

impl Member {
    /// A member that starts with what its disk has.
    pub(crate) fn start(
        now: Moment,
        config: &ReplicaSetConfig,
        index: usize,
        mut disk: Disk,
        seed: u64,
    ) -> Member {
        disk.log.truncate(disk.synced);
        let top = disk.log.last().copied().unwrap_or_default();
        let own = Progress { applied: top, durable: top };
        let mut coordinator = Coordinator::new(Options::new(&config.name, seed), disk.vote, own);
        coordinator.config_installed(now, config.clone(), Some(index));
        let member = &config.members[index];
        let mut started = Member {
            host: member.host.clone(),
            coordinator,
            disk,
            arbiter: member.arbiter,
            run: seed,
            generation: 0,
            flushing: false,
            fetch: None,
            fetches: 0,
            rolling_back: false,
            telling: false,
            sent: BTreeMap::new(),
            effects: Vec::new(),
            highest_term: -1,
        };
        if !started.arbiter {
            started.coordinator.set_follower_mode(now, FollowerMode::Secondary);
            started.later(Wait::Millis(200), Event::FetchTick);
        }
        started.carry_out(now);
        started
    }

    pub(crate) fn top(&self) -> OpTime {
        self.disk.log.last().copied().unwrap_or_default()
    }

    fn later(&mut self, after: Wait, what: Event) {
        self.effects.push(Effect::Later { after, what });
    }

    fn send(&mut self, to: Host, message: Message) {
        self.effects.push(Effect::Send { to, message: Box::new(message) });
    }

    /// A client writes, if it may.
    pub(crate) fn write(&mut self, now: Moment, seconds: u64) {
        if self.coordinator.can_accept_writes() {
            let optime = self.append(seconds);
            self.coordinator.applied_advanced(now, optime);
            self.carry_out(now);
        }
    }

    fn append(&mut self, seconds: u64) -> OpTime {
        let timestamp = (self.top().timestamp + 1).max(seconds << 32 | 1);
        let optime = OpTime::new(timestamp, self.coordinator.term());
        self.disk.log.push(optime);
        self.effects.push(Effect::Wrote(optime));
        optime
    }

    pub(crate) fn happen(&mut self, now: Moment, seconds: u64, event: Event) {
        match event {
            Event::Wake => self.coordinator.tick(now),
            Event::OwnVoteStored(vote) => {
                self.store(vote);
                self.coordinator.own_vote_stored(now, vote.term, Ok(()));
            }
            Event::VoteStored { to, run, round, vote, reply } => {
                self.store(vote);
                self.send(to, Message::VoteReply { run, round, reply: Ok(reply) });
            }
            Event::VoteAgain { from, run, round, arguments } => self.vote(now, from, run, round, arguments),
            Event::SteppedDown => self.coordinator.stepped_down(now),
            Event::Flushed { length, generation } => {
                self.flushing = false;
                if generation == self.generation {
                    self.disk.synced = self.disk.synced.max(length);
                    if let Some(optime) = self.disk.log.get(length.wrapping_sub(1)) {
                        self.coordinator.durable_advanced(now, *optime);
                    }
                }
            }
            Event::Drained { term } => {
                if self.coordinator.may_complete_transition(term) {
                    let first = self.append(seconds);
                    self.coordinator.transition_completed(now, first).unwrap();
                }
            }
            Event::FetchTick => {
                self.later(Wait::Millis(300), Event::FetchTick);
                self.fetch(now);
            }
            Event::FetchLate { number } => {
                if self.fetch == Some(number) {
                    self.fetch = None;
                    self.lose_source(now, Duration::from_secs(10));
                }
            }
            Event::SendPosition => {
                self.telling = false;
                if let Some((to, update)) =
                    self.coordinator.sync_source().cloned().zip(self.coordinator.update_position())
                {
                    self.send(to, Message::Position(update));
                }
            }
            Event::RollbackDone { common } => self.finish_rollback(now, common),
        }
        self.carry_out(now);
    }

    /// A vote is on the disk, and counts from now on: before, nobody knew of it. Of two on their way, the later stays.
    fn store(&mut self, vote: LastVote) {
        if self.disk.vote.is_none_or(|old| old.term < vote.term) {
            self.disk.vote = Some(vote);
        }
        self.effects.push(Effect::Voted { term: vote.term, candidate: vote.candidate_index });
    }

    fn lose_source(&mut self, now: Moment, span: Duration) {
        if let Some(source) = self.coordinator.sync_source().cloned() {
            self.coordinator.deny_sync_source(now, &source, now + span);
        }
        self.coordinator.choose_sync_source(now, self.top());
    }

    /// Whether entries may be put into the log.
    fn may_fetch(&self) -> bool {
        !self.rolling_back
            && match self.coordinator.state() {
                MemberState::Secondary => true,
                MemberState::Primary => self.coordinator.is_catching_up(),
                _ => false,
            }
    }

    fn fetch(&mut self, now: Moment) {
        if self.fetch.is_some() || !self.may_fetch() {
            return;
        }
        let top = self.top();
        let source = match self.coordinator.sync_source() {
            Some(source) => source.clone(),
            None => match self.coordinator.choose_sync_source(now, top) {
                Some(source) => source,
                None => return,
            },
        };
        self.fetches += 1;
        self.fetch = Some(self.fetches);
        let (number, term) = (self.fetches, self.coordinator.term());
        self.send(source, Message::Fetch { run: self.run, number, after: top, term });
        self.later(Wait::Millis(5000), Event::FetchLate { number });
    }

    pub(crate) fn receive(&mut self, now: Moment, from: &Host, message: Message) {
        match message {
            Message::Heartbeat { run, sequence, arguments } => {
                let reply = self.coordinator.heartbeat_received(now, &arguments);
                self.send(from.clone(), Message::HeartbeatReply { run, sequence, reply });
            }
            Message::HeartbeatReply { run, sequence, reply } if run == self.run => {
                if let Some(sent) = self.sent.remove(&sequence) {
                    self.coordinator.heartbeat_answered(now, from, sequence, now.since(sent), reply);
                }
            }
            Message::Vote { run, round, arguments } => self.vote(now, from.clone(), run, round, arguments),
            Message::VoteReply { run, round, reply } if run == self.run => {
                self.coordinator.vote_answered(now, from, round, reply)
            }
            Message::Fetch { run, number, after, term } => self.serve(now, from, (run, number), after, term),
            Message::Fetched { run, number, answer } => {
                if run == self.run && self.fetch == Some(number) {
                    self.fetch = None;
                    self.take(now, from, answer);
                }
            }
            Message::Position(update) => {
                // A refusal is the answer of the command, and nobody waits for it here.
                let _ = self.coordinator.positions_received(now, &update);
            }
            // Of an earlier run.
            Message::HeartbeatReply { .. } | Message::VoteReply { .. } => {}
        }
        self.carry_out(now);
    }

    fn vote(&mut self, now: Moment, from: Host, run: u64, round: u64, arguments: RequestVotesArguments) {
        match self.coordinator.vote_requested(now, &arguments) {
            Ballot::Answer(reply) => self.send(from, Message::VoteReply { run, round, reply: Ok(reply) }),
            Ballot::StoreThenAnswer(vote, reply) => {
                self.later(Wait::Disk, Event::VoteStored { to: from, run, round, vote, reply });
            }
            Ballot::StepDownFirst => {
                self.later(Wait::Millis(50), Event::VoteAgain { from, run, round, arguments })
            }
        }
    }

    /// Another member fetches from us.
    fn serve(&mut self, now: Moment, to: &Host, (run, number): (u64, u64), after: OpTime, term: i64) {
        self.coordinator.term_seen(now, term);
        if !self.coordinator.state().is_readable() {
            return;
        }
        let found = match self.disk.log.binary_search(&after) {
            Ok(place) => Some(place + 1),
            Err(_) if after.is_null() => Some(0),
            Err(_) => None,
        };
        let entries = found.map(|from| self.disk.log[from..].iter().take(50).copied().collect());
        let log = Arc::new(if found.is_some() { Vec::new() } else { self.disk.log.clone() });
        let answer = Fetched {
            entries,
            log,
            metadata: self.coordinator.metadata(self.top()),
            query: self.coordinator.oplog_query_metadata(1),
        };
        self.send(to.clone(), Message::Fetched { run, number, answer });
    }

    fn take(&mut self, now: Moment, from: &Host, answer: Fetched) {
        if !self.may_fetch() || self.coordinator.sync_source() != Some(from) {
            return;
        }
        let Some(entries) = answer.entries else {
            self.diverged(now, &answer.log);
            return;
        };
        if entries.first().is_some_and(|first| *first <= self.top()) {
            return;
        }
        self.disk.log.extend(&entries);
        if let Some(last) = entries.last() {
            self.coordinator.applied_advanced(now, *last);
        }
        self.coordinator.source_answered(now, &answer.metadata, Some(&answer.query), true);
        if self.coordinator.should_change_sync_source(now, &answer.metadata, Some(&answer.query)) {
            self.coordinator.choose_sync_source(now, self.top());
        }
        if !self.disk.log.len().is_multiple_of(7) && !entries.is_empty() {
            self.fetch(now);
        }
    }

    /// The source lacks our newest entry: what we have and it lacks is undone, if it is ahead.
    fn diverged(&mut self, now: Moment, theirs: &[OpTime]) {
        if theirs.last().copied().unwrap_or_default() <= self.top() {
            self.lose_source(now, Duration::from_secs(1));
        } else if self.coordinator.is_catching_up() {
            self.coordinator.abort_catch_up(now).unwrap();
        } else {
            let common = self.disk.log.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
            self.rolling_back = true;
            self.coordinator.set_follower_mode(now, FollowerMode::Rollback);
            self.later(Wait::Millis(500), Event::RollbackDone { common });
        }
    }

    fn finish_rollback(&mut self, now: Moment, common: usize) {
        self.rolling_back = false;
        let cut = self.disk.log.split_off(common.min(self.disk.log.len()));
        self.effects.push(Effect::RolledBack(cut));
        self.disk.synced = self.disk.synced.min(common);
        self.generation += 1;
        let applied = self.top();
        let durable = self.disk.log.get(self.disk.synced.wrapping_sub(1)).copied().unwrap_or_default();
        self.coordinator.set_own_progress(now, Progress { applied, durable });
        self.coordinator.set_follower_mode(now, FollowerMode::Secondary);
    }

    pub(crate) fn carry_out(&mut self, now: Moment) {
        loop {
            let actions = self.coordinator.take_actions();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.act(now, action);
            }
        }
        if !self.flushing && self.disk.synced < self.disk.log.len() {
            self.flushing = true;
            let (length, generation) = (self.disk.log.len(), self.generation);
            self.later(Wait::Disk, Event::Flushed { length, generation });
        }
        let term = self.coordinator.term();
        assert!(term >= self.highest_term, "the term of {} went back", self.host);
        self.highest_term = term;
    }

    fn act(&mut self, now: Moment, action: Action) {
        match action {
            Action::SendHeartbeat { to, sequence, arguments, .. } => {
                self.sent.insert(sequence, now);
                self.send(to, Message::Heartbeat { run: self.run, sequence, arguments });
            }
            Action::RequestVote { to, round, arguments, .. } => {
                self.send(to, Message::Vote { run: self.run, round, arguments });
            }
            Action::StoreVote(vote) => {
                self.later(Wait::Disk, Event::OwnVoteStored(vote));
            }
            Action::BecomePrimary { term } => self.effects.push(Effect::Leads { term }),
            Action::Drain { term } => self.later(Wait::Short, Event::Drained { term }),
            Action::StepDown { reason } => {
                let after =
                    if reason == StepDownReason::HigherTerm { Wait::Short } else { Wait::Millis(100) };
                self.later(after, Event::SteppedDown);
            }
            Action::Progressed if !self.telling => {
                self.telling = true;
                self.later(Wait::Short, Event::SendPosition);
            }
            Action::CommitPointAdvanced(optime) => {
                let leads = self.coordinator.state() == MemberState::Primary;
                self.effects.push(Effect::Committed { optime, leads });
            }
            Action::ReconsiderSyncSource => {
                self.coordinator.choose_sync_source(now, self.top());
            }
            Action::InstallConfig(config) => {
                panic!("nobody changed the configuration, but got {}", config.version)
            }
            _ => {}
        }
    }

    /// A connection could not be made.
    pub(crate) fn unreachable(&mut self, now: Moment, from: &Host, message: &Message) {
        let failure = || Failure::new(Code::HostUnreachable, format!("connection to {from} refused"));
        match message {
            Message::Heartbeat { run, sequence, .. } if *run == self.run => {
                self.sent.remove(sequence);
                self.coordinator.heartbeat_answered(now, from, *sequence, Duration::ZERO, Err(failure()));
            }
            Message::Vote { run, round, .. } if *run == self.run => {
                self.coordinator.vote_answered(now, from, *round, Err(failure()));
            }
            Message::Fetch { run, number, .. } if *run == self.run && self.fetch == Some(*number) => {
                self.fetch = None;
                self.lose_source(now, Duration::from_secs(10));
            }
            _ => {}
        }
        self.carry_out(now);
    }
}

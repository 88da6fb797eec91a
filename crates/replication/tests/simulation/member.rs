//! One simulated member: a coordinator with its driver, a log of optimes, and a disk that keeps synced data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fathom_replication::coordinator::StepDownReason;
use fathom_replication::messages::{RequestVotesArguments, RequestVotesReply};
use fathom_replication::{
    Action, Ballot, Coordinator, CoordinatorOptions, FollowerMode, Host, LastVote, MemberState,
    MonotonicTime, OpTime, Progress, ReplicaSetConfig,
};
use fathom_wire::{Code, Failure};

use crate::wire::{FetchReply, Message};

/// A member's requests to the world.
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
    /// The member leads this term, with this log.
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

/// The duration of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// A sync of the disk.
    Disk,
    /// A short piece of work.
    Short,
    Millis(u64),
}

/// The events within a member.
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

/// The data that survive a crash.
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
    /// The number of this run of its process.
    run: u64,
    generation: u64,
    flushing: bool,
    fetch: Option<u64>,
    fetches: u64,
    rolling_back: bool,
    telling: bool,
    /// Outstanding heartbeats, with the time each was sent.
    sent: BTreeMap<u64, MonotonicTime>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) highest_term: i64,
}

impl Member {
    /// A member that starts with the contents of its disk.
    pub(crate) fn start(
        now: MonotonicTime,
        config: &ReplicaSetConfig,
        index: usize,
        mut disk: Disk,
        seed: u64,
    ) -> Member {
        disk.log.truncate(disk.synced);
        let top = disk.log.last().copied().unwrap_or_default();
        let own = Progress { applied: top, durable: top };
        let mut coordinator = Coordinator::new(CoordinatorOptions::new(&config.name, seed), disk.vote, own);
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

    /// A client writes, if the member accepts writes.
    pub(crate) fn write(&mut self, now: MonotonicTime, seconds: u64) {
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

    pub(crate) fn happen(&mut self, now: MonotonicTime, seconds: u64, event: Event) {
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

    /// A vote is on the disk, and counts from now on: no other member knew of it before. Of two concurrent votes, the later term remains.
    fn store(&mut self, vote: LastVote) {
        if self.disk.vote.is_none_or(|old| old.term < vote.term) {
            self.disk.vote = Some(vote);
        }
        self.effects.push(Effect::Voted { term: vote.term, candidate: vote.candidate_index });
    }

    fn lose_source(&mut self, now: MonotonicTime, span: Duration) {
        if let Some(source) = self.coordinator.sync_source().cloned() {
            self.coordinator.deny_sync_source(now, &source, now + span);
        }
        self.coordinator.choose_sync_source(now, self.top());
    }

    /// Whether the log accepts fetched entries.
    fn may_fetch(&self) -> bool {
        !self.rolling_back
            && match self.coordinator.state() {
                MemberState::Secondary => true,
                MemberState::Primary => self.coordinator.is_catching_up(),
                _ => false,
            }
    }

    fn fetch(&mut self, now: MonotonicTime) {
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

    pub(crate) fn receive(&mut self, now: MonotonicTime, from: &Host, message: Message) {
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
                // A refusal would be the reply of the command, which this simulation does not send.
                let _ = self.coordinator.positions_received(now, &update);
            }
            // A reply to an earlier run of this member.
            Message::HeartbeatReply { .. } | Message::VoteReply { .. } => {}
        }
        self.carry_out(now);
    }

    fn vote(
        &mut self,
        now: MonotonicTime,
        from: Host,
        run: u64,
        round: u64,
        arguments: RequestVotesArguments,
    ) {
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

    /// Answers a fetch of another member.
    fn serve(&mut self, now: MonotonicTime, to: &Host, (run, number): (u64, u64), after: OpTime, term: i64) {
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
        let answer = FetchReply {
            entries,
            log,
            metadata: self.coordinator.metadata(self.top()),
            query: self.coordinator.oplog_query_metadata(1),
        };
        self.send(to.clone(), Message::Fetched { run, number, answer });
    }

    fn take(&mut self, now: MonotonicTime, from: &Host, answer: FetchReply) {
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

    /// The source lacks our newest entry: we roll back the entries that it lacks, if it is ahead.
    fn diverged(&mut self, now: MonotonicTime, theirs: &[OpTime]) {
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

    fn finish_rollback(&mut self, now: MonotonicTime, common: usize) {
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

    pub(crate) fn carry_out(&mut self, now: MonotonicTime) {
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

    fn act(&mut self, now: MonotonicTime, action: Action) {
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
    pub(crate) fn unreachable(&mut self, now: MonotonicTime, from: &Host, message: &Message) {
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

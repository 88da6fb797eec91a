//! A test bench for one coordinator: the test plays its driver and all other members.

use std::time::Duration;

use bson::{Bson, Document, doc};
use fathom_replication::messages::{HeartbeatReply, RequestVotesReply};
use fathom_replication::{
    Action, Coordinator, CoordinatorOptions, FollowerMode, Host, LastVote, MemberState, MonotonicTime,
    OpTime, Progress, ReplicaSetConfig,
};
use fathom_wire::{Code, Failure};

/// The optime with this second and term.
pub(crate) fn at(seconds: u64, term: i64) -> OpTime {
    OpTime::new(seconds << 32 | 1, term)
}

pub(crate) fn both(optime: OpTime) -> Progress {
    Progress { applied: optime, durable: optime }
}

/// A configuration of members 0, 1, ... at `m0:27017`, ..., each with these additional fields.
pub(crate) fn config(members: &[Document], settings: Document) -> ReplicaSetConfig {
    let config = ReplicaSetConfig::parse(&config_document(members, settings)).unwrap();
    config.validate().unwrap();
    config
}

pub(crate) fn config_document(members: &[Document], settings: Document) -> Document {
    let members = members.iter().enumerate().map(|(id, fields)| {
        let mut member = doc! { "_id": i32::try_from(id).unwrap(), "host": format!("m{id}:27017") };
        member.extend(fields.clone());
        Bson::from(member)
    });
    doc! { "_id": "rs", "version": 1, "members": members.collect::<Vec<_>>(), "settings": settings }
}

pub(crate) fn plain(count: usize) -> ReplicaSetConfig {
    config(&vec![Document::new(); count], Document::new())
}

pub(crate) fn host(index: usize) -> Host {
    format!("m{index}:27017").parse().unwrap()
}

/// One coordinator, its time, the replies of the other members, and the actions that it requested.
pub(crate) struct Desk {
    pub(crate) c: Coordinator,
    pub(crate) now: MonotonicTime,
    /// The reply of each member to heartbeats; `None` if it does not answer.
    pub(crate) replies: Vec<Option<HeartbeatReply>>,
    /// All actions except heartbeats, in order.
    pub(crate) wanted: Vec<Action>,
    pub(crate) heartbeats: usize,
    /// The round-trip time of a heartbeat, by member.
    pub(crate) pings: Vec<Duration>,
}

impl Desk {
    /// Member 0 as a secondary in term 1 with an entry; all others are secondaries with the same, and answer.
    pub(crate) fn new(config: &ReplicaSetConfig) -> Desk {
        Desk::with_vote(config, None)
    }

    pub(crate) fn with_vote(config: &ReplicaSetConfig, vote: Option<LastVote>) -> Desk {
        Desk::seeded(config, vote, 7)
    }

    /// The same with another seed of its random numbers.
    pub(crate) fn seeded(config: &ReplicaSetConfig, vote: Option<LastVote>, seed: u64) -> Desk {
        let own = both(at(1000, 1));
        let mut c = Coordinator::new(CoordinatorOptions::new("rs", seed), vote, own);
        let now = MonotonicTime(Duration::from_secs(5000));
        c.config_installed(now, config.clone(), Some(0));
        c.set_follower_mode(now, FollowerMode::Secondary);
        let replies = config.members.iter().map(|member| {
            let state = if member.arbiter { MemberState::Arbiter } else { MemberState::Secondary };
            let optime = if member.arbiter { OpTime::NULL } else { own.applied };
            Some(HeartbeatReply {
                set_name: "rs".to_owned(),
                state,
                config_version: 1,
                config: None,
                term: 1,
                primary_id: None,
                syncing_to: None,
                applied: optime,
                durable: optime,
                election_time: None,
                has_data: None,
                metadata: None,
            })
        });
        let replies = replies.collect();
        let pings = vec![Duration::from_millis(1); config.members.len()];
        let mut desk = Desk { c, now, replies, wanted: Vec::new(), heartbeats: 0, pings };
        desk.carry_out();
        desk
    }

    /// The same member, elected in term 2 and writable, with its first entry at second 1001.
    pub(crate) fn primary(config: &ReplicaSetConfig) -> Desk {
        let mut desk = Desk::new(config);
        desk.run(2000);
        desk.elect();
        desk.run(100);
        desk.c.transition_completed(desk.now, at(1001, 2)).unwrap();
        desk.c.durable_advanced(desk.now, at(1001, 2));
        desk.carry_out();
        assert!(desk.c.can_accept_writes());
        desk.wanted.clear();
        desk
    }

    /// Calls an election of this member, and lets every member vote for it.
    pub(crate) fn elect(&mut self) {
        // A single member calls an election by itself.
        if self.c.standing_for().is_none() {
            self.c.step_up(self.now).unwrap();
            self.carry_out();
        }
        self.all_vote(true);
        self.store_vote();
        self.all_vote(true);
        for reply in self.replies.iter_mut().flatten() {
            reply.term = self.c.term();
        }
        assert_eq!(self.c.state(), MemberState::Primary);
    }

    pub(crate) fn reply(&mut self, index: usize) -> &mut HeartbeatReply {
        self.replies[index].as_mut().unwrap()
    }

    /// Member `index` is primary of the present term.
    pub(crate) fn has_primary(&mut self, index: usize) {
        let term = self.c.term();
        let reply = self.reply(index);
        reply.state = MemberState::Primary;
        reply.term = term;
    }

    /// Lets this number of milliseconds pass.
    pub(crate) fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        loop {
            match self.c.next_wakeup() {
                Some(next) if next <= end => self.now = self.now.max(next),
                _ => break,
            }
            self.c.tick(self.now);
            self.carry_out();
        }
        self.now = end;
        self.c.tick(self.now);
        self.carry_out();
    }

    /// Takes the actions; heartbeats are answered at once.
    pub(crate) fn carry_out(&mut self) {
        loop {
            let actions = self.c.take_actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                let Action::SendHeartbeat { to, sequence, .. } = action else {
                    self.wanted.push(action);
                    continue;
                };
                self.heartbeats += 1;
                let index = (0..self.replies.len()).find(|index| host(*index) == to).unwrap();
                let answer = self.replies[index]
                    .clone()
                    .ok_or_else(|| Failure::new(Code::HostUnreachable, "connection refused"));
                self.c.heartbeat_answered(self.now, &to, sequence, self.pings[index], answer);
            }
        }
    }

    /// The open requests for votes, each with its round.
    pub(crate) fn vote_requests(&mut self) -> Vec<(Host, u64, bool)> {
        let requests = self.wanted.iter().filter_map(|action| match action {
            Action::RequestVote { to, round, arguments, .. } => Some((to.clone(), *round, arguments.dry_run)),
            _ => None,
        });
        let requests = requests.collect();
        self.wanted.retain(|action| !matches!(action, Action::RequestVote { .. }));
        requests
    }

    /// Every member that is asked gives this vote.
    pub(crate) fn all_vote(&mut self, granted: bool) {
        let term = self.c.term();
        for (from, round, _) in self.vote_requests() {
            self.vote(&from, round, term, granted);
        }
    }

    pub(crate) fn vote(&mut self, from: &Host, round: u64, term: i64, granted: bool) {
        let reply = RequestVotesReply { term, granted, reason: String::new() };
        self.c.vote_answered(self.now, from, round, Ok(reply));
        self.carry_out();
    }

    /// Stores the pending vote, and returns its term.
    pub(crate) fn store_vote(&mut self) -> i64 {
        let vote = self.take(|action| match action {
            Action::StoreVote(vote) => Some(*vote),
            _ => None,
        });
        let vote = vote.expect("a vote to store");
        self.c.own_vote_stored(self.now, vote.term, Ok(()));
        self.carry_out();
        vote.term
    }

    /// The first action that `pick` accepts; removes it and those before it.
    pub(crate) fn take<T>(&mut self, pick: impl Fn(&Action) -> Option<T>) -> Option<T> {
        let place = self.wanted.iter().position(|action| pick(action).is_some())?;
        let found = self.wanted.drain(..=place).next_back()?;
        pick(&found)
    }

    pub(crate) fn wants(&self, which: impl Fn(&Action) -> bool) -> bool {
        self.wanted.iter().any(which)
    }
}

//! Elections: our own candidacy (eligibility, the dry run in the current term, our own vote, the election in the next term), votes
//! for other candidates, and the terms of elections (mongodb/mongo:src/mongo/db/repl/replication_coordinator_impl_elect_v1.cpp,
//! vote_requester.cpp; topology_coordinator.cpp, processReplSetRequestVotes).
//!
//! Terms only grow, and a member that learns of a later one adopts it.

use std::collections::BTreeSet;

use fathom_wire::{Code, Failure};

use super::role::{Election, ElectionStage, LeaderMode, MemberRole};
use super::{Action, Coordinator, ElectionOutcome, ElectionReason, StepDownReason};
use crate::config::ReplicaSetConfig;
use crate::host::Host;
use crate::last_vote::LastVote;
use crate::member_state::MemberState;
use crate::messages::{RequestVotesArguments, RequestVotesReply};
use crate::monotonic_time::MonotonicTime;

impl Coordinator {
    /// Calls an election now (`replSetStepUp`); [`Action::ElectionEnded`] reports its result. Fails with NodeNotElectable and
    /// the reasons.
    pub fn step_up(&mut self, now: MonotonicTime) -> Result<(), Failure> {
        let begun = self.stand(now, ElectionReason::StepUpRequest);
        self.settle(now);
        begun
    }

    /// Begins an election, if we are electable.
    pub(super) fn stand(&mut self, now: MonotonicTime, reason: ElectionReason) -> Result<(), Failure> {
        self.check_may_stand(now, reason)?;
        self.takeovers.clear();
        self.role = MemberRole::Candidate;
        let consent = match reason {
            ElectionReason::CatchUpTakeover => self.primary().cloned(),
            _ => None,
        };
        self.election = Some(Election {
            reason,
            stage: ElectionStage::DryRun,
            term: self.term.saturating_add(1),
            round: 0,
            deadline: now,
            votes: 0,
            pending: BTreeSet::new(),
            consent,
        });
        self.ask_for_votes(now, ElectionStage::DryRun);
        Ok(())
    }

    fn ask_for_votes(&mut self, now: MonotonicTime, stage: ElectionStage) {
        let (Some(config), Some(own)) = (&self.config, self.own_index) else { return };
        let Some(election) = &mut self.election else { return };
        self.sequence += 1;
        let timeout = config.settings.election_timeout;
        election.stage = stage;
        election.round = self.sequence;
        election.deadline = now + timeout;
        election.votes = usize::from(config.members.get(own).is_some_and(|member| member.is_voter()));
        let voters =
            config.members.iter().enumerate().filter(|(index, member)| *index != own && member.is_voter());
        election.pending = voters.map(|(_, member)| member.host.clone()).collect();
        let dry_run = stage == ElectionStage::DryRun;
        let arguments = RequestVotesArguments {
            set_name: config.name.clone(),
            dry_run,
            term: if dry_run { self.term } else { election.term },
            candidate_index: i64::try_from(own).unwrap_or(-1),
            config_version: config.version,
            last_applied: self.own.applied,
        };
        for to in &election.pending {
            let (to, arguments) = (to.clone(), arguments.clone());
            self.actions.push(Action::RequestVote { to, round: election.round, arguments, timeout });
        }
        self.count_votes(now);
    }

    /// A voter answered, or failed to.
    pub fn vote_answered(
        &mut self,
        now: MonotonicTime,
        from: &Host,
        round: u64,
        answer: Result<RequestVotesReply, Failure>,
    ) {
        if let Ok(reply) = &answer {
            self.note_term(now, reply.term);
        }
        if let Some(election) = &mut self.election
            && election.round == round
            && election.pending.remove(from)
        {
            let granted = answer.is_ok_and(|reply| reply.granted);
            if granted {
                election.votes += 1;
            }
            if election.stage == ElectionStage::DryRun && election.consent.as_ref() == Some(from) {
                if granted {
                    election.consent = None;
                } else {
                    self.end_election(ElectionOutcome::DryRunLost);
                }
            }
            self.count_votes(now);
        }
        self.settle(now);
    }

    /// Our own vote is stored durably, or could not be; `term` is that of the vote.
    pub fn own_vote_stored(&mut self, now: MonotonicTime, term: i64, stored: Result<(), Failure>) {
        if self
            .election
            .as_ref()
            .is_some_and(|election| election.stage == ElectionStage::Storing && election.term == term)
        {
            match stored {
                Ok(()) => self.ask_for_votes(now, ElectionStage::Voting),
                Err(_) => self.give_up(now, ElectionOutcome::VoteNotStored),
            }
        }
        self.settle(now);
    }

    fn count_votes(&mut self, now: MonotonicTime) {
        let Some(config) = &self.config else { return };
        let Some(election) = &self.election else { return };
        let enough = election.votes >= config.majority_votes();
        let consents = election.stage != ElectionStage::DryRun || election.consent.is_none();
        let over = election.pending.is_empty();
        match election.stage {
            ElectionStage::Storing => {}
            ElectionStage::DryRun if enough && consents => self.vote_for_ourselves(now),
            ElectionStage::Voting if enough => self.take_office(now),
            ElectionStage::DryRun if over => self.end_election(ElectionOutcome::DryRunLost),
            ElectionStage::Voting if over => self.end_election(ElectionOutcome::Lost),
            _ => {}
        }
    }

    /// We won the dry run: enter the next term with our own vote in it.
    fn vote_for_ourselves(&mut self, now: MonotonicTime) {
        let timeout = self.election_timeout();
        let Some(election) = &mut self.election else { return };
        election.stage = ElectionStage::Storing;
        election.deadline = now + timeout;
        let term = election.term;
        let candidate_index = self.own_index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1);
        self.last_vote = LastVote { term, candidate_index };
        self.enter_term(now, term);
        self.actions.push(Action::StoreVote(self.last_vote));
    }

    fn take_office(&mut self, now: MonotonicTime) {
        self.role = MemberRole::Leader(LeaderMode::Elect);
        self.primary_index = self.own_index;
        self.first_of_term = None;
        self.election_time = 0;
        self.election_due = None;
        self.sync_source = None;
        self.forced_source = None;
        self.takeovers.clear();
        self.trust_all(now);
        if let Some(election) = self.election.take() {
            self.actions.push(Action::ElectionEnded { term: election.term, outcome: ElectionOutcome::Won });
        }
        self.announce(now);
        self.actions.push(Action::BecomePrimary { term: self.term });
        self.start_catch_up(now);
    }

    /// Sets the time of our election, which `replSetGetStatus` and heartbeats show.
    pub fn set_election_time(&mut self, timestamp: u64) {
        self.election_time = timestamp;
    }

    pub(super) fn end_election(&mut self, outcome: ElectionOutcome) {
        if let Some(election) = self.election.take() {
            self.actions.push(Action::ElectionEnded { term: election.term, outcome });
        }
        if self.role == MemberRole::Candidate {
            self.role = MemberRole::Follower;
        }
    }

    /// Ends an election that failed on our side; a single member would try again at once.
    fn give_up(&mut self, now: MonotonicTime, outcome: ElectionOutcome) {
        self.end_election(outcome);
        self.not_alone_before = now + std::time::Duration::from_secs(1);
    }

    /// Ends the wait for votes: a member that has not answered by the deadline does not vote.
    pub(super) fn check_election_deadline(&mut self, now: MonotonicTime) {
        let Some(election) = &self.election else { return };
        if now < election.deadline {
            return;
        }
        match election.stage {
            ElectionStage::DryRun => self.end_election(ElectionOutcome::DryRunLost),
            ElectionStage::Storing => self.give_up(now, ElectionOutcome::VoteNotStored),
            ElectionStage::Voting => self.end_election(ElectionOutcome::Lost),
        }
    }

    /// Ends an election that we can no longer win.
    pub(super) fn check_candidacy(&mut self) {
        if self.role == MemberRole::Candidate && self.state() != MemberState::Secondary {
            self.end_election(ElectionOutcome::Abandoned);
        }
    }

    /// Whether we are the only member, and electable.
    fn is_alone(&self) -> bool {
        let Some(config) = &self.config else { return false };
        config.members.len() == 1
            && self.own_member().is_some_and(crate::config::Member::is_electable)
            && self.role == MemberRole::Follower
            && self.state() == MemberState::Secondary
            && !self.own.applied.is_null()
    }

    /// The earliest time at which a single member may stand for election again.
    pub(super) fn alone_at(&self) -> Option<MonotonicTime> {
        self.is_alone().then(|| self.frozen_until.max(self.not_alone_before))
    }

    /// Stands for election as a single member, which has no primary whose silence would cause an election.
    pub(super) fn stand_alone(&mut self, now: MonotonicTime) {
        if self.alone_at().is_some_and(|at| at <= now) {
            // The caller has just checked that we may stand.
            let _ = self.stand(now, ElectionReason::OnlyMember);
        }
    }

    fn check_may_stand(&self, now: MonotonicTime, reason: ElectionReason) -> Result<(), Failure> {
        let refuse = |why: String| Err(Failure::new(Code::NodeNotElectable, why));
        match self.role {
            MemberRole::Leader(_) => {
                return refuse("Not standing for election again; already primary".to_owned());
            }
            MemberRole::Candidate => {
                return refuse("Not standing for election again; already candidate".to_owned());
            }
            MemberRole::Follower => {}
        }
        let Some(own) = self.own_member() else {
            return refuse(
                "Not standing for election because node is not a member of a valid replica set configuration"
                    .to_owned(),
            );
        };
        let fresh_for_priority =
            || reason != ElectionReason::PriorityTakeover || self.is_fresh_for_priority();
        let fresh_for_catch_up = || reason != ElectionReason::CatchUpTakeover || self.is_fresh_for_catch_up();
        let against = [
            (self.own.applied.is_null(), "node has no applied oplog entries"),
            (!self.majority_is_up(), "I cannot see a majority"),
            (own.arbiter, "member is an arbiter"),
            (own.priority <= 0.0, "member has zero priority"),
            (self.frozen_until > now, "I am still waiting for stepdown period to end"),
            (self.state() != MemberState::Secondary, "member is not currently a secondary"),
            (
                !fresh_for_priority(),
                "member is not caught up enough to the most up-to-date member to call for priority takeover",
            ),
            (
                !fresh_for_catch_up(),
                "member is either not the most up-to-date member or not ahead of the primary, and therefore cannot call \
                 for catchup takeover",
            ),
        ];
        let reasons: Vec<&str> = against.iter().filter(|(is, _)| *is).map(|(_, why)| *why).collect();
        if reasons.is_empty() {
            return Ok(());
        }
        refuse(format!("Not standing for election because {}", reasons.join("; ")))
    }

    /// The reason of our current candidacy, if any.
    pub fn standing_for(&self) -> Option<ElectionReason> {
        self.election.as_ref().map(|election| election.reason)
    }
}

/// The answer to a request for our vote.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Ballot {
    /// Send this answer to the candidate.
    Answer(RequestVotesReply),
    /// Store the vote durably, then send this. If it cannot be stored, send an error: the vote is lost, and no other candidate gets
    /// it. If two votes are stored concurrently, that of the later term must remain.
    StoreThenAnswer(LastVote, RequestVotesReply),
    /// We are primary of an earlier term. Execute the actions, and ask again once `stepped_down` was called.
    StepDownFirst,
}

impl Coordinator {
    /// A candidate requests our vote, or asks in a dry run whether it would get it.
    pub fn vote_requested(&mut self, now: MonotonicTime, arguments: &RequestVotesArguments) -> Ballot {
        self.note_term(now, arguments.term);
        self.settle(now);
        if self.pending_term.is_some() {
            return Ballot::StepDownFirst;
        }
        let refusal = self.refusal(arguments);
        let reply = RequestVotesReply {
            term: self.term,
            granted: refusal.is_none(),
            reason: refusal.unwrap_or_default(),
        };
        if !reply.granted || arguments.dry_run {
            return Ballot::Answer(reply);
        }
        // The vote counts before it is stored: a second candidate must not get it in the meantime.
        self.last_vote = LastVote { term: arguments.term, candidate_index: arguments.candidate_index };
        Ballot::StoreThenAnswer(self.last_vote, reply)
    }

    /// The reason why we refuse the candidate our vote.
    fn refusal(&self, arguments: &RequestVotesArguments) -> Option<String> {
        let (Some(config), Some(own)) = (&self.config, self.own_member()) else {
            return Some("this member has no valid configuration".to_owned());
        };
        if arguments.term < self.term {
            return Some(format!("candidate's term ({}) is lower than mine ({})", arguments.term, self.term));
        }
        if arguments.config_version != config.version {
            let (theirs, ours) = (arguments.config_version, config.version);
            return Some(format!("candidate's config version ({theirs}) differs from mine ({ours})"));
        }
        if arguments.set_name != config.name {
            return Some(format!(
                "candidate's set name ({}) differs from mine ({})",
                arguments.set_name, config.name
            ));
        }
        let candidate = usize::try_from(arguments.candidate_index).ok();
        let Some(candidate) = candidate.and_then(|index| config.members.get(index)) else {
            return Some(format!("no member has the candidate's index ({})", arguments.candidate_index));
        };
        if !own.is_voter() {
            return Some("this member has no vote".to_owned());
        }
        if arguments.last_applied < self.own.applied {
            return Some(format!(
                "candidate's data is staler than mine. candidate's last applied OpTime: {}, my last applied OpTime: {}",
                arguments.last_applied, self.own.applied
            ));
        }
        // MongoDB compares for equality. A restarted member may hold a vote of a later term than its own.
        if !arguments.dry_run && self.last_vote.term >= arguments.term {
            return Some(format!(
                "already voted for another candidate ({}) this term ({})",
                host_at(config, self.last_vote.candidate_index),
                self.last_vote.term
            ));
        }
        if own.arbiter
            && let Some(host) = self.better_primary(config, candidate.priority, arguments.candidate_index)
        {
            return Some(format!("can see a healthy primary ({host}) of equal or greater priority"));
        }
        None
    }

    /// A primary that answers and has at least this priority.
    fn better_primary(&self, config: &ReplicaSetConfig, priority: f64, candidate: i64) -> Option<String> {
        let members = config.members.iter().zip(&self.peers).enumerate();
        members
            .filter(|(index, _)| i64::try_from(*index) != Ok(candidate))
            .find(|(_, (member, peer))| {
                peer.is_up() && peer.state == MemberState::Primary && member.priority >= priority
            })
            .map(|(_, (member, _))| member.host.to_string())
    }
}

fn host_at(config: &ReplicaSetConfig, index: i64) -> String {
    let member = usize::try_from(index).ok().and_then(|index| config.members.get(index));
    member.map_or_else(|| format!("index {index}"), |member| member.host.to_string())
}

impl Coordinator {
    /// Another member or a client is in this term: a client's `$replData`, a command, or a fetched entry shows it. A primary of an
    /// earlier term first steps down, then adopts the term.
    pub fn term_seen(&mut self, now: MonotonicTime, term: i64) {
        self.note_term(now, term);
        self.settle(now);
    }

    pub(super) fn note_term(&mut self, now: MonotonicTime, term: i64) {
        if self.config.is_none() || term <= self.term {
            return;
        }
        if self.is_leader() {
            self.pending_term = self.pending_term.max(Some(term));
            self.begin_step_down(StepDownReason::HigherTerm);
            return;
        }
        self.enter_term(now, term);
        if self.role == MemberRole::Candidate {
            self.end_election(ElectionOutcome::Overtaken);
        }
    }

    /// Enters a term and cancels plans for the old one.
    pub(super) fn enter_term(&mut self, now: MonotonicTime, term: i64) {
        self.term = term;
        self.takeovers.clear();
        self.restart_election_timer(now);
    }
}

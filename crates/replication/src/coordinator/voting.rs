//! Votes for others (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp, processReplSetRequestVotes).

use super::Coordinator;
use crate::config::ReplicaSetConfig;
use crate::last_vote::LastVote;
use crate::member_state::MemberState;
use crate::messages::{RequestVotesArguments, RequestVotesReply};
use crate::moment::Moment;

/// What to do with a request for our vote.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Ballot {
    /// Send this.
    Answer(RequestVotesReply),
    /// Store the vote durably, then send this. If it cannot be stored, send an error: the vote is lost, and nobody else gets it. Of two
    /// votes that are stored at one time, that of the later term must stay.
    StoreThenAnswer(LastVote, RequestVotesReply),
    /// We are primary of an earlier term. Carry out the actions, and ask again once `stepped_down` was called.
    StepDownFirst,
}

impl Coordinator {
    /// A candidate wants our vote, or in a dry run wants to know whether it would get it.
    pub fn vote_requested(&mut self, now: Moment, arguments: &RequestVotesArguments) -> Ballot {
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
        // Counted before it is stored: a second candidate must not get it meanwhile.
        self.last_vote = LastVote { term: arguments.term, candidate_index: arguments.candidate_index };
        Ballot::StoreThenAnswer(self.last_vote, reply)
    }

    /// Why the candidate does not have our vote.
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
        // MongoDB compares for equality. A vote may have outlived the term in which it was given, if its member restarted.
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

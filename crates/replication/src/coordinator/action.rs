//! The requests of a coordinator to its driver. The driver executes them in order, and reports back through the input that each names.

use std::time::Duration;

use fathom_wire::Failure;

use crate::config::ReplicaSetConfig;
use crate::host::Host;
use crate::last_vote::LastVote;
use crate::member_state::MemberState;
use crate::messages::{HeartbeatArguments, RequestVotesArguments};
use crate::optime::OpTime;

/// An action that the driver executes.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send `replSetHeartbeat`, and report its reply or failure by `heartbeat_answered` with the same sequence. A heartbeat without
    /// a report counts as failed after its timeout.
    SendHeartbeat {
        to: Host,
        /// The sequence number of the heartbeat.
        sequence: u64,
        /// The contents of the message.
        arguments: HeartbeatArguments,
        /// The time to wait for the reply.
        timeout: Duration,
    },
    /// Send `replSetRequestVotes`, and report its reply or failure by `vote_answered` with the same round.
    RequestVote {
        to: Host,
        /// The round number: a dry run and its election are two rounds.
        round: u64,
        /// The contents of the message.
        arguments: RequestVotesArguments,
        /// The time to wait for the reply.
        timeout: Duration,
    },
    /// Store our vote for ourselves durably, and report by `own_vote_stored`. We request no votes before that. A stored vote of a
    /// later term must not be overwritten.
    StoreVote(LastVote),
    /// Another member has a newer configuration. Store it durably, find this server in it, and report by `config_installed`, or by
    /// `config_refused`.
    InstallConfig(Box<ReplicaSetConfig>),
    /// Our visible state has changed: reads, hello and the monitors see the new one. The driver reports nothing back.
    StateChanged {
        /// The state before the change.
        from: MemberState,
        /// The state after the change.
        to: MemberState,
    },
    /// We won the election of this term. Pass a timestamp of the cluster time to `set_election_time`. Writes are not accepted yet:
    /// continue to fetch, first from the member that `choose_sync_source` names, until [`Action::Drain`].
    BecomePrimary {
        /// The term that we won.
        term: i64,
    },
    /// Stop fetching, so that no fetched entry follows our first entry in the log, and apply all fetched entries; then, if `may_complete_transition`
    /// with this term, write the "new primary" entry and report by `transition_completed`. Writes are accepted only after that.
    Drain {
        /// The term of the transition.
        term: i64,
    },
    /// Stop being primary: refuse writes (`can_accept_writes` already does), wait for running writes or interrupt them, close
    /// clients' connections, and report by `stepped_down`.
    StepDown { reason: StepDownReason },
    /// We stepped down as requested: have this member call an election at once (`replSetStepUp`), since it would otherwise wait for the election
    /// timeout. The result is not waited for.
    HandOver { to: Host },
    /// The pending `replSetStepDown` has failed, with this answer; writes are accepted again.
    StepDownRefused(Failure),
    /// A member progressed: check each waiting write again, and if we have a sync source, send it `update_position`.
    Progressed,
    /// The majority snapshot may advance to this entry, or to our newest entry before it.
    CommitPointAdvanced(OpTime),
    /// The sync source is no longer suitable: stop fetching from it and call `choose_sync_source`.
    ReconsiderSyncSource,
    /// Our election has ended, won or lost; `replSetStepUp` waits for this.
    ElectionEnded {
        /// The term of the election; of a dry run, the term of the election that would have followed.
        term: i64,
        /// The outcome of the election.
        outcome: ElectionOutcome,
    },
}

/// The reason why a primary steps down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDownReason {
    /// Another member is in a later term.
    HigherTerm,
    /// Too few voters answer.
    LostMajority,
    /// `replSetStepDown`; answer it with success.
    Requested,
    /// The new configuration does not let us be primary.
    Reconfigured,
}

/// The reason why a member calls an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionReason {
    /// No primary was seen for the election timeout.
    Timeout,
    /// The primary has a lower priority than ours.
    PriorityTakeover,
    /// The primary lacks entries that we have, and is slow to fetch them.
    CatchUpTakeover,
    /// The command `replSetStepUp` was received.
    StepUpRequest,
    /// The set has no other member.
    OnlyMember,
}

/// The outcome of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// A majority voted for us.
    Won,
    /// The voters refused in the dry run.
    DryRunLost,
    /// The voters refused in the election itself.
    Lost,
    /// Another member is in a later term.
    Overtaken,
    /// Our own vote could not be stored.
    VoteNotStored,
    /// The configuration changed, or we stopped being a secondary.
    Abandoned,
}

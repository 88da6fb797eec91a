//! What a coordinator asks of its driver. The driver carries them out in their order, and reports back by the input that each names.

use std::time::Duration;

use fathom_wire::Failure;

use crate::config::ReplicaSetConfig;
use crate::host::Host;
use crate::last_vote::LastVote;
use crate::member_state::MemberState;
use crate::messages::{HeartbeatArguments, RequestVotesArguments};
use crate::optime::OpTime;

/// Something to do outside.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send `replSetHeartbeat`, and report its reply or failure by `heartbeat_answered` with the same sequence. One that is not reported
    /// counts as failed after its timeout.
    SendHeartbeat {
        /// To whom.
        to: Host,
        /// Which heartbeat this is.
        sequence: u64,
        /// What to say.
        arguments: HeartbeatArguments,
        /// How long to wait for the reply.
        timeout: Duration,
    },
    /// Send `replSetRequestVotes`, and report its reply or failure by `vote_answered` with the same round.
    RequestVote {
        /// To whom.
        to: Host,
        /// Which round this is: a dry run and its election are two.
        round: u64,
        /// What to say.
        arguments: RequestVotesArguments,
        /// How long to wait for the reply.
        timeout: Duration,
    },
    /// Store our vote for ourselves durably, and report by `own_vote_stored`. No vote is asked for before that. A vote of a later term
    /// that is stored already must stay.
    StoreVote(LastVote),
    /// Another member has a newer configuration. Store it durably, find this server in it, and report by `config_installed`, or by
    /// `config_refused`.
    InstallConfig(Box<ReplicaSetConfig>),
    /// The state that we show has changed: reads, hello and the monitors see another. Nothing is to be reported.
    StateChanged {
        /// What it was.
        from: MemberState,
        /// What it is.
        to: MemberState,
    },
    /// We won the election of this term. Give `set_election_time` a timestamp of the cluster time. Writes are not accepted yet: go on
    /// fetching, first from whom `choose_sync_source` names, until [`Action::Drain`].
    BecomePrimary {
        /// The term that is ours.
        term: i64,
    },
    /// Stop fetching, so that nothing fetched comes into the log after our first entry, and apply what was fetched; then, if `may_complete_transition` with this term, write the "new primary" entry and
    /// report by `transition_completed`. Only then writes are accepted.
    Drain {
        /// The term that it is about.
        term: i64,
    },
    /// Stop being primary: refuse writes (`can_accept_writes` does already), wait for those under way or interrupt them, close clients'
    /// connections, and report by `stepped_down`.
    StepDown {
        /// Why.
        reason: StepDownReason,
    },
    /// We stepped down as asked: have this member stand for election at once (`replSetStepUp`), where it would wait for the election
    /// timeout. Nobody waits for what comes of it.
    HandOver {
        /// The member.
        to: Host,
    },
    /// The `replSetStepDown` under way has failed, with this answer; writes are accepted again.
    StepDownRefused(Failure),
    /// A member got further: ask again for each write that waits, and if we fetch from somebody, send it `update_position`.
    Progressed,
    /// What majority reads may see has grown to this entry, or to the newest that we have before it.
    CommitPointAdvanced(OpTime),
    /// The sync source is no good any more: stop fetching from it and ask `choose_sync_source`.
    ReconsiderSyncSource,
    /// An election of ours has ended, won or not; what `replSetStepUp` waits for.
    ElectionEnded {
        /// The term that it was for; in a dry run the one that it would have been for.
        term: i64,
        /// How it ended.
        outcome: ElectionOutcome,
    },
}

/// Why a primary steps down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDownReason {
    /// Somebody is in a later term.
    HigherTerm,
    /// Too few voters answer.
    LostMajority,
    /// `replSetStepDown`; answer it with success.
    Requested,
    /// The new configuration does not let us be primary.
    Reconfigured,
}

/// Why a member stands for election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionReason {
    /// No primary was seen for the election timeout.
    Timeout,
    /// The primary has a lower priority than we.
    PriorityTakeover,
    /// The primary lacks what we have, and takes long to get it.
    CatchUpTakeover,
    /// `replSetStepUp`.
    StepUpRequest,
    /// Nobody else is in the set.
    OnlyMember,
}

/// How an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// A majority voted for us.
    Won,
    /// The voters would not vote for us.
    DryRunLost,
    /// The voters did not vote for us.
    Lost,
    /// Somebody is in a later term.
    Overtaken,
    /// Our own vote could not be stored.
    VoteNotStored,
    /// The configuration changed, or we stopped being a secondary.
    Abandoned,
}

//! Steps down, by necessity or on request, and suppresses elections for a time (`replSetFreeze`)
//! (mongodb/mongo:src/mongo/db/repl/topology_coordinator.cpp: tryToStartStepDown, isSafeToStepDown, finishUnconditionalStepDown,
//! prepareFreezeResponse).

use std::time::Duration;

use bson::{Document, doc};
use fathom_wire::{Code, Failure};

use super::role::{LeaderMode, MemberRole, StepDownAttempt};
use super::{Action, Coordinator, FollowerMode, StepDownReason};
use crate::config::Member;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::monotonic_time::MonotonicTime;
use crate::optime::OpTime;
use crate::write_concern::SetProgress;

/// The arguments of `replSetStepDown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepDownRequest {
    /// The time, counted from the request, in which we do not stand for election.
    pub period: Duration,
    /// The time to wait for another electable member to have all our entries.
    pub catch_up: Duration,
    /// Whether we step down after that time even if no member has caught up.
    pub force: bool,
}

impl StepDownRequest {
    /// Reads `{replSetStepDown, force, secondaryCatchUpPeriodSecs}`, with MongoDB's defaults: 60 s for the period; for the catch-up
    /// 10 s, or none with `force`. Fails with BadValue.
    pub fn from_document(document: &Document) -> Result<StepDownRequest, Failure> {
        let refuse = |why: &'static str| Failure::new(Code::BadValue, why);
        let force = crate::fields::boolean(document, "force")?.unwrap_or(false);
        let period = match document.get("replSetStepDown").and_then(crate::fields::number) {
            None => 60,
            Some(_) => match crate::fields::integer(document, "replSetStepDown")?.unwrap_or(0) {
                0 => 60,
                given => given,
            },
        };
        let period =
            u64::try_from(period).map_err(|_| refuse("stepdown period must be a positive integer"))?;
        let usual = if force { 0 } else { period.min(10) };
        let catch_up = match crate::fields::integer(document, "secondaryCatchUpPeriodSecs")? {
            None => usual,
            Some(given) => u64::try_from(given)
                .map_err(|_| refuse("secondaryCatchUpPeriodSecs period must be a positive or absent"))?,
        };
        if catch_up > period {
            return Err(refuse("stepdown period must be longer than secondaryCatchUpPeriodSecs"));
        }
        Ok(StepDownRequest {
            period: Duration::from_secs(period),
            catch_up: Duration::from_secs(catch_up),
            force,
        })
    }
}

impl Coordinator {
    /// Begins a requested step-down. From now on no writes are accepted; it ends with [`Action::StepDown`] or
    /// [`Action::StepDownRefused`]. Fails with NotWritablePrimary, or ConflictingOperationInProgress if we are already stepping down.
    pub fn step_down_requested(
        &mut self,
        now: MonotonicTime,
        request: StepDownRequest,
    ) -> Result<(), Failure> {
        match self.role {
            MemberRole::Follower | MemberRole::Candidate => {
                return Err(Failure::new(Code::NotWritablePrimary, "not primary so can't step down"));
            }
            MemberRole::Leader(LeaderMode::SteppingDown | LeaderMode::Attempting { .. }) => {
                let what = "This node is already in the process of stepping down";
                return Err(Failure::new(Code::ConflictingOperationInProgress, what));
            }
            MemberRole::Leader(mode) => {
                self.role =
                    MemberRole::Leader(LeaderMode::Attempting { was_writable: mode == LeaderMode::Writable });
            }
        }
        self.step_down = Some(StepDownAttempt {
            wait_until: now + request.catch_up,
            step_down_until: now + request.period,
            force: request.force,
        });
        self.settle(now);
        Ok(())
    }

    /// Checks whether a requested step-down can continue, or has failed.
    pub(super) fn check_step_down(&mut self, now: MonotonicTime) {
        let Some(attempt) = self.step_down else { return };
        let MemberRole::Leader(LeaderMode::Attempting { was_writable }) = self.role else { return };
        let refusal = if now >= attempt.step_down_until {
            "By the time we were ready to step down, we were already past the time we were supposed to step down until"
        } else if attempt.force && now >= attempt.wait_until || self.is_safe_to_step_down() {
            self.step_down = None;
            self.frozen_until = attempt.step_down_until;
            let heir = self.heir().filter(|_| !attempt.force);
            self.begin_step_down(StepDownReason::Requested);
            self.actions.extend(heir.map(|to| Action::HandOver { to }));
            return;
        } else if now >= attempt.wait_until {
            "No electable secondaries caught up in time. Please use the replSetStepDown command with the argument \
             {force: true} to force node to step down."
        } else {
            return;
        };
        self.step_down = None;
        self.role = MemberRole::Leader(if was_writable { LeaderMode::Writable } else { LeaderMode::Elect });
        self.actions.push(Action::StepDownRefused(Failure::new(Code::ExceededTimeLimit, refusal)));
    }

    /// Whether a majority has all our entries, including an electable member.
    fn is_safe_to_step_down(&self) -> bool {
        let Some(config) = &self.config else { return false };
        let newest = self.own.applied;
        // Before our first entry, no write of ours can be lost.
        if newest.term != self.term {
            return true;
        }
        let progress = self.all_progress();
        let standing =
            SetProgress { config, progress: &progress, own: self.own, majority_snapshot: OpTime::NULL };
        let having =
            standing.having(newest, false).filter(|member| member.is_voter() && member.holds_data()).count();
        having >= config.write_majority() && self.heir().is_some()
    }

    /// The successor: of the electable members with all our entries the one with the highest priority, of equals the first
    /// (chooseElectionHandoffCandidate, in mongod from 4.0.2 on).
    fn heir(&self) -> Option<Host> {
        let config = self.config.as_ref()?;
        let newest = self.own.applied;
        let candidates =
            config.members.iter().zip(&self.peers).enumerate().filter(|(index, (member, peer))| {
                Some(*index) != self.own_index
                    && member.is_electable()
                    && peer.state == MemberState::Secondary
                    && peer.progress.applied >= newest
            });
        let mut best: Option<&Member> = None;
        for (_, (member, _)) in candidates {
            if best.is_none_or(|best| member.priority > best.priority) {
                best = Some(member);
            }
        }
        best.map(|member| member.host.clone())
    }

    /// Steps down unconditionally. Fails a waiting requested step-down, because another one came first.
    pub(super) fn begin_step_down(&mut self, reason: StepDownReason) {
        if !self.is_leader() || self.role == MemberRole::Leader(LeaderMode::SteppingDown) {
            return;
        }
        self.role = MemberRole::Leader(LeaderMode::SteppingDown);
        self.catch_up = None;
        if self.step_down.take().is_some() {
            self.actions.push(Action::StepDownRefused(Failure::new(
                Code::PrimarySteppedDown,
                "While waiting for secondaries to catch up before stepping down, \
                 this node decided to step down for other reasons",
            )));
        }
        self.actions.push(Action::StepDown { reason });
    }

    /// The driver has ended the writes: we are a follower from now on.
    pub fn stepped_down(&mut self, now: MonotonicTime) {
        if self.role == MemberRole::Leader(LeaderMode::SteppingDown) {
            self.role = MemberRole::Follower;
            self.follower_mode = FollowerMode::Secondary;
            self.first_of_term = None;
            self.primary_index = None;
            if let Some(term) = self.pending_term.take() {
                self.enter_term(now, term);
            }
            self.announce(now);
            self.update_primary(now, usize::MAX);
        }
        self.settle(now);
    }

    /// Stands for no election for this number of seconds (`replSetFreeze`); 0 ends it. Returns further fields of the reply. Fails
    /// with NotSecondary for a primary or candidate, and BadValue for a negative number.
    pub fn freeze(&mut self, now: MonotonicTime, seconds: i64) -> Result<Document, Failure> {
        let doing = match self.role {
            MemberRole::Follower => None,
            MemberRole::Candidate => Some("Running-Election"),
            MemberRole::Leader(_) => Some("Primary"),
        };
        if let Some(state) = doing {
            let what = format!("cannot freeze node when primary or running for election. state: {state}");
            return Err(Failure::new(Code::NotSecondary, what));
        }
        let Ok(seconds) = u64::try_from(seconds) else {
            return Err(Failure::new(
                Code::BadValue,
                "replSetFreeze takes a number of seconds, not less than 0",
            ));
        };
        let mut reply = Document::new();
        if seconds == 0 {
            self.frozen_until = now;
            reply = doc! { "info": "unfreezing" };
        } else {
            self.frozen_until = self.frozen_until.max(now + Duration::from_secs(seconds));
            if seconds == 1 {
                reply = doc! { "warning": "you really want to freeze for only 1 second?" };
            }
        }
        self.settle(now);
        Ok(reply)
    }
}

//! The progress of this and the other members, and its consequences: the commit point, and the reports to other members.

use bson::{Document, doc};
use fathom_wire::{Code, Failure};

use super::role::{LeaderMode, MemberRole};
use super::{Action, Coordinator};
use crate::commit_point::majority_optime;
use crate::config::Member;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::messages::{OplogQueryMetadata, Position, ReplicationMetadata, UpdatePosition};
use crate::monotonic_time::MonotonicTime;
use crate::optime::OpTime;
use crate::write_concern::{Progress, SetProgress, WriteConcern};

impl Coordinator {
    /// We applied, or wrote as primary, all entries up to this one. It never moves back.
    pub fn applied_advanced(&mut self, now: MonotonicTime, optime: OpTime) {
        // An entry of a later term proves that its primary was elected, even if we have not heard of that.
        self.note_term(now, optime.term);
        if optime > self.own.applied {
            self.own.applied = optime;
            self.own.durable = self.journaled.min(optime);
            self.note_progress();
        }
        self.settle(now);
    }

    /// All entries up to this one are in our journal. It never moves back. An entry that is journaled before it is applied counts once it is applied.
    pub fn durable_advanced(&mut self, now: MonotonicTime, optime: OpTime) {
        self.note_term(now, optime.term);
        self.journaled = self.journaled.max(optime);
        let durable = self.journaled.min(self.own.applied);
        if durable > self.own.durable {
            self.own.durable = durable;
            self.note_progress();
        }
        self.settle(now);
    }

    /// Sets the end of our log, which may move back after a rollback or an initial sync. Ignored on a primary, whose log only
    /// grows. A rollback is permitted only for a source whose newest entry is after ours, by term first; a rollback to before
    /// [`Coordinator::last_committed`] must stop the member instead, since it would break a promise.
    pub fn set_own_progress(&mut self, now: MonotonicTime, progress: Progress) {
        if !self.is_leader() {
            self.own =
                Progress { applied: progress.applied, durable: progress.durable.min(progress.applied) };
            self.journaled = progress.durable;
            self.note_progress();
        }
        self.settle(now);
    }

    /// Our own progress so far.
    pub fn own_progress(&self) -> Progress {
        self.own
    }

    /// Takes the positions that downstream members report. Fails with NotPrimaryOrSecondary if we are in no set,
    /// InvalidReplicaSetConfig for another version of the configuration, NodeNotFound for a member that it does not contain.
    pub fn positions_received(&mut self, now: MonotonicTime, update: &UpdatePosition) -> Result<(), Failure> {
        // This comes before the positions: the entries of a member in a later term may belong to another history.
        if let Some(metadata) = &update.metadata {
            self.note_term(now, metadata.term);
            self.note_metadata(metadata);
        }
        let mut further = false;
        let result = update.positions.iter().try_for_each(|position| {
            further |= self.take_position(now, position)?;
            Ok(())
        });
        if further {
            self.note_progress();
        }
        self.settle(now);
        result
    }

    /// Takes one position. Returns whether the member progressed.
    fn take_position(&mut self, now: MonotonicTime, position: &Position) -> Result<bool, Failure> {
        let (Some(config), Some(own)) = (&self.config, self.own_index) else {
            let what = "Received replSetUpdatePosition command but we are in no replica set configuration";
            return Err(Failure::new(Code::NotPrimaryOrSecondary, what));
        };
        let id = position.member_id;
        let index = config.index_of_id(id);
        // No member reports our own progress to us.
        if index == Some(own) {
            return Ok(false);
        }
        if position.config_version != config.version {
            let what = format!(
                "Received replSetUpdatePosition for node with memberId {id} whose config version of {} doesn't match our \
                 config version of {}",
                position.config_version, config.version
            );
            return Err(
                Failure::new(Code::InvalidReplicaSetConfig, what).with("configVersion", config.version)
            );
        }
        let Some(peer) = index.and_then(|index| self.peers.get_mut(index)) else {
            let what = format!(
                "Received replSetUpdatePosition for node with memberId {id} which doesn't exist in our config"
            );
            return Err(Failure::new(Code::NodeNotFound, what));
        };
        peer.heard_of(now);
        Ok(peer.advance(position.progress))
    }

    /// The report to our sync source: our progress, and all reports from downstream. `None` without a set.
    pub fn update_position(&self) -> Option<UpdatePosition> {
        let config = self.config.as_ref()?;
        let own = self.own_index?;
        let members = config.members.iter().zip(&self.peers).enumerate();
        let positions = members
            .filter(|(index, (_, peer))| *index == own || !peer.stale)
            .map(|(index, (member, _))| (member, self.progress_of(index)))
            .filter(|(_, progress)| !progress.applied.is_null())
            .map(|(member, progress)| Position {
                member_id: i64::from(member.id),
                config_version: config.version,
                progress,
            });
        let positions = positions.collect();
        Some(UpdatePosition { positions, metadata: Some(self.metadata(self.own.applied)) })
    }

    /// A member progressed: checks waiting writes and the commit point again.
    pub(super) fn note_progress(&mut self) {
        self.update_commit_point();
        if !matches!(self.actions.last(), Some(Action::Progressed)) {
            self.actions.push(Action::Progressed);
        }
    }

    /// On a primary, advances the commit point to the newest entry of our term that a majority has. It still advances while
    /// `replSetStepDown` waits, since that may wait for it; not once we know of a later term.
    pub(super) fn update_commit_point(&mut self) {
        let MemberRole::Leader(mode) = self.role else { return };
        let (Some(config), Some(first)) = (&self.config, self.first_of_term) else { return };
        if mode == LeaderMode::SteppingDown {
            return;
        }
        let Some(optime) = majority_optime(config, &self.all_progress(), self.term) else { return };
        if optime >= first {
            self.advance_commit_point(optime);
        }
    }

    /// Takes a commit point that another member knows. From a sync source whose log contains ours, it holds for us up to our own newest
    /// entry; from any other member only if our newest entry is of the same term, and so of the same history
    /// (SERVER-39831, which closed this in 4.2).
    fn learn_commit_point(&mut self, optime: OpTime, from_source: bool) {
        let Some(own) = self.own_member() else { return };
        if self.is_leader() || optime.is_null() {
            return;
        }
        if own.arbiter || self.own.applied.term == optime.term {
            self.advance_commit_point(optime);
        } else if from_source {
            self.advance_commit_point(optime.min(self.own.applied));
        }
    }

    fn advance_commit_point(&mut self, optime: OpTime) {
        if optime <= self.last_committed {
            return;
        }
        self.last_committed = optime;
        if let Some(Action::CommitPointAdvanced(last)) = self.actions.last_mut() {
            *last = optime;
        } else {
            self.actions.push(Action::CommitPointAdvanced(optime));
        }
    }

    /// The commit point, as far as we know it. It may be ahead of our own log.
    pub fn last_committed(&self) -> OpTime {
        self.last_committed
    }

    /// The sync source answered a fetch with this metadata. To be called after the entries were put into the log and reported by
    /// `applied_advanced`, or before; never with the metadata of a source whose log was not yet compared with ours. `is_ours` says
    /// whether its log has the entry that we applied last: it lacks an entry that we wrote as primary after the logs were compared.
    pub fn source_answered(
        &mut self,
        now: MonotonicTime,
        metadata: &ReplicationMetadata,
        query: Option<&OplogQueryMetadata>,
        is_ours: bool,
    ) {
        self.note_term(now, metadata.term);
        self.learn_commit_point(metadata.last_committed, is_ours);
        if let Some(query) = query {
            self.learn_commit_point(query.last_committed, is_ours);
        }
        if metadata.term == self.term
            && query.map_or(metadata.primary_index, |query| query.primary_index).is_some()
        {
            self.primary_is_known(now);
        }
        self.settle(now);
    }

    /// Takes the `$replData` of a command or reply of any member.
    pub fn metadata_received(&mut self, now: MonotonicTime, metadata: &ReplicationMetadata) {
        self.note_term(now, metadata.term);
        self.note_metadata(metadata);
        self.settle(now);
    }

    pub(super) fn note_metadata(&mut self, metadata: &ReplicationMetadata) {
        self.learn_commit_point(metadata.last_committed, false);
    }

    /// Our own `$replData`; `visible` is the newest entry that clients may read here.
    pub fn metadata(&self, visible: OpTime) -> ReplicationMetadata {
        let config = self.config.as_ref();
        ReplicationMetadata {
            term: self.term,
            last_committed: self.last_committed,
            last_visible: visible,
            config_version: config.map_or(crate::config::NO_VERSION, |config| config.version),
            replica_set_id: config.and_then(|config| config.settings.replica_set_id),
            primary_index: self.primary_index,
            sync_source_index: self.source_index(),
        }
    }

    /// The `$oplogQueryData` that this member sends.
    pub fn oplog_query_metadata(&self, rollback_id: i64) -> OplogQueryMetadata {
        OplogQueryMetadata {
            last_committed: self.last_committed,
            last_applied: self.own.applied,
            rollback_id,
            primary_index: self.primary_index,
            sync_source_index: self.source_index(),
        }
    }

    fn source_index(&self) -> Option<usize> {
        self.config.as_ref()?.index_of_host(self.sync_source.as_ref()?)
    }

    /// Whether the write at `optime` satisfies its write concern; `majority_snapshot` is the newest entry that majority reads see. Fails
    /// with PrimarySteppedDown once we are not primary of its term, and with the codes of [`WriteConcern::check_satisfiable`].
    pub fn is_write_concern_satisfied(
        &self,
        concern: &WriteConcern,
        optime: OpTime,
        majority_snapshot: OpTime,
    ) -> Result<bool, Failure> {
        let stepped_down =
            || Failure::new(Code::PrimarySteppedDown, "Primary stepped down while waiting for replication");
        let config = self.config.as_ref().ok_or_else(stepped_down)?;
        if self.state() != MemberState::Primary || optime.term != self.term || self.pending_term.is_some() {
            return Err(stepped_down());
        }
        concern.check_satisfiable(config)?;
        let progress = self.all_progress();
        concern.is_satisfied(
            optime,
            &SetProgress { config, progress: &progress, own: self.own, majority_snapshot },
        )
    }

    /// The journal position of every member, as far as we know it: `serverStatus` shows it as `replicationProgress`.
    pub fn replication_progress(&self) -> Vec<Document> {
        let members = self.config.iter().flat_map(|config| config.members.iter().enumerate());
        let entry = |(index, member): (usize, &Member)| {
            doc! {
                "host": member.host.as_str(),
                "optime": self.progress_of(index).durable.to_document(),
                "memberId": member.id,
            }
        };
        members.map(entry).collect()
    }

    /// The members that have an entry, by `host`: `getLastError` and the status of writes name them.
    pub fn hosts_having(&self, optime: OpTime, durable: bool) -> Vec<Host> {
        let members = self.config.iter().flat_map(|config| config.members.iter().enumerate());
        members
            .filter(|(index, _)| {
                let progress = self.progress_of(*index);
                (if durable { progress.durable } else { progress.applied }) >= optime
            })
            .map(|(_, member)| member.host.clone())
            .collect()
    }
}

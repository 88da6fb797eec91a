//! How far we and others are, and what follows: the commit point, and who is told.

use bson::{Document, doc};
use fathom_wire::{Code, Failure};

use super::role::{LeaderMode, Role};
use super::{Action, Coordinator};
use crate::commit_point::majority_optime;
use crate::config::Member;
use crate::host::Host;
use crate::member_state::MemberState;
use crate::messages::{OplogQueryMetadata, Position, ReplicationMetadata, UpdatePosition};
use crate::moment::Moment;
use crate::optime::OpTime;
use crate::write_concern::{Progress, Standing, WriteConcern};

impl Coordinator {
    /// We applied, or wrote as primary, all up to this entry. Never goes back.
    pub fn applied_advanced(&mut self, now: Moment, optime: OpTime) {
        // An entry of a later term: its primary was elected, whether or not anybody told us.
        self.note_term(now, optime.term);
        if optime > self.own.applied {
            self.own.applied = optime;
            self.own.durable = self.journaled.min(optime);
            self.note_progress();
        }
        self.settle(now);
    }

    /// All up to this entry is in our journal. Never goes back. What is journaled before it is applied counts once it is.
    pub fn durable_advanced(&mut self, now: Moment, optime: OpTime) {
        self.note_term(now, optime.term);
        self.journaled = self.journaled.max(optime);
        let durable = self.journaled.min(self.own.applied);
        if durable > self.own.durable {
            self.own.durable = durable;
            self.note_progress();
        }
        self.settle(now);
    }

    /// Our log ends here: after a rollback or an initial sync, also earlier than before. Ignored while we lead, whose log only grows.
    /// A rollback is only for a source whose newest entry is after ours, by term first; and one that would end before
    /// [`Coordinator::last_committed`] must stop the member instead, since then somebody broke a promise.
    pub fn set_own_progress(&mut self, now: Moment, progress: Progress) {
        if !self.is_leader() {
            self.own =
                Progress { applied: progress.applied, durable: progress.durable.min(progress.applied) };
            self.journaled = progress.durable;
            self.note_progress();
        }
        self.settle(now);
    }

    /// How far we are.
    pub fn own_progress(&self) -> Progress {
        self.own
    }

    /// Members downstream say how far they are. Fails with NotPrimaryOrSecondary where we are in no set, InvalidReplicaSetConfig for
    /// another version of the configuration, NodeNotFound for a member that is not in it.
    pub fn positions_received(&mut self, now: Moment, update: &UpdatePosition) -> Result<(), Failure> {
        // Before the positions: what a member of a later term has may be another history.
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

    /// Takes one position. Says whether the member got further.
    fn take_position(&mut self, now: Moment, position: &Position) -> Result<bool, Failure> {
        let (Some(config), Some(own)) = (&self.config, self.own_index) else {
            let what = "Received replSetUpdatePosition command but we are in no replica set configuration";
            return Err(Failure::new(Code::NotPrimaryOrSecondary, what));
        };
        let id = position.member_id;
        let index = config.index_of_id(id);
        // Nobody tells us how far we are.
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

    /// What we tell our sync source: how far we are, and all that we know of downstream. `None` where there is no set.
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

    /// Somebody got further: waiting writes are looked at again, and the commit point.
    pub(super) fn note_progress(&mut self) {
        self.update_commit_point();
        if !matches!(self.actions.last(), Some(Action::Progressed)) {
            self.actions.push(Action::Progressed);
        }
    }

    /// As primary, advances the commit point to what a majority has of our term. While `replSetStepDown` waits it still advances, since
    /// that may wait for it; not when we know of a later term.
    pub(super) fn update_commit_point(&mut self) {
        let Role::Leader(mode) = self.role else { return };
        let (Some(config), Some(first)) = (&self.config, self.first_of_term) else { return };
        if mode == LeaderMode::SteppingDown {
            return;
        }
        let Some(optime) = majority_optime(config, &self.all_progress(), self.term) else { return };
        if optime >= first {
            self.advance_commit_point(optime);
        }
    }

    /// Takes a commit point that somebody else knows. From a sync source whose log ours is a part of, it holds for us up to our own newest
    /// entry; from anybody else only where our newest entry is of the same term, and so of the same history
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

    /// The commit point, as far as we know. It may be ahead of our own log.
    pub fn last_committed(&self) -> OpTime {
        self.last_committed
    }

    /// The sync source answered a fetch with these beside its entries. To be called after the entries were put into the log and reported
    /// by `applied_advanced`, or before; never with those of a source whose log was not yet compared with ours. `is_ours` says whether its
    /// log has the entry that we applied last: one that we wrote as primary after the logs were compared, it has not.
    pub fn source_answered(
        &mut self,
        now: Moment,
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

    /// `$replData` came beside a command or reply of any member.
    pub fn metadata_received(&mut self, now: Moment, metadata: &ReplicationMetadata) {
        self.note_term(now, metadata.term);
        self.note_metadata(metadata);
        self.settle(now);
    }

    pub(super) fn note_metadata(&mut self, metadata: &ReplicationMetadata) {
        self.learn_commit_point(metadata.last_committed, false);
    }

    /// `$replData` of ours; `visible` is the newest entry that clients may read here.
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

    /// `$oplogQueryData` of ours.
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

    /// Whether the write at `optime` fulfils its write concern; `majority_snapshot` is the newest entry that majority reads see. Fails
    /// with PrimarySteppedDown once we are no primary of its term, and with the codes of [`WriteConcern::check_satisfiable`].
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
        concern
            .is_satisfied(optime, &Standing { config, progress: &progress, own: self.own, majority_snapshot })
    }

    /// How far the journal of every member is, as far as we were told: what `serverStatus` shows as `replicationProgress`.
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

    /// Which members have an entry, by `host`: what `getLastError` and the status of writes name.
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

//! The driver, which carries out the coordinator's decisions.
//!
//! One thread executes the actions in order. Actions that may take long (a heartbeat, a vote, a drain) run on threads of their
//! own, which report the result to the coordinator.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{doc, rawdoc};
use fathom_query::{Code, Failure};
use fathom_replication::coordinator::StepDownReason;
use fathom_replication::{Action, Host, MemberState, OpTime, ReplicaSetConfig};

use super::links::{HeartbeatLink, own_index};
use super::store;
use crate::Result;
use crate::instance::Instance;
use crate::replica_set::{ChangeKind, LoggedChange, OplogRole, ReplicaSetState};

/// The interval at which the driver checks whether the server stops.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Runs until the server stops.
pub(super) fn run(instance: &Arc<Instance>) {
    let Some(set) = &instance.set else { return };
    let mut driver = ReplicationExecutor { instance, set, links: HashMap::new() };
    while !instance.is_stopping() {
        for action in set.next_actions(Instant::now() + CHECK_INTERVAL) {
            if let Err(failure) = driver.act(action) {
                driver.log("REPL", "a replica set member could not act", &failure);
            }
        }
    }
}

struct ReplicationExecutor<'i> {
    instance: &'i Arc<Instance>,
    set: &'i Arc<ReplicaSetState>,
    links: HashMap<Host, HeartbeatLink>,
}

impl ReplicationExecutor<'_> {
    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::SendHeartbeat { to, sequence, arguments, timeout } => {
                let link = self.link(&to);
                link.heartbeat(sequence, arguments.to_document(), timeout);
            }
            Action::RequestVote { to, round, arguments, timeout } => {
                super::links::request_vote(self.instance, &to, round, arguments.to_document(), timeout);
            }
            Action::StoreVote(vote) => {
                let stored = store::set_vote(self.instance, vote);
                self.set.tell(|coordinator, now| coordinator.own_vote_stored(now, vote.term, stored));
            }
            Action::InstallConfig(config) => self.install(*config)?,
            Action::StateChanged { from, to } => self.state_changed(from, to),
            Action::BecomePrimary { .. } => {
                let stamp = self.set.oplog().clock().last();
                self.set.tell(|coordinator, _| coordinator.set_election_time(stamp));
                self.set.announce();
            }
            // The applier drains, and completes the transition.
            Action::Drain { .. } => self.set.announce(),
            Action::ReconsiderSyncSource => {
                self.set.stop_fetching();
                self.set.announce();
            }
            Action::StepDown { reason } => self.step_down(reason),
            Action::HandOver { to } => super::links::step_up(self.instance, &to),
            Action::StepDownRefused(failure) => {
                self.set.outcomes.lock().refused = Some(failure);
                self.set.announce();
            }
            Action::Progressed | Action::CommitPointAdvanced(_) => {
                self.set.announce();
                // Members that follow our oplog learn the commit point at once.
                self.set.oplog().announce();
            }
            Action::ElectionEnded { outcome, .. } => {
                let mut outcomes = self.set.outcomes.lock();
                outcomes.elections += 1;
                outcomes.election = Some(outcome);
                drop(outcomes);
                self.set.announce();
            }
        }
        Ok(())
    }

    fn link(&mut self, to: &Host) -> &HeartbeatLink {
        let instance = self.instance;
        self.links.entry(to.clone()).or_insert_with(|| HeartbeatLink::start(instance, to))
    }

    /// Adopts a configuration that another member has.
    fn install(&mut self, config: ReplicaSetConfig) -> Result<()> {
        let version = config.version;
        let own = match own_index(self.instance, &config) {
            Ok(own) => own,
            Err(failure) => {
                self.set.tell(|coordinator, _| coordinator.config_refused(version));
                return Err(failure);
            }
        };
        if let Err(failure) = store::set_config(self.instance, &config) {
            self.set.tell(|coordinator, _| coordinator.config_refused(version));
            return Err(failure);
        }
        self.links.retain(|host, _| config.members.iter().any(|member| member.host == *host));
        self.set.tell(|coordinator, now| coordinator.config_installed(now, config, own));
        self.set.announce();
        Ok(())
    }

    fn state_changed(&self, from: MemberState, to: MemberState) {
        let attributes = doc! { "newState": to.name(), "oldState": from.name() };
        self.instance.log.info("REPL", 21358, "ReplCoord", "Replica set state transition", attributes);
        self.set.announce();
        if to == MemberState::Rollback || to == MemberState::Recovering {
            close_clients(self.instance);
        }
    }

    /// Writes end first: the role changes only between transactions.
    fn step_down(&self, reason: StepDownReason) {
        let role = self.set.oplog().role();
        self.set.oplog().set_role(OplogRole { writable: false, ..role });
        let attributes = doc! { "reason": format!("{reason:?}"), "term": role.term };
        self.instance.log.info("REPL", 21475, "ReplCoord", "Stepping down from primary", attributes);
        close_clients(self.instance);
        self.set.tell(|coordinator, now| coordinator.stepped_down(now));
        let mut outcomes = self.set.outcomes.lock();
        outcomes.step_downs += 1;
        outcomes.refused = None;
        drop(outcomes);
        self.set.announce();
    }

    fn log(&self, component: &'static str, what: &'static str, failure: &Failure) {
        self.instance.log.warning(component, 21360, "ReplCoord", what, doc! { "error": failure.message() });
    }
}

/// Closes clients' connections, as a 4.0 member does when it steps down; those of other members stay open.
fn close_clients(instance: &Instance) {
    for client in instance.clients.all() {
        if !client.is_member() {
            client.close_soon();
        }
    }
}

/// Writes the first entry of a term; writes are accepted from then on.
pub(super) fn complete_transition(instance: &Instance, set: &ReplicaSetState, term: i64) -> Result<()> {
    if !set.ask(|coordinator| coordinator.may_complete_transition(term)) {
        return Ok(());
    }
    instance.sharding.known.forget_all();
    set.oplog().set_role(OplogRole { writable: true, term });
    // Clients cannot write yet, so no `$out` of this term has begun.
    let cleared = instance.catalog.drop_temporary();
    let first = cleared.and_then(|()| note(instance, rawdoc! { "msg": "new primary" }));
    match first {
        Ok(first) => {
            let result = set.tell(|coordinator, now| {
                coordinator.applied_advanced(now, first);
                coordinator.transition_completed(now, first)
            });
            if result.is_err() {
                set.oplog().set_role(OplogRole { writable: false, term });
            } else {
                let attributes = doc! { "term": term };
                instance.log.info(
                    "REPL",
                    21331,
                    "OplogApplier",
                    "Transition to primary complete; database writes are now permitted",
                    attributes,
                );
            }
            set.announce();
            result
        }
        Err(failure) => {
            set.oplog().set_role(OplogRole { writable: false, term });
            Err(failure)
        }
    }
}

/// Writes an entry that changes nothing, and returns its timestamp.
pub(crate) fn note(instance: &Instance, what: bson::RawDocumentBuf) -> Result<OpTime> {
    let set = instance.set.as_ref().ok_or_else(|| Failure::new(Code::NoReplicationEnabled, "no set"))?;
    let session = instance.engine.session()?;
    session.begin()?;
    let changes = [LoggedChange::new(ChangeKind::Noop, "", what)];
    let logged = set.oplog().log(&*session, &changes)?;
    session.commit(fathom_engine::Durability::Buffered)?;
    let logged = logged.ok_or_else(crate::replica_set::not_primary)?;
    Ok(logged.committed(|_, _| {}))
}

/// Keeps an idle primary's oplog growing, so that others can tell it from a primary that is down: writes an entry after 10
/// s without any (`periodicNoopIntervalSecs`).
pub(super) fn write_noops(instance: &Arc<Instance>) {
    const NOOP_INTERVAL: Duration = Duration::from_secs(10);
    let Some(set) = &instance.set else { return };
    let mut seen = set.oplog().clock().last();
    let mut since = Instant::now();
    while !instance.is_stopping() {
        let heard = instance.bell.rings();
        instance.bell.sleep_since(heard, Some(Instant::now() + Duration::from_secs(1)));
        let last = set.oplog().clock().last();
        if last != seen {
            seen = last;
            since = Instant::now();
        } else if since.elapsed() >= NOOP_INTERVAL && set.is_writable() {
            // After a failure the next attempt is ten seconds later.
            let _ = note(instance, rawdoc! { "msg": "periodic noop" });
        }
    }
}

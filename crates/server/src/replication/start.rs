//! Starts a member: restores its stored state, replays oplog entries that the data lacks, and starts its threads.

use std::sync::Arc;
use std::thread::JoinHandle;

use bson::doc;
use fathom_errors::{Error, Kind};
use fathom_query::Failure;
use fathom_replication::{FollowerMode, OpTime, Progress, ReplicaSetConfig};
use fathom_service::spawn_thread;

use super::apply::{Applier, ApplyMode};
use super::fetch::Buffer;
use super::links::own_index;
use super::{driver, follow, progress, store, trim};
use crate::Result;
use crate::checkpoint;
use crate::instance::Instance;
use crate::replica_set::{OPLOG, Oplog, ReplicaSetState};

/// The number of entries read at once in a replay.
const REPLAY_ENTRIES: usize = 5000;

/// Opens the oplog and brings the data up to its end, before the first connection.
pub(crate) fn recover(instance: &Arc<Instance>) -> Result<(), Error> {
    let Some(set) = &instance.set else { return Ok(()) };
    let failed = |failure: Failure| {
        Error::new(Kind::Corruption, format!("the member cannot be recovered: {}", failure.message()))
    };
    open(instance, set).map_err(failed)
}

fn open(instance: &Arc<Instance>, set: &Arc<ReplicaSetState>) -> Result<()> {
    let session = instance.engine.session()?;
    let mut own = Progress::default();
    if let Some(collection) = instance.catalog.get(OPLOG) {
        let ends = Oplog::ends(&*session, &collection)?;
        set.oplog().open(collection, ends);
        if let Some((_, last)) = ends {
            own = Progress { applied: last, durable: last };
            replay(instance, set, last)?;
        }
    }
    let oplog = Arc::clone(set.oplog());
    instance.catalog.set_observer(oplog);
    let rollback_id = store::rollback_id(instance)?;
    let is_config = instance.config.cluster_role == crate::ClusterRole::Config;
    set.restore(is_config, store::vote(instance)?, own, rollback_id);
    super::store::reload_transactions(instance, set)
}

/// Applies the oplog entries after the last checkpoint.
fn replay(instance: &Arc<Instance>, set: &ReplicaSetState, last: OpTime) -> Result<()> {
    let validity = checkpoint::validity(instance)?.unwrap_or_default();
    set.set_minimum(validity.minimum);
    if validity.copying || validity.applied.is_null() || validity.applied >= last {
        return Ok(());
    }
    let session = instance.engine.session()?;
    let mut applier = Applier::new(instance, instance.parameters.replication_writers())?;
    let (mut from, mut count) = (validity.applied.timestamp, 0);
    loop {
        let entries = set.oplog().after(&*session, from, REPLAY_ENTRIES)?;
        let Some(end) = entries.last() else { break };
        from = end.at.timestamp;
        count += entries.len();
        applier.apply(&entries, ApplyMode::Relaxed)?;
    }
    let attributes = doc! {
        "from": validity.applied.to_string(),
        "to": last.to_string(),
        "entries": i64::try_from(count).unwrap_or(i64::MAX),
    };
    instance.log.info(
        "REPL",
        21550,
        "initandlisten",
        "Replayed the oplog after the last checkpoint",
        attributes,
    );
    Ok(())
}

/// Joins the set, if a configuration is stored, and starts the threads. The port is known by now.
pub(crate) fn start(instance: &Arc<Instance>) -> Result<Vec<JoinHandle<()>>, Error> {
    let Some(set) = &instance.set else { return Ok(Vec::new()) };
    let failed = |failure: Failure| Error::new(Kind::Corruption, failure.message().to_owned());
    if let Some(config) = store::config(instance).map_err(failed)? {
        join(instance, set, config).map_err(failed)?;
    }
    let buffer = Arc::new(Buffer::default());
    let (fetched, applied) = (Arc::clone(&buffer), buffer);
    Ok(vec![
        spawn_thread("ReplCoord", instance, driver::run)?,
        spawn_thread("OplogVisibility", instance, progress::publish_all)?,
        spawn_thread("BackgroundSync", instance, move |instance| follow::fetch(instance, &fetched))?,
        spawn_thread("OplogApplier", instance, move |instance| follow::apply(instance, &applied))?,
        spawn_thread("SyncSourceFeedback", instance, super::progress::report)?,
        spawn_thread("NoopWriter", instance, driver::write_noops)?,
        spawn_thread("OplogTruncater", instance, trim::run)?,
    ])
}

/// Gives the coordinator a stored configuration.
pub(crate) fn join(
    instance: &Arc<Instance>,
    set: &Arc<ReplicaSetState>,
    config: ReplicaSetConfig,
) -> Result<()> {
    let own = own_index(instance, &config)?;
    let attributes = doc! { "config": config.to_document() };
    instance.log.info("REPL", 21392, "initandlisten", "New replica set config in use", attributes);
    let has_data = set.oplog().collection().is_some();
    set.tell(|one, now| one.config_installed(now, config, own));
    if has_data {
        let at = set.ask(|one| one.own_progress().applied);
        let validity = checkpoint::validity(instance)?.unwrap_or_default();
        let mode = match validity {
            validity if validity.copying => FollowerMode::Startup2,
            validity if at >= validity.minimum => FollowerMode::Secondary,
            _ => FollowerMode::Recovering,
        };
        set.tell(|one, now| one.set_follower_mode(now, mode));
    }
    Ok(())
}

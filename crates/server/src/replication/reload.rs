//! The statements of retryable writes, learnt again from the oplog.

use super::ReplicaSet;
use crate::Result;
use crate::instance::Instance;

/// Learns all again, after a start, a copy or a rollback.
pub(super) fn reload_transactions(instance: &Instance, set: &ReplicaSet) -> Result<()> {
    set.transactions().forget();
    if set.oplog().collection().is_none() {
        return Ok(());
    }
    let session = instance.engine.session()?;
    set.transactions().learn_all(set.oplog(), &*session)
}

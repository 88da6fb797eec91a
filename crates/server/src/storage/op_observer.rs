//! The interface for observers of catalog changes. Storage reports changes without knowing the receiver: a member of a replica set logs them for the
//! other members, a standalone server has no observer. (mongod's `OpObserver` also receives changes of documents; here operations record those.)

use bson::Document;
use fathom_engine::{Durability, Session};

use super::Collection;
use crate::Result;

/// Receives changes of the catalog before they are committed.
pub(crate) trait OpObserver: std::fmt::Debug + Send + Sync {
    /// A collection changes by these commands: records them in the session's open transaction, and commits that. The observer
    /// commits, since the positions of its records are settled only then. A failure leaves the transaction open.
    fn on_commands(
        &self,
        session: &dyn Session,
        collection: &Collection,
        commands: &[Document],
        durability: Durability,
    ) -> Result<()>;
}

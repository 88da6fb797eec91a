//! Who hears of changes of the catalog. Storage reports them and does not know for whom: a member of a replica set logs them for the other
//! members, a server that stands alone has no observer. (mongod's `OpObserver`, which hears of documents too; here operations note those.)

use bson::Document;
use fathom_engine::{Durability, Session};

use super::Collection;
use crate::Result;

/// Hears of changes of the catalog before they are committed.
pub(crate) trait OpObserver: std::fmt::Debug + Send + Sync {
    /// A collection changes by these commands: notes them in the session's open transaction, and commits that. The observer commits,
    /// since the place of what it noted is settled only then. A failure leaves the transaction open.
    fn on_commands(
        &self,
        session: &dyn Session,
        collection: &Collection,
        commands: &[Document],
        durability: Durability,
    ) -> Result<()>;
}

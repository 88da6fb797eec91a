//! The identity of the server in a cluster: `shardIdentity` in `admin.system.version`, which `addShard` writes.

use std::sync::Arc;

use bson::{Document, RawBson, RawDocumentBuf, doc};
use fathom_client::AddressList;
use fathom_query::{Code, Failure, Filter, Update};

use crate::Result;
use crate::config::ClusterRole;
use crate::cursors::{FindQuery, FindState};
use crate::execution::{BatchEffect, UpdateRequest, WriteTarget, update};
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::sharding_state::{ConfigServers, ShardIdentity, Sharding};

const COLLECTION: &str = "admin.system.version";
const ID: &str = "shardIdentity";

fn of_document(document: &Document) -> Result<ShardIdentity> {
    let wrong = |what: &str| {
        Failure::new(Code::UnsupportedFormat, format!("the shardIdentity document has no good '{what}'"))
    };
    let hosts =
        document.get_str("configsvrConnectionString").map_err(|_| wrong("configsvrConnectionString"))?;
    let hosts: AddressList = hosts.parse().map_err(|_| wrong("configsvrConnectionString"))?;
    Ok(ShardIdentity {
        shard: document.get_str("shardName").map_err(|_| wrong("shardName"))?.to_owned(),
        cluster: document.get_object_id("clusterId").map_err(|_| wrong("clusterId"))?,
        config: ConfigServers::new(hosts),
    })
}

/// The document, if it exists.
fn find(op: &mut OperationContext<'_>) -> Result<Option<Document>> {
    let Some(collection) = op.instance.catalog.get(COLLECTION) else { return Ok(None) };
    let state = op.lock(&collection)?;
    let filter = parse::filter_of(&doc! { "_id": ID })?;
    let mut query = FindQuery::new(filter);
    query.limit = Some(1);
    let mut found: Option<RawDocumentBuf> = None;
    FindState::new(op, &state, query)?.fill(op, &collection, &state, &mut |document| {
        found = Some(document.to_owned());
        Ok(BatchEffect::Last)
    })?;
    found.map(|found| parse::owned(&found)).transpose()
}

/// Reads the identity, in a session of its own.
pub(super) fn read(instance: &Instance) -> Result<Option<ShardIdentity>> {
    let Some(instance) = instance.itself() else { return Ok(None) };
    let session = instance.engine.session()?;
    let client = crate::client::Client::internal();
    let mut op = OperationContext::new(&instance, &*session, &client);
    let found = find(&mut op)?;
    found.as_ref().map(of_document).transpose()
}

impl Sharding {
    /// The shard's identity, or `None` if the server belongs to no cluster yet.
    pub(crate) fn identity(&self, instance: &Instance) -> Result<Option<Arc<ShardIdentity>>> {
        if instance.config.cluster_role != ClusterRole::Shard {
            return Ok(None);
        }
        let mut held = self.identity.lock();
        if held.is_none() {
            *held = read(instance)?.map(Arc::new);
        }
        Ok(held.clone())
    }

    /// The same, or a failure, for commands that only a shard of a cluster can run.
    pub(crate) fn must_be_shard(&self, instance: &Instance) -> Result<Arc<ShardIdentity>> {
        let none = || {
            let what = "Cannot accept sharding commands if not started with --shardsvr, or before it was added to a cluster";
            Failure::new(Code::NoShardingEnabled, what)
        };
        self.identity(instance)?.ok_or_else(none)
    }
}

/// Makes the server a shard; a server of another cluster, or another shard of the same one, keeps its identity and fails.
pub(crate) fn adopt(op: &mut OperationContext<'_>, document: &Document) -> Result<()> {
    if op.instance.config.cluster_role != ClusterRole::Shard {
        let what = "Cannot accept sharding commands if not started with --shardsvr";
        return Err(Failure::new(Code::NoShardingEnabled, what));
    }
    let identity = of_document(document)?;
    if let Some(known) = op.instance.sharding.identity(op.instance)?
        && (known.cluster != identity.cluster || known.shard != identity.shard)
    {
        let what = format!(
            "this server is the shard '{}' of the cluster {}, and cannot become '{}' of {}",
            known.shard, known.cluster, identity.shard, identity.cluster
        );
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    let variables = op.variables().clone();
    let mut stored = document.clone();
    stored.insert("_id", ID);
    let raw = RawBson::Document(parse::raw_of(&stored)?);
    let filter = parse::raw_of(&doc! { "_id": ID })?;
    let request = UpdateRequest {
        target: WriteTarget { filter: Filter::parse(&filter, &variables)?, hint: None, sort: None },
        update: Update::parse(raw.as_raw_bson_ref(), &[], &variables)?,
        multi: false,
        upsert: true,
        validate: false,
    };
    update(op, COLLECTION, &request)?;
    op.instance.journal.wait_until_durable()?;
    op.instance.sharding.set_identity(identity);
    Ok(())
}

//! The location of a command's collection, and the loop that reads it again when a shard says that it is stale.

use std::sync::Arc;

use fathom_query::Filter;
use fathom_sharding::{RoutingTable, ShardVersion, TargetShards};
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::Backend;
use crate::catalog::DatabaseEntry;
use crate::instance::Instance;
use crate::shard_command::ShardVersions;

/// The number of attempts to route a command before the client gets the staleness error, as in mongos.
const MAX_ATTEMPTS: u32 = 10;

/// Whether the router's routing data are stale: a shard said so, or the shard no longer exists.
pub(crate) fn is_stale(code: Code) -> bool {
    let all = [
        Code::StaleConfig,
        Code::StaleShardVersion,
        Code::StaleEpoch,
        Code::StaleDbVersion,
        Code::ShardNotFound,
    ];
    all.contains(&code)
}

/// The location of a collection.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) namespace: String,
    /// The shard of unsharded collections; for `config` and `admin`, the config servers.
    pub(crate) primary: Arc<Backend>,
    /// None for collections on the config servers.
    database: Option<Arc<DatabaseEntry>>,
    /// None if the collection is not sharded.
    pub(crate) table: Option<Arc<RoutingTable>>,
}

impl Route {
    /// The version that a shard compares with its own; `None` for the config servers.
    pub(crate) fn versions(&self, shard: &str) -> Option<ShardVersions> {
        let database = self.database.as_ref()?;
        Some(match &self.table {
            Some(table) => ShardVersions { shard: table.shard_version(shard), database: None },
            None => ShardVersions { shard: ShardVersion::Unsharded, database: database.version.clone() },
        })
    }

    /// The shards that can hold matches of a filter.
    pub(crate) fn target(&self, filter: &Filter) -> Result<TargetShards> {
        match &self.table {
            Some(table) => table.target(filter),
            None => Ok(TargetShards { shards: vec![self.primary.id().to_owned()], by_key: true }),
        }
    }

    /// All shards that have a part of the collection.
    pub(crate) fn shards(&self) -> Vec<String> {
        match &self.table {
            Some(table) => table.shards().into_iter().map(str::to_owned).collect(),
            None => vec![self.primary.id().to_owned()],
        }
    }
}

impl Instance {
    /// The current route of a collection, or `None` if its database does not exist.
    pub(crate) fn route(&self, database: &str, namespace: &str) -> Result<Option<Route>> {
        if let Some(fixed) = self.fixed_route(database, namespace)? {
            return Ok(Some(fixed));
        }
        let Some(entry) = self.catalog.database(&self.cluster, database)? else { return Ok(None) };
        self.route_in(entry, namespace).map(Some)
    }

    /// As `route`, for a command that creates a missing database.
    pub(crate) fn route_or_new(&self, database: &str, namespace: &str) -> Result<Route> {
        if let Some(fixed) = self.fixed_route(database, namespace)? {
            return Ok(fixed);
        }
        let entry = self.catalog.database_or_new(&self.cluster, database)?;
        self.route_in(entry, namespace)
    }

    /// The route of a sharded collection, if it is cached completely: asks no server.
    pub(crate) fn known_route(&self, database: &str, namespace: &str) -> Option<Route> {
        if !matches!(self.fixed_route(database, namespace), Ok(None)) {
            return None;
        }
        let entry = self.catalog.known_database(database)?;
        let primary = self.cluster.known_shard(&entry.primary)?;
        let table = self.catalog.known_table(namespace)?;
        Some(Route { namespace: namespace.to_owned(), primary, database: Some(entry), table })
    }

    fn route_in(&self, database: Arc<DatabaseEntry>, namespace: &str) -> Result<Route> {
        let primary = self.cluster.shard(&database.primary)?;
        let table = self.catalog.table(&self.cluster, namespace)?;
        Ok(Route { namespace: namespace.to_owned(), primary, database: Some(database), table })
    }

    /// Collections that are always on the config servers.
    fn fixed_route(&self, database: &str, namespace: &str) -> Result<Option<Route>> {
        match database {
            "config" | "admin" => {
                let primary = Arc::clone(self.cluster.config());
                Ok(Some(Route { namespace: namespace.to_owned(), primary, database: None, table: None }))
            }
            "local" => Err(Failure::new(Code::IllegalOperation, "a router has no database 'local'")),
            _ => Ok(None),
        }
    }

    /// Forgets the cache entries of a route, after a shard refused it.
    pub(crate) fn forget_route(&self, route: &Route) {
        self.catalog.forget_stale(&route.namespace, route.table.as_ref());
        if let Some(database) = &route.database {
            self.catalog.forget_database(&database.name);
        }
    }

    /// Runs `work` with the collection's route, and again with a newer route while shards answer that it is stale; `None` if the
    /// database does not exist.
    pub(crate) fn with_route<T>(
        &self,
        database: &str,
        namespace: &str,
        mut work: impl FnMut(&Route) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut attempt = 1;
        loop {
            let Some(route) = self.route(database, namespace)? else { return Ok(None) };
            match work(&route) {
                Err(failure) if is_stale(failure.code()) && attempt < MAX_ATTEMPTS => {
                    self.forget_route(&route);
                    attempt += 1;
                }
                result => return result.map(Some),
            }
        }
    }

    /// As `with_route`, for a command that creates a missing database.
    pub(crate) fn with_new_route<T>(
        &self,
        database: &str,
        namespace: &str,
        work: impl FnMut(&Route) -> Result<T>,
    ) -> Result<T> {
        self.route_or_new(database, namespace)?;
        self.with_route(database, namespace, work)?.ok_or_else(|| {
            Failure::new(Code::NamespaceNotFound, format!("database {database} was dropped meanwhile"))
        })
    }
}

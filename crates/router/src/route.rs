//! Where a command's collection lives, and the loop that reads it again when a shard says that it is old.

use std::sync::Arc;

use fathom_query::Filter;
use fathom_sharding::{RoutingTable, ShardVersion, Targeted};
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::Backend;
use crate::catalog::DatabaseEntry;
use crate::instance::Instance;
use crate::outgoing::Versions;

/// How often a command is routed before its staleness is the client's, as in mongos.
const ATTEMPTS: u32 = 10;

/// Whether the router's knowledge is old: a shard said so, or there is no such shard any more.
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

/// Where a collection lives.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) namespace: String,
    /// The shard of what is not sharded; for `config` and `admin`, the config servers.
    pub(crate) primary: Arc<Backend>,
    /// None for what the config servers hold.
    database: Option<Arc<DatabaseEntry>>,
    /// None if it is not sharded.
    pub(crate) table: Option<Arc<RoutingTable>>,
}

impl Route {
    /// What a shard is to compare with its own knowledge; none for the config servers.
    pub(crate) fn versions(&self, shard: &str) -> Option<Versions> {
        let database = self.database.as_ref()?;
        Some(match &self.table {
            Some(table) => Versions { shard: table.shard_version(shard), database: None },
            None => Versions { shard: ShardVersion::Unsharded, database: database.version.clone() },
        })
    }

    /// The shards of a filter's matches.
    pub(crate) fn target(&self, filter: &Filter) -> Result<Targeted> {
        match &self.table {
            Some(table) => table.target(filter),
            None => Ok(Targeted { shards: vec![self.primary.id().to_owned()], by_key: true }),
        }
    }

    /// All shards that have some of it.
    pub(crate) fn shards(&self) -> Vec<String> {
        match &self.table {
            Some(table) => table.shards().into_iter().map(str::to_owned).collect(),
            None => vec![self.primary.id().to_owned()],
        }
    }
}

impl Instance {
    /// Where a collection lives now; none if its database is not there.
    pub(crate) fn route(&self, database: &str, namespace: &str) -> Result<Option<Route>> {
        if let Some(fixed) = self.fixed_route(database, namespace)? {
            return Ok(Some(fixed));
        }
        let Some(entry) = self.catalog.database(&self.cluster, database)? else { return Ok(None) };
        self.route_in(entry, namespace).map(Some)
    }

    /// The same for a command that makes what is not there.
    pub(crate) fn route_or_new(&self, database: &str, namespace: &str) -> Result<Route> {
        if let Some(fixed) = self.fixed_route(database, namespace)? {
            return Ok(fixed);
        }
        let entry = self.catalog.database_or_new(&self.cluster, database)?;
        self.route_in(entry, namespace)
    }

    /// Where a collection of the shards lives, if all of that is known: nobody is asked.
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

    /// What lives on the config servers, whatever anybody says.
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

    /// Forgets what a route was made of, after a shard refused it.
    pub(crate) fn forget_route(&self, route: &Route) {
        self.catalog.forget_stale(&route.namespace, route.table.as_ref());
        if let Some(database) = &route.database {
            self.catalog.forget_database(&database.name);
        }
    }

    /// Runs `work` with the collection's route, again with a newer one while shards say that it is old; none if there is no such
    /// database.
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
                Err(failure) if is_stale(failure.code()) && attempt < ATTEMPTS => {
                    self.forget_route(&route);
                    attempt += 1;
                }
                result => return result.map(Some),
            }
        }
    }

    /// The same for a command that makes the database if it is not there.
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

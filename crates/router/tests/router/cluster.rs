//! A test cluster in this process: a config server, shards and routers, each on a free port, with engines in memory.

use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_router::Router;
use fathom_server::config::EngineName;
use fathom_server::{ClusterRole, Server};

pub(crate) fn server(role: ClusterRole) -> Server {
    server_in(role, None)
}

/// A server that can become a member of a replica set.
fn server_in(role: ClusterRole, set_name: Option<&str>) -> Server {
    let mut config = fathom_server::Config::default();
    config.storage.engine = EngineName::Ephemeral;
    config.net.port = 0;
    config.cluster_role = role;
    config.replication.set_name = set_name.map(str::to_owned);
    config.replication.oplog_size_mb = set_name.map(|_| 16);
    Server::start_quiet(config).unwrap()
}

pub(crate) fn connect(port: u16) -> Client {
    Client(Connection::connect(&Target::at(Address::new("127.0.0.1", port))).unwrap())
}

/// Servers that go with it.
pub(crate) struct ClusterMembers {
    pub(crate) config: Option<Server>,
    pub(crate) shards: Vec<Server>,
    pub(crate) routers: Vec<Router>,
}

impl ClusterMembers {
    /// A cluster of a config server, `shards` shards named s1, s2 and so on, and one router without a balancer.
    pub(crate) fn new(shards: usize) -> ClusterMembers {
        let config = server(ClusterRole::Config);
        let mut cluster = ClusterMembers { config: Some(config), shards: Vec::new(), routers: Vec::new() };
        cluster.add_router(false);
        for _ in 0..shards {
            cluster.add_shard();
        }
        cluster
    }

    pub(crate) fn add_router(&mut self, balancer: bool) -> usize {
        let port = self.config.as_ref().unwrap().port();
        let mut config = fathom_router::Config::new(format!("127.0.0.1:{port}").parse().unwrap());
        config.port = 0;
        config.balancer = balancer;
        self.routers.push(Router::start_quiet(config).unwrap());
        self.routers.len() - 1
    }

    pub(crate) fn add_shard(&mut self) {
        let shard = server(ClusterRole::Shard);
        let name = format!("s{}", self.shards.len() + 1);
        let host = format!("127.0.0.1:{}", shard.port());
        self.shards.push(shard);
        self.client().ok("admin", doc! { "addShard": host, "name": name });
    }

    /// Adds a shard that is a replica set of one member.
    pub(crate) fn add_set(&mut self) {
        let name = format!("s{}", self.shards.len() + 1);
        let member = server_in(ClusterRole::Shard, Some(&name));
        let host = format!("127.0.0.1:{}", member.port());
        let mut direct = connect(member.port());
        self.shards.push(member);
        let config = doc! { "_id": &name, "version": 1, "members": [{ "_id": 0, "host": &host }] };
        direct.ok("admin", doc! { "replSetInitiate": config });
        let end = Instant::now() + Duration::from_secs(300);
        while direct.ok("admin", doc! { "hello": 1 }).get_bool("isWritablePrimary").ok() != Some(true) {
            assert!(Instant::now() < end, "{host} does not become a primary");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.client().ok("admin", doc! { "addShard": format!("{name}/{host}"), "name": name });
    }

    /// A connection to the first router.
    pub(crate) fn client(&self) -> Client {
        self.client_of(0)
    }

    pub(crate) fn client_of(&self, router: usize) -> Client {
        connect(self.routers[router].port())
    }

    /// A connection that bypasses the router, to a shard by its index.
    pub(crate) fn shard(&self, place: usize) -> Client {
        connect(self.shards[place].port())
    }

    /// Shards `a.b` by a key.
    pub(crate) fn shard_collection(&self, key: Document) {
        let mut client = self.client();
        client.ok("admin", doc! { "enableSharding": "a", "primaryShard": "s1" });
        client.ok("admin", doc! { "shardCollection": "a.b", "key": key });
    }

    /// The numbers of documents of `a.b` that each shard itself reports.
    pub(crate) fn counts(&self) -> Vec<i64> {
        (0..self.shards.len()).map(|place| self.shard(place).count("a", "b")).collect()
    }
}

impl Drop for ClusterMembers {
    fn drop(&mut self) {
        self.routers.drain(..).for_each(Router::stop);
        for server in self.shards.drain(..).chain(self.config.take()) {
            let _ = server.stop();
        }
    }
}

/// A connection whose failures end the test.
pub(crate) struct Client(pub(crate) Connection);

impl Client {
    /// The reply of a command that must succeed.
    pub(crate) fn ok(&mut self, database: &str, command: Document) -> Document {
        let reply = self.0.run(database, &command).unwrap_or_else(|error| panic!("{command}: {error}"));
        Document::try_from(&*reply).unwrap()
    }

    /// The code and text of a command that must fail.
    pub(crate) fn refused(&mut self, database: &str, command: Document) -> (i32, String) {
        match self.0.run(database, &command) {
            Ok(reply) => panic!("{command} succeeded: {reply:?}"),
            Err(error) => {
                let failure = error.failure().unwrap_or_else(|| panic!("{command}: {error}")).clone();
                (failure.code().0, failure.message().to_owned())
            }
        }
    }

    /// All documents of a command with a cursor.
    pub(crate) fn all(&mut self, database: &str, command: Document) -> Vec<Document> {
        let cursor = self.0.cursor(database, &command).unwrap_or_else(|error| panic!("{command}: {error}"));
        cursor.map(|document| Document::try_from(&*document.unwrap()).unwrap()).collect()
    }

    pub(crate) fn insert(&mut self, documents: Vec<Document>) {
        for part in documents.chunks(500) {
            let reply = self.ok("a", doc! { "insert": "b", "documents": part.to_vec() });
            assert_eq!(number(&reply, "n"), i64::try_from(part.len()).unwrap(), "{reply}");
        }
    }

    pub(crate) fn count(&mut self, database: &str, collection: &str) -> i64 {
        number(&self.ok(database, doc! { "count": collection }), "n")
    }

    /// The counters of operations of the server that answers.
    pub(crate) fn operations(&mut self) -> Document {
        self.ok("admin", doc! { "serverStatus": 1 }).get_document("opcounters").unwrap().clone()
    }
}

pub(crate) fn number(document: &Document, field: &str) -> i64 {
    match document.get(field) {
        Some(Bson::Int32(value)) => i64::from(*value),
        Some(Bson::Int64(value)) => *value,
        #[expect(clippy::cast_possible_truncation, reason = "counts")]
        Some(Bson::Double(value)) => *value as i64,
        other => panic!("{field} is {other:?} in {document}"),
    }
}

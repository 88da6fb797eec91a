//! A server for a test, and the client that talks to it.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::path::Path;

use bson::{Document, RawDocumentBuf, doc};
use fathom_client::{Address, Code, Connection, Credential, Target};
use fathom_server::config::EngineName;
use fathom_server::{Config, Server};

pub(crate) const ENGINES: [EngineName; 3] =
    [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral];

/// A configuration on any free port; `directory` is for the data.
pub(crate) fn config(directory: &Path, engine: EngineName) -> Config {
    let mut config = Config::default();
    config.net.port = 0;
    config.storage.db_path = directory.join("db");
    config.storage.engine = engine;
    config.storage.wired_tiger.cache_size_gb = Some(0.25);
    config.storage.rocksdb.cache_size_gb = Some(0.25);
    // Fewer rounds, or every login of an unoptimized build takes its time.
    for name in ["scramIterationCount", "scramSHA256IterationCount"] {
        config.set_parameters.insert(name.to_owned(), "5000".to_owned());
    }
    config
}

/// A server in memory with a changed configuration.
pub(crate) fn in_memory(change: impl FnOnce(&mut Config)) -> Server {
    let mut config = config(Path::new("/nonexistent"), EngineName::Ephemeral);
    change(&mut config);
    Server::start_quiet(config).unwrap()
}

pub(crate) fn target(server: &Server) -> Target {
    Target::at(Address::new("127.0.0.1", server.port()))
}

pub(crate) fn connect(server: &Server) -> Connection {
    Connection::connect(&target(server)).unwrap()
}

/// Logs in, in `admin`.
pub(crate) fn login(server: &Server, user: &str, password: &str) -> fathom_client::Result<Connection> {
    let mut target = target(server);
    target.credential = Some(Credential {
        user: user.to_owned(),
        password: password.to_owned(),
        source: "admin".to_owned(),
        mechanism: None,
    });
    Connection::connect(&target)
}

pub(crate) fn run(connection: &mut Connection, database: &str, command: &Document) -> Document {
    let reply: RawDocumentBuf = connection.run(database, command).unwrap();
    Document::try_from(&*reply).unwrap()
}

pub(crate) fn failure(
    connection: &mut Connection,
    database: &str,
    command: &Document,
) -> fathom_client::Failure {
    connection.run(database, command).unwrap_err().failure().unwrap().clone()
}

pub(crate) fn code(connection: &mut Connection, database: &str, command: &Document) -> Code {
    failure(connection, database, command).code()
}

/// Makes a user of `admin` with roles.
pub(crate) fn create_user(connection: &mut Connection, name: &str, roles: Vec<bson::Bson>) {
    run(connection, "admin", &doc! { "createUser": name, "pwd": "secret", "roles": roles });
}

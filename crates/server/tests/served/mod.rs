//! A server for tests, and its client.

pub(crate) mod executor;

use std::path::Path;

use bson::{Document, RawDocumentBuf, doc};
use fathom_client::{Address, Code, Connection, Credential, Target};
use fathom_server::config::EngineName;
use fathom_server::{Config, Server};

pub(crate) const ENGINES: [EngineName; 3] =
    [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral];

/// A configuration with any free port; `directory` is for the data.
pub(crate) fn config(directory: &Path, engine: EngineName) -> Config {
    let mut config = Config::default();
    config.net.port = 0;
    config.storage.db_path = directory.join("db");
    config.storage.engine = engine;
    config.storage.wired_tiger.cache_size_gb = Some(0.25);
    config.storage.rocksdb.cache_size_gb = Some(0.25);
    // Fewer iterations, because every login of an unoptimized build would take long.
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
    let reply: RawDocumentBuf =
        connection.run(database, command).unwrap_or_else(|error| panic!("{command}: {error}"));
    Document::try_from(&*reply).unwrap()
}

pub(crate) fn failure(
    connection: &mut Connection,
    database: &str,
    command: &Document,
) -> fathom_client::Failure {
    connection.run(database, command).expect_err(&command.to_string()).failure().unwrap().clone()
}

pub(crate) fn code(connection: &mut Connection, database: &str, command: &Document) -> Code {
    failure(connection, database, command).code()
}

pub(crate) fn insert(connection: &mut Connection, collection: &str, documents: Vec<Document>) {
    let count = i32::try_from(documents.len()).unwrap();
    let reply = run(connection, "test", &doc! { "insert": collection, "documents": documents });
    assert_eq!(reply.get_i32("n").unwrap(), count, "{reply}");
}

/// Makes an index with the name of its fields.
pub(crate) fn index(connection: &mut Connection, collection: &str, key: Document) {
    let name = key.keys().map(String::as_str).collect::<Vec<_>>().join("_");
    run(connection, "test", &doc! { "createIndexes": collection, "indexes": [{ "key": key, "name": name }] });
}

/// All documents of a cursor of the database `test`, over as many batches as it takes.
pub(crate) fn listed(connection: &mut Connection, command: &Document) -> Vec<Document> {
    let cursor = connection.cursor("test", command).unwrap();
    cursor.map(|document| Document::try_from(&*document.unwrap()).unwrap()).collect()
}

pub(crate) fn start(directory: &Path, engine: EngineName) -> (Server, Connection) {
    let server = Server::start_quiet(config(directory, engine)).unwrap();
    let connection = connect(&server);
    (server, connection)
}

/// Runs a test on each engine with a fresh server.
pub(crate) fn on_each(test: impl Fn(&Server, &mut Connection)) {
    for engine in ENGINES {
        println!("{engine:?}");
        let directory = tempfile::tempdir().unwrap();
        let (server, mut connection) = start(directory.path(), engine);
        test(&server, &mut connection);
        drop(connection);
        server.stop().unwrap();
    }
}

/// Makes a user of `admin` with roles.
pub(crate) fn create_user(connection: &mut Connection, name: &str, roles: Vec<bson::Bson>) {
    run(connection, "admin", &doc! { "createUser": name, "pwd": "secret", "roles": roles });
}

//! Servers and connections for these tests.

use bson::{Document, RawDocumentBuf, doc};
use fathom_client::{Address, Connection, Target};
use fathom_server::config::EngineName;
use fathom_server::{Config, Server};
use tempfile::TempDir;

pub(crate) const ENGINES: [EngineName; 3] =
    [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral];

/// A server and its data directory.
pub(crate) struct Lab {
    server: Option<Server>,
    config: Config,
    directory: TempDir,
}

impl Lab {
    pub(crate) fn start(engine: EngineName) -> Lab {
        Lab::start_with(engine, |_| {})
    }

    pub(crate) fn start_with(engine: EngineName, change: impl FnOnce(&mut Config)) -> Lab {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.net.port = 0;
        config.storage.db_path = directory.path().join("db");
        config.storage.engine = engine;
        config.storage.wired_tiger.cache_size_gb = Some(0.25);
        config.storage.rocksdb.cache_size_gb = Some(0.25);
        config.log_path = Some(directory.path().join("log"));
        change(&mut config);
        Lab { server: Some(Server::start(config.clone()).unwrap()), config, directory }
    }

    pub(crate) fn target(&self) -> Target {
        Target::at(Address::new("127.0.0.1", self.server.as_ref().unwrap().port()))
    }

    /// Stops the server and starts it again on the same data.
    pub(crate) fn restart(&mut self) {
        self.server.take().unwrap().stop().unwrap();
        self.server = Some(Server::start(self.config.clone()).unwrap());
    }

    /// The lines of its log so far.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::connect(&self.target()).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else { return };
        let stopped = server.stop();
        if !std::thread::panicking() {
            stopped.unwrap();
        }
    }
}

/// Runs a command on the database `test`.
pub(crate) fn run(connection: &mut Connection, command: &Document) -> Document {
    run_on(connection, "test", command)
}

pub(crate) fn run_on(connection: &mut Connection, database: &str, command: &Document) -> Document {
    let reply: RawDocumentBuf = connection.run(database, command).unwrap();
    Document::try_from(&*reply).unwrap()
}

pub(crate) fn fail(
    connection: &mut Connection,
    database: &str,
    command: &Document,
) -> fathom_client::Failure {
    connection.run(database, command).unwrap_err().failure().unwrap().clone()
}

pub(crate) fn found(connection: &mut Connection, find: &Document) -> Vec<Document> {
    let cursor = connection.cursor("test", find).unwrap();
    cursor.map(|document| Document::try_from(&*document.unwrap()).unwrap()).collect()
}

/// `serverStatus` without the engine's section, which is large.
pub(crate) fn status(connection: &mut Connection) -> Document {
    run_on(connection, "admin", &doc! { "serverStatus": 1, "wiredTiger": 0, "rocksdb": 0 })
}

/// The value at a dotted path.
pub(crate) fn at<'d>(document: &'d Document, path: &str) -> &'d bson::Bson {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = document.get(first).unwrap_or_else(|| panic!("no {path} in {document}"));
    if rest.is_empty() { value } else { at(value.as_document().unwrap(), rest) }
}

/// A whole number of either width at a dotted path.
pub(crate) fn number(document: &Document, path: &str) -> i64 {
    match at(document, path) {
        bson::Bson::Int32(value) => i64::from(*value),
        bson::Bson::Int64(value) => *value,
        other => panic!("{path} is {other}"),
    }
}

/// The increase of a number.
pub(crate) fn grown(before: &Document, after: &Document, path: &str) -> i64 {
    number(after, path) - number(before, path)
}

/// The text at a dotted path.
pub(crate) fn text<'d>(document: &'d Document, path: &str) -> &'d str {
    at(document, path).as_str().unwrap()
}

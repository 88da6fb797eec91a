//! A replica set for tests: members on any free ports of the loopback. Elections are called by name, so that no test waits for the election
//! timeout unless it is about that.

use std::path::Path;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_server::config::EngineName;
use fathom_server::{ClusterRole, Config, Server};

use crate::served;

/// The limit of a wait for an event, which only a set that hangs reaches.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);

/// The time without a primary after which a member calls an election by itself: mongod's default, and longer than any pause of the machine.
const ELECTION_TIMEOUT_MS: i32 = 10_000;

pub(crate) struct Set {
    directory: tempfile::TempDir,
    pub(crate) members: Vec<Option<Server>>,
    pub(crate) ports: Vec<u16>,
    engines: Vec<EngineName>,
    role: ClusterRole,
}

impl Set {
    /// Starts members with these engines, which do not form a set yet.
    pub(crate) fn start(engines: &[EngineName]) -> Set {
        Set::start_as(ClusterRole::None, engines)
    }

    /// The same for members of a sharded cluster.
    pub(crate) fn start_as(role: ClusterRole, engines: &[EngineName]) -> Set {
        let directory = tempfile::tempdir().unwrap();
        let mut set =
            Set { directory, members: Vec::new(), ports: Vec::new(), engines: engines.to_vec(), role };
        for place in 0..engines.len() {
            let server = Server::start_quiet(set.config(place, 0)).unwrap();
            set.ports.push(server.port());
            set.members.push(Some(server));
        }
        set
    }

    /// Three members on an engine, initiated, with a primary and two secondaries that can be read: a write at majority does not wait for the
    /// last member's first copy.
    pub(crate) fn of_three(engine: EngineName) -> Set {
        let set = Set::start(&[engine; 3]);
        set.initiate(&[doc! {}, doc! {}, doc! {}]);
        let primary = set.primary();
        (0..3).filter(|place| *place != primary).for_each(|place| set.wait_secondary(place));
        set
    }

    fn config(&self, place: usize, port: u16) -> Config {
        let mut config = served::config(&self.path(place), self.engines[place]);
        config.net.port = port;
        config.cluster_role = self.role;
        config.replication.set_name = Some("rs".to_owned());
        config.replication.oplog_size_mb = Some(64);
        config
    }

    pub(crate) fn path(&self, place: usize) -> std::path::PathBuf {
        let path = self.directory.path().join(format!("m{place}"));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn host(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.ports[place])
    }

    /// The first configuration, with these extra fields for each member.
    fn document(&self, extra: &[Document]) -> Document {
        let members: Vec<Bson> = extra
            .iter()
            .enumerate()
            .map(|(place, extra)| {
                let id = i32::try_from(place).unwrap();
                let member: Document =
                    doc! { "_id": id, "host": self.host(place) }.into_iter().chain(extra.clone()).collect();
                member.into()
            })
            .collect();
        doc! {
            "_id": "rs",
            "version": 1,
            "members": members,
            "settings": { "electionTimeoutMillis": ELECTION_TIMEOUT_MS, "heartbeatIntervalMillis": 100 },
        }
    }

    /// Initiates the set, and lets the first member be elected.
    pub(crate) fn initiate(&self, extra: &[Document]) {
        let mut first = self.connect(0);
        served::run(&mut first, "admin", &doc! { "replSetInitiate": self.document(extra) });
        self.elect(&[0]);
    }

    /// Lets one of these members be elected now. Those that lack an entry which a majority has are refused.
    pub(crate) fn elect(&self, places: &[usize]) {
        until(&format!("one of {places:?} is elected"), || {
            places.iter().find(|place| {
                let stands = self.connect(**place).run("admin", &doc! { "replSetStepUp": 1 });
                stands.is_ok() || self.state(**place) == 1
            })
        });
    }

    /// Changes the configuration by its primary, and waits until all members that run have it.
    pub(crate) fn reconfigure(&self, primary: usize, change: impl FnOnce(&mut Document)) {
        let config = |place: usize| {
            let reply = self.connect(place).run("admin", &doc! { "replSetGetConfig": 1 }).ok()?;
            Document::try_from(reply.get_document("config").unwrap()).ok()
        };
        let mut changed = config(primary).unwrap();
        let version = changed.get_i32("version").unwrap() + 1;
        changed.insert("version", version);
        change(&mut changed);
        served::run(&mut self.connect(primary), "admin", &doc! { "replSetReconfig": changed });
        for place in self.running() {
            until(&format!("member {place} has the configuration"), || {
                (config(place)?.get_i32("version").unwrap() >= version).then_some(())
            });
        }
    }

    pub(crate) fn connect(&self, place: usize) -> Connection {
        self.try_connect(place).unwrap()
    }

    pub(crate) fn try_connect(&self, place: usize) -> fathom_client::Result<Connection> {
        let mut target = Target::at(Address::new("127.0.0.1", self.ports[place]));
        target.socket_timeout = Some(TIMEOUT);
        Connection::connect(&target)
    }

    pub(crate) fn stop(&mut self, place: usize) {
        self.members[place].take().unwrap().stop().unwrap();
    }

    pub(crate) fn restart(&mut self, place: usize) {
        let port = self.ports[place];
        let server = until("the port is free", || Server::start_quiet(self.config(place, port)).ok());
        self.members[place] = Some(server);
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|place| self.members[*place].is_some())
    }

    /// The position of the primary.
    pub(crate) fn primary(&self) -> usize {
        until("there is a primary", || {
            self.running().find(|place| {
                let Ok(mut connection) = self.try_connect(*place) else { return false };
                let hello = served::run(&mut connection, "admin", &doc! { "hello": 1 });
                hello.get_bool("isWritablePrimary").unwrap_or(false)
            })
        })
    }

    /// The state that a member reports.
    pub(crate) fn state(&self, place: usize) -> i32 {
        let Ok(mut connection) = self.try_connect(place) else { return -1 };
        match connection.run("admin", &doc! { "replSetGetStatus": 1 }) {
            Ok(status) => status.get_i32("myState").unwrap(),
            Err(_) => -1,
        }
    }

    /// Waits until a member is a secondary.
    pub(crate) fn wait_secondary(&self, place: usize) {
        until(&format!("member {place} is a secondary"), || (self.state(place) == 2).then_some(()));
    }

    /// All documents of `test.c` on a member, by `_id`; waits until it can be read.
    pub(crate) fn documents(&self, place: usize) -> Vec<Document> {
        until(&format!("member {place} can be read"), || self.try_documents(place))
    }

    /// The same without waiting: `None` if the member cannot be read now.
    fn try_documents(&self, place: usize) -> Option<Vec<Document>> {
        let find = doc! {
            "find": "c", "sort": { "_id": 1 }, "$readPreference": { "mode": "secondaryPreferred" },
        };
        let mut connection = self.try_connect(place).ok()?;
        let cursor = connection.cursor("test", &find).ok()?;
        cursor.map(|one| Some(Document::try_from(&*one.ok()?).unwrap())).collect()
    }

    /// Waits until all members have the same documents as `place`.
    pub(crate) fn wait_equal(&self, place: usize) {
        let wanted = self.documents(place);
        for other in self.running().filter(|other| *other != place) {
            let look = || (self.try_documents(other).as_ref() == Some(&wanted)).then_some(());
            let explain = || self.log(other);
            until_or(&format!("member {other} has what {place} has"), look, explain);
        }
    }

    /// The last lines of a member's log.
    fn log(&self, place: usize) -> String {
        let Ok(mut connection) = self.try_connect(place) else { return String::new() };
        let log = served::run(&mut connection, "admin", &doc! { "getLog": "global" });
        let lines: Vec<&str> = log.get_array("log").unwrap().iter().filter_map(Bson::as_str).collect();
        let replication = lines.iter().filter(|line| line.contains("REPL")).copied();
        replication.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn end(mut self) {
        for place in 0..self.members.len() {
            if self.members[place].is_some() {
                self.stop(place);
            }
        }
    }
}

/// Waits until `look` returns a value.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_or(what, look, String::new)
}

/// Waits until `look` returns a value; on a timeout, `explain` gives details.
fn until_or<T>(what: &str, mut look: impl FnMut() -> Option<T>, explain: impl Fn() -> String) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "in vain: {what}\n{}", explain());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A path that a test may look into.
pub(crate) fn files(path: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all
}

//! A replica set of the built program: each member a process on a host of its own in a network of the test's.
//!
//! A member that ends by itself is a failure. Everything is removed with the set, also when the test fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_testkit::{Fathom, Guard, Network, RunningProgram, Scratch, assert, assert_eq, note_process};
use rustix::process::Signal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fathom");
const PORT: u16 = 27017;
/// The timeout of any step once no fault is active.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);
/// Small memory and a checkpoint each second, so that deaths meet all stages of them.
const FLAGS: &[&str] = &[
    "--wiredTigerCacheSizeGB",
    "0.25",
    "--rocksdbCacheSizeGB",
    "0.1",
    "--syncdelay",
    "1",
    "--oplogSize",
    "128",
    "--replSet",
    "rs",
];

/// The engines of a set's members.
pub(crate) type Engines = [&'static str; 3];

struct Process {
    // Dropped in this order.
    running: RunningProgram,
    _note: Guard,
}

/// A set of three.
pub(crate) struct Members {
    pub(crate) network: Network,
    scratch: Scratch,
    engines: Engines,
    running: [Mutex<Option<Process>>; 3],
    /// How often each was started.
    lives: [AtomicU64; 3],
    /// The logs of lives that have ended.
    logs: Mutex<Vec<(usize, String)>>,
    /// The primary at the last look.
    pub(crate) primary: AtomicUsize,
}

impl Members {
    /// Members with a primary; the test ends as skipped where this machine has no such networks.
    pub(crate) fn start(engines: Engines, election_timeout_ms: i32) -> Members {
        let network = Network::new(3);
        let members = Members {
            network,
            scratch: Scratch::new().unwrap(),
            engines,
            running: Default::default(),
            lives: Default::default(),
            logs: Mutex::default(),
            primary: AtomicUsize::new(0),
        };
        (0..3).for_each(|place| members.launch(place));
        thread::scope(|scope| scope.spawn(|| members.initiate(election_timeout_ms)).join()).unwrap();
        members
    }

    fn initiate(&self, election_timeout_ms: i32) {
        self.network.enter().unwrap();
        let places = 0..3_usize;
        let listed: Vec<Bson> = places
            .map(|place| doc! { "_id": i32::try_from(place).unwrap(), "host": self.host(place) }.into())
            .collect();
        let config = doc! {
            "_id": "rs",
            "version": 1,
            "members": listed,
            "settings": {
                "electionTimeoutMillis": election_timeout_ms, "heartbeatIntervalMillis": 200, "heartbeatTimeoutSecs": 1,
                "catchUpTimeoutMillis": 2000,
            },
        };
        for place in 0..3 {
            until("all are up", || self.connect(place, TIMEOUT).ok());
        }
        self.connect(0, TIMEOUT).unwrap().run("admin", &doc! { "replSetInitiate": config }).unwrap();
        self.wait_for_primary();
    }

    fn host(&self, place: usize) -> String {
        format!("{}:{PORT}", self.network.address(place))
    }

    /// Where a member keeps its data.
    pub(crate) fn db_path(&self, place: usize) -> PathBuf {
        self.scratch.path().join(format!("member{place}"))
    }

    /// Starts a member that does not run.
    pub(crate) fn launch(&self, place: usize) {
        let call = || {
            Fathom::new(PROGRAM)
                .args(["serve", "--bind_ip", &self.network.address(place).to_string()])
                .args(["--port", &PORT.to_string(), "--storageEngine", self.engines[place], "--dbpath"])
                .arg(self.db_path(place))
                .args(FLAGS)
                .limit(Duration::from_secs(3600))
                .spawn()
        };
        let running = self.network.on(place, call).unwrap();
        self.lives[place].fetch_add(1, Ordering::SeqCst);
        let note = note_process(running.pid()).unwrap();
        *self.running[place].lock().unwrap() = Some(Process { running, _note: note });
    }

    /// Ends a member's life (SIGKILL).
    pub(crate) fn kill(&self, place: usize) {
        let Some(Process { mut running, _note }) = self.running[place].lock().unwrap().take() else { return };
        assert!(!running.has_ended(), "member {place} ended by itself: {}", running.stderr());
        running.signal(Signal::KILL);
        let output = running.wait();
        self.logs.lock().unwrap().push((place, output.stdout + &output.stderr));
    }

    /// Sends a signal to a member.
    pub(crate) fn signal(&self, place: usize, signal: Signal) {
        if let Some(process) = &*self.running[place].lock().unwrap() {
            process.running.signal(signal);
        }
    }

    /// Fails if a member has ended by itself.
    pub(crate) fn assert_alive(&self) {
        let ended = |place: &usize| {
            let mut process = self.running[*place].lock().unwrap();
            let running = process.as_mut().map(|process| &mut process.running)?;
            running.has_ended().then(|| running.stderr())
        };
        if let Some((place, words)) = (0..3).find_map(|place| Some((place, ended(&place)?))) {
            panic!("member {place} ended by itself: {words}");
        }
    }

    /// Which of its lives a member is in.
    pub(crate) fn life(&self, place: usize) -> u64 {
        self.lives[place].load(Ordering::SeqCst)
    }

    /// A new connection from where the clients are; each reply is waited for no longer than `patience`.
    pub(crate) fn connect(&self, place: usize, patience: Duration) -> fathom_client::Result<Connection> {
        let mut target = Target::at(Address::new(self.network.address(place).to_string(), PORT));
        target.direct_connection = true;
        target.connect_timeout = patience.min(Duration::from_secs(1));
        target.socket_timeout = Some(patience);
        Connection::connect(&target)
    }

    /// The place of the member that takes writes at majority.
    pub(crate) fn wait_for_primary(&self) -> usize {
        let write = doc! {
            "update": "marks", "updates": [{ "q": { "_id": 0 }, "u": { "$inc": { "n": 1 } }, "upsert": true }],
            "writeConcern": { "w": "majority", "wtimeout": 5000 },
        };
        let place = until("a majority takes writes", || {
            self.assert_alive();
            (0..3).find(|place| {
                let written =
                    self.connect(*place, Duration::from_secs(8)).and_then(|mut one| one.run("test", &write));
                written.is_ok_and(|reply| reply.get("writeConcernError").unwrap().is_none())
            })
        });
        self.primary.store(place, Ordering::SeqCst);
        place
    }

    /// All documents of a collection of `test` on a member, by `_id`.
    pub(crate) fn documents(&self, place: usize, collection: &str) -> fathom_client::Result<Vec<Document>> {
        let find = doc! {
            "find": collection, "sort": { "_id": 1 }, "$readPreference": { "mode": "secondaryPreferred" },
        };
        read_all(&mut self.connect(place, TIMEOUT)?, "test", &find)
    }

    /// The documents in a member's rollback files of a collection, each of its versions once, by `_id`.
    pub(crate) fn rolled_back(&self, place: usize, collection: &str) -> BTreeMap<String, Vec<Document>> {
        let mut found: BTreeMap<String, Vec<Document>> = BTreeMap::new();
        let folder = self.db_path(place).join("rollback").join(format!("test.{collection}"));
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let document = Document::from_reader(&mut rest).unwrap();
                let versions = found.entry(document.get("_id").unwrap().to_string()).or_default();
                if !versions.contains(&document) {
                    versions.push(document);
                }
            }
        }
        found
    }

    /// Stops all members with SIGTERM and checks how they end.
    pub(crate) fn end(self) {
        for (place, running) in self.running.iter().enumerate() {
            let Process { running, _note } = running.lock().unwrap().take().unwrap();
            running.signal(Signal::TERM);
            let output = running.wait();
            assert_eq!(output.code, 0, "member {place}: {}\n{}", output.stderr, tail(&output.stdout));
        }
    }

    /// The lines on replication in a member's logs, of all its starts.
    pub(crate) fn log(&self, place: usize) -> String {
        let logs = self.logs.lock().unwrap();
        let mut text: String =
            logs.iter().filter(|(one, _)| *one == place).map(|(_, log)| tail(log)).collect();
        if let Some(process) = &*self.running[place].lock().unwrap() {
            text += &tail(&process.running.stdout());
        }
        text
    }
}

/// A test that fails shows what the members say of it: the newest of it, and all of it in files below `$FATHOM_KEEP`.
impl Drop for Members {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        for place in 0..3 {
            let log = self.log(place);
            if let Some(folder) = std::env::var_os("FATHOM_KEEP") {
                let path = Path::new(&folder).join(format!("member{place}.log"));
                let written = fs::create_dir_all(&folder).and_then(|()| fs::write(path, &log));
                println!("all of member {place}'s log: {written:?}");
            }
            let lines: Vec<&str> = log.lines().collect();
            println!("--- member {place}\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}

/// The lines of a log that are about the set, and those that warn.
fn tail(log: &str) -> String {
    let told = |line: &&str| {
        ["\"c\":\"REPL\"", "\"s\":\"W\"", "\"s\":\"E\"", "\"s\":\"F\""].iter().any(|sign| line.contains(sign))
    };
    log.lines().filter(told).fold(String::new(), |text, line| text + line + "\n")
}

/// All documents that a command's cursor gives.
pub(crate) fn read_all(
    connection: &mut Connection,
    database: &str,
    command: &Document,
) -> fathom_client::Result<Vec<Document>> {
    let cursor = connection.cursor(database, command)?;
    cursor.map(|one| Ok(Document::try_from(&*one?).unwrap())).collect()
}

/// Waits until something is there.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "in vain: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

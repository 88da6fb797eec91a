//! The connected clients, and the current operation of each connection.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bson::{Document, RawDocument};
use fathom_query::Code;
use fathom_wire::DocumentWriter;
use parking_lot::{Mutex, MutexGuard};

use crate::sessions::{SessionId, SessionKey, SessionOwner};
use crate::storage::OperationLocks;
use crate::users::PrivilegeSet;

/// The application name by which a member introduces itself to others; such connections survive a step-down.
pub(crate) const REPLICATION_APP_NAME: &str = "fathom replication";

/// The number of bytes of a running command that `currentOp` keeps.
const MAX_COMMAND_BYTES: usize = 1000;
/// The interval after which a connection reports a session in constant use to the table of sessions again.
const SESSION_NOTE_INTERVAL: Duration = Duration::from_secs(60);

/// One connection, as other threads see it.
#[derive(Debug)]
pub(crate) struct Client {
    /// The `connectionId` of replies, from 1.
    pub(crate) id: u64,
    pub(crate) remote: String,
    /// The client's description of itself in its first hello.
    metadata: Mutex<Option<Document>>,
    current: Mutex<CurrentOperation>,
    /// Whether the operation in `current` is still running.
    running: AtomicBool,
    interrupt: AtomicI32,
    operation: AtomicU64,
    /// The locks of the operation in `current`.
    locks: OperationLocks,
    /// The users that it has authenticated as: (user, database) pairs.
    users: Mutex<Vec<(String, String)>>,
    /// The privileges of its users.
    granted: Mutex<PrivilegeSet>,
    /// Ends the connection after its current command.
    pub(crate) close: AtomicBool,
    /// Its socket, if it is a connection.
    socket: OnceLock<Arc<TcpStream>>,
}

/// The present operation of a connection.
#[derive(Debug, Default)]
struct CurrentOperation {
    since: Option<Instant>,
    database: String,
    command: Vec<u8>,
    /// The plan of the operation, once it is chosen.
    plan: String,
    progress: Option<OperationProgress>,
    /// The begin of the time between two operations, if a transaction is open in it.
    idle_since: Option<Instant>,
    /// The session of the command, and the time of this connection's last report to the table of sessions.
    session: Option<SessionKey>,
    session_noted: Option<Instant>,
    /// The owner of its sessions.
    owner: SessionOwner,
}

/// The start of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandStart<'a> {
    pub(crate) operation: u64,
    pub(crate) begun: Instant,
    pub(crate) database: &'a str,
    pub(crate) command: &'a RawDocument,
    /// The id in its `lsid`.
    pub(crate) session: Option<SessionId>,
}

/// The progress of an operation that takes long: an index build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationProgress {
    /// The phase in mongod's words.
    pub(crate) phase: &'static str,
    /// The units that are done, and all of them.
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// What `currentOp` shows of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    pub(crate) operation: u64,
    pub(crate) since: Option<Instant>,
    pub(crate) database: String,
    /// The command, or its first field and `$truncated` if it is long.
    pub(crate) command: Document,
    /// The plan of the operation; empty before it is chosen.
    pub(crate) plan: String,
    pub(crate) progress: Option<OperationProgress>,
    /// The begin of the time between two operations of a transaction, or `None` while an operation runs.
    pub(crate) idle_since: Option<Instant>,
    pub(crate) session: Option<SessionKey>,
}

impl Client {
    fn new(id: u64, remote: String) -> Client {
        Client {
            id,
            remote,
            metadata: Mutex::new(None),
            current: Mutex::default(),
            running: AtomicBool::new(false),
            interrupt: AtomicI32::new(0),
            operation: AtomicU64::new(0),
            locks: OperationLocks::default(),
            users: Mutex::default(),
            granted: Mutex::default(),
            close: AtomicBool::new(false),
            socket: OnceLock::new(),
        }
    }

    /// The client of one of the server's own threads, which has no connection.
    pub(crate) fn internal() -> Arc<Client> {
        Arc::new(Client::new(0, String::new()))
    }

    /// Records that a command begins. Returns the session to report to the table of sessions, if any.
    pub(crate) fn begin(&self, beginning: &CommandStart<'_>) -> Option<SessionKey> {
        let mut current = self.current.lock();
        self.interrupt.store(0, Ordering::Relaxed);
        self.operation.store(beginning.operation, Ordering::Relaxed);
        current.since = Some(beginning.begun);
        if current.database != beginning.database {
            current.database.clear();
            current.database.push_str(beginning.database);
        }
        current.command.clear();
        current.plan.clear();
        current.progress = None;
        current.idle_since = None;
        self.locks.clear();
        let bytes = beginning.command.as_bytes();
        if bytes.len() <= MAX_COMMAND_BYTES {
            current.command.extend_from_slice(bytes);
        } else {
            keep_beginning(beginning.command, &mut current.command);
        }
        let session = beginning.session.map(|id| SessionKey { id, owner: current.owner });
        let known = session == current.session
            && current.session_noted.is_some_and(|noted| {
                beginning.begun.saturating_duration_since(noted) < SESSION_NOTE_INTERVAL
            });
        current.session = session;
        let news = session.filter(|_| !known);
        if news.is_some() {
            current.session_noted = Some(beginning.begun);
        }
        drop(current);
        self.running.store(true, Ordering::Release);
        news
    }

    /// Records the plan of the running operation.
    pub(crate) fn set_plan(&self, plan: &str) {
        let mut current = self.current.lock();
        current.plan.clear();
        current.plan.push_str(plan);
    }

    /// Records that the command ended.
    pub(crate) fn end(&self) {
        self.running.store(false, Ordering::Release);
    }

    /// The key of a session of this connection's user.
    pub(crate) fn session_key(&self, id: SessionId) -> SessionKey {
        SessionKey { id, owner: self.current.lock().owner }
    }

    /// Makes the connection report its session to the table of sessions again, if `ended` selects it.
    pub(crate) fn forget_sessions(&self, ended: &dyn Fn(&SessionKey) -> bool) {
        let mut current = self.current.lock();
        if current.session.as_ref().is_some_and(ended) {
            current.session_noted = None;
        }
    }

    /// Interrupts the running operation if its session is selected by `killed`; returns whether it did.
    pub(crate) fn interrupt_session(&self, killed: &dyn Fn(&SessionKey) -> bool) -> bool {
        let current = self.current.lock();
        let here = self.running.load(Ordering::Acquire) && current.session.as_ref().is_some_and(killed);
        if here {
            self.interrupt.store(Code::Interrupted.0, Ordering::Relaxed);
        }
        here
    }

    /// Whether the connection runs a command.
    pub(crate) fn is_active(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn activity(&self) -> Activity {
        let current = self.current.lock();
        Activity {
            operation: self.operation.load(Ordering::Relaxed),
            since: current.since.filter(|_| self.running.load(Ordering::Acquire)),
            database: current.database.clone(),
            command: Document::from_reader(current.command.as_slice()).unwrap_or_default(),
            plan: current.plan.clone(),
            progress: current.progress,
            idle_since: current.idle_since,
            session: current.session,
        }
    }

    /// The locks of its operation.
    pub(crate) fn locks(&self) -> &OperationLocks {
        &self.locks
    }

    /// Shows the progress of the running operation, or none.
    pub(crate) fn set_progress(&self, progress: Option<OperationProgress>) {
        self.current.lock().progress = progress;
    }

    /// Shows the running write as a transaction between two operations, or as an operation again.
    pub(crate) fn set_idle_transaction(&self, is_idle: bool) {
        self.current.lock().idle_since = is_idle.then(Instant::now);
    }

    /// Asks its operation to stop with this code.
    pub(crate) fn interrupt(&self, operation: u64, code: Code) -> bool {
        // Under the lock that `begin` takes, so that the interrupt cannot hit the next operation.
        let _held = self.current.lock();
        let here =
            self.operation.load(Ordering::Relaxed) == operation && self.running.load(Ordering::Acquire);
        if here {
            self.interrupt.store(code.0, Ordering::Relaxed);
        }
        here
    }

    /// The code with which its operation is to stop.
    pub(crate) fn interrupted(&self) -> Option<Code> {
        Some(self.interrupt.load(Ordering::Relaxed)).filter(|code| *code != 0).map(Code)
    }

    /// Stores the client's description of itself; false if it had sent one before.
    pub(crate) fn set_metadata(&self, metadata: Document) -> bool {
        let mut held = self.metadata.lock();
        let first = held.is_none();
        if first {
            *held = Some(metadata);
        }
        first
    }

    /// Its description of itself.
    pub(crate) fn metadata(&self) -> Option<Document> {
        self.metadata.lock().clone()
    }

    /// The application name that the client gave.
    pub(crate) fn app_name(&self) -> Option<String> {
        let metadata = self.metadata.lock();
        let application = metadata.as_ref()?.get_document("application").ok()?;
        Some(application.get_str("name").ok()?.to_owned())
    }

    /// Whether the client is another member of the set.
    pub(crate) fn is_member(&self) -> bool {
        self.app_name().as_deref() == Some(REPLICATION_APP_NAME)
    }

    /// Gives it its socket.
    pub(crate) fn set_socket(&self, socket: Arc<TcpStream>) {
        // It keeps one socket for its whole life.
        let _ = self.socket.set(socket);
    }

    /// Ends the connection: at once if it is idle, otherwise after its current command.
    pub(crate) fn close_soon(&self) {
        self.close.store(true, Ordering::Relaxed);
        if let Some(socket) = self.socket.get() {
            // Only reading is shut down: a reply that is being written is still sent.
            let _ = socket.shutdown(std::net::Shutdown::Read);
        }
    }

    /// The users that it has authenticated as.
    pub(crate) fn users(&self) -> Vec<(String, String)> {
        self.users.lock().clone()
    }

    /// Records that it has authenticated as a further user; it can be only one user of each database.
    pub(crate) fn add_user(&self, name: &str, database: &str) {
        let mut users = self.users();
        users.retain(|(_, other)| other != database);
        users.push((name.to_owned(), database.to_owned()));
        self.set_users(users);
    }

    /// Replaces the users of the connection.
    pub(crate) fn set_users(&self, users: Vec<(String, String)>) {
        self.keep_users(users);
        self.granted.lock().forget();
    }

    /// Replaces its users while their privileges are being computed.
    pub(crate) fn keep_users(&self, users: Vec<(String, String)>) {
        let mut current = self.current.lock();
        current.owner = match users.first() {
            None => SessionOwner::default(),
            Some((name, database)) => SessionOwner::new(name, database),
        };
        drop(current);
        *self.users.lock() = users;
    }

    /// The privileges of its users; refresh them before use.
    pub(crate) fn granted(&self) -> MutexGuard<'_, PrivilegeSet> {
        self.granted.lock()
    }

    /// Whether it has authenticated as any user.
    pub(crate) fn is_authenticated(&self) -> bool {
        !self.users.lock().is_empty()
    }
}

/// Keeps as many fields of a long command as fit, and `$truncated` with the names of the others.
#[cold]
fn keep_beginning(command: &RawDocument, out: &mut Vec<u8>) {
    let mut left = MAX_COMMAND_BYTES;
    let mut missing = String::new();
    let mut short = DocumentWriter::new(out);
    for element in command.iter_elements().flatten() {
        let name = element.key().as_str();
        match (left.checked_sub(element.size()), element.value()) {
            (Some(rest), Ok(value)) => {
                left = rest;
                short.value(name, value);
            }
            _ if missing.len() + name.len() <= MAX_COMMAND_BYTES => {
                missing.push_str(if missing.is_empty() { "" } else { ", " });
                missing.push_str(name);
            }
            _ => {}
        }
    }
    short.string("$truncated", &missing);
}

#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    created: AtomicU64,
    rejected: AtomicU64,
    operations: AtomicU64,
}

impl Clients {
    pub(crate) fn add(&self, remote: String) -> Arc<Client> {
        let id = self.created.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(id, remote));
        self.open.lock().insert(id, Arc::clone(&client));
        client
    }

    /// Removes a connection that is closed.
    pub(crate) fn remove(&self, id: u64) {
        self.open.lock().remove(&id);
    }

    /// Counts a connection that was turned away.
    pub(crate) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// All connections that are open.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.open.lock().values().cloned().collect()
    }

    /// The connections that run a command. Of thousands that are open these are mostly few, and monitoring asks for them each second.
    pub(crate) fn active(&self) -> Vec<Arc<Client>> {
        self.open.lock().values().filter(|client| client.is_active()).cloned().collect()
    }

    /// The numbers of open, created and rejected connections.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        (self.open.lock().len(), self.created.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }

    /// The number of the next operation.
    pub(crate) fn next_operation(&self) -> u64 {
        self.operations.fetch_add(1, Ordering::Relaxed) + 1
    }
}

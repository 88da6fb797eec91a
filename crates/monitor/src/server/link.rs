//! A sampler's link to a server: the server's role, a connection that is re-established, and the cost of our commands.
//!
//! A command's cost is its round trip less that of the preceding ping: the server's own time, within the noise of a ping.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use fathom_client::{Address, Code, Connection, Target};

use crate::{Batch, Sums};

/// A server counts as down if a reply takes longer than this. A server stalled by a checkpoint answers later than usual,
/// and that delay is worth recording.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of one attempt to reconnect to a server.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The role of a watched server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedRole {
    /// A server without a replica set.
    Standalone,
    /// The member that took writes when the run began.
    Primary,
    /// Another member that holds data.
    Secondary,
    Router,
}

impl WatchedRole {
    /// Its name in facts.
    pub fn name(self) -> &'static str {
        match self {
            WatchedRole::Standalone => "standalone",
            WatchedRole::Primary => "primary",
            WatchedRole::Secondary => "secondary",
            WatchedRole::Router => "router",
        }
    }

    /// Returns whether it has a storage engine.
    pub fn has_engine(self) -> bool {
        self != WatchedRole::Router
    }
}

/// A server that is watched.
#[derive(Clone, Debug)]
pub struct WatchedServer {
    /// Its number in the run: `server.{number}`.
    pub number: usize,
    /// Its address, by the name that its set uses for it.
    pub address: Address,
    pub role: WatchedRole,
    /// The replica set it belongs to.
    pub set: Option<String>,
    /// The shard it belongs to.
    pub shard: Option<String>,
    /// True if it did not answer during discovery; its set lists it nevertheless.
    pub is_silent: bool,
    /// Its process, if it runs on this host.
    pub pid: Option<u32>,
    /// Its data directory as the server reports it; a path of this host if `pid` is set.
    pub dbpath: Option<PathBuf>,
    /// Its log as the server reports it; a path of this host if `pid` is set.
    pub log: Option<PathBuf>,
    /// The target of the connection.
    pub(crate) target: Target,
}

/// The reason for a missing answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The connection to the server failed.
    Lost(String),
    /// Our user lacks the privilege (13, Unauthorized).
    Denied,
    /// The server does not know the command, the stage or the collection, or is not a member of a set.
    Absent,
    Failed(String),
}

#[derive(Debug)]
pub(crate) struct ServerLink {
    number: usize,
    address: Address,
    target: Target,
    connection: Option<Connection>,
    ping: Duration,
    spent: Duration,
    sums: Sums,
}

impl ServerLink {
    /// Makes a link that connects at its first use.
    pub(crate) fn new(number: usize, address: Address, target: &Target) -> ServerLink {
        let mut target = target.clone();
        target.socket_timeout =
            Some(target.socket_timeout.map_or(REPLY_TIMEOUT, |own| own.min(REPLY_TIMEOUT)));
        target.app_name.get_or_insert_with(|| "fathom".to_owned());
        ServerLink {
            number,
            address,
            target,
            connection: None,
            ping: Duration::ZERO,
            spent: Duration::ZERO,
            sums: Sums::default(),
        }
    }

    /// Its name in notes: its number and its address.
    pub(crate) fn who(&self) -> String {
        format!("server {} ({})", self.number, self.address)
    }

    /// Connects if not connected. After the first time, an attempt on a server that does not answer ends early.
    pub(crate) fn connect(&mut self) -> Result<(), Refusal> {
        if self.connection.as_ref().is_some_and(|connection| !connection.is_broken()) {
            return Ok(());
        }
        self.connection = None;
        let opened = Connection::open(&self.address, &self.target);
        self.target.connect_timeout = self.target.connect_timeout.min(RECONNECT_TIMEOUT);
        self.connection = Some(opened.map_err(|error| match error {
            // A refused login does not succeed later, but a member that restarts refuses logins too.
            fathom_client::Error::Server(failure) => Refusal::Lost(failure.message().to_owned()),
            fathom_client::Error::Network(error) => Refusal::Lost(error.to_string()),
        })?);
        Ok(())
    }

    /// Sends a command and waits for the reply, which is borrowed from the buffer.
    pub(crate) fn ask(&mut self, database: &str, command: &RawDocument) -> Result<&RawDocument, Refusal> {
        self.connect()?;
        let ServerLink { connection, ping, spent, .. } = self;
        let Some(connection) = connection else { return Err(Refusal::Lost(String::new())) };
        let preference = rawdoc! { "mode": "primaryPreferred" };
        let began = Instant::now();
        let answer = connection.call(|message| {
            let mut body = message.body();
            body.extend_raw(command);
            body.string("$db", database);
            // Without it a secondary refuses commands that read data; a primary and a standalone server ignore it.
            body.document("$readPreference", &preference);
            body.end();
        });
        *spent += began.elapsed().saturating_sub(*ping);
        answer.map_err(refusal)
    }

    /// Like [`ServerLink::ask`], with a reply that outlives the next command.
    pub(crate) fn ask_owned(
        &mut self,
        database: &str,
        command: &RawDocument,
    ) -> Result<RawDocumentBuf, Refusal> {
        self.ask(database, command).map(RawDocument::to_owned)
    }

    /// The round trip of a ping.
    pub(crate) fn ping(&mut self) -> Result<Duration, Refusal> {
        self.connect()?;
        let spent = self.spent;
        let began = Instant::now();
        self.ask("admin", &rawdoc! { "ping": 1 })?;
        self.ping = began.elapsed();
        self.spent = spent;
        Ok(self.ping)
    }

    /// Adds the cost of our commands to the server since the last call.
    pub(crate) fn account(&mut self, batch: &mut Batch) {
        let name = format!("monitor.server.{}.command_us", self.number);
        let total_us = self.spent.as_secs_f64() * 1e6;
        let now_ns = batch.clock.now_ns();
        self.sums.put(batch, &name, "us", now_ns, total_us);
    }
}

fn refusal(error: fathom_client::Error) -> Refusal {
    let failure = match error {
        fathom_client::Error::Network(error) => return Refusal::Lost(error.to_string()),
        fathom_client::Error::Server(failure) => failure,
    };
    const ABSENT: [Code; 4] =
        [Code::CommandNotFound, Code::NamespaceNotFound, Code::NoReplicationEnabled, Code::NotYetInitialized];
    match failure.code() {
        Code::Unauthorized => Refusal::Denied,
        code if ABSENT.contains(&code) => Refusal::Absent,
        _ => Refusal::Failed(failure.message().trim_end_matches('.').to_owned()),
    }
}

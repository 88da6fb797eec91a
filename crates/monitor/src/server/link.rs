//! A server as a sampler talks to it: what it is, a connection that comes back, and what our commands cost.
//!
//! A command's cost is its round trip less that of the ping before: what the server itself did, within the noise of a ping.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use fathom_client::{Address, Code, Connection, Target};

use crate::{Batch, Sums};

/// A reply may take this long before the server counts as gone: a server that stands still for a checkpoint answers later than
/// usual, and that it does is worth knowing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Coming back to a server that went away is tried for this long at a time.
const PATIENCE_TO_RETURN: Duration = Duration::from_secs(1);

/// What a watched server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedRole {
    /// A server by itself.
    Standalone,
    /// The member that took writes when the run began.
    Primary,
    /// Another member that holds data.
    Secondary,
    /// A mongos.
    Router,
}

impl WatchedRole {
    /// As it stands in facts.
    pub fn name(self) -> &'static str {
        match self {
            WatchedRole::Standalone => "standalone",
            WatchedRole::Primary => "primary",
            WatchedRole::Secondary => "secondary",
            WatchedRole::Router => "router",
        }
    }

    /// Whether it has a storage engine.
    pub fn has_engine(self) -> bool {
        self != WatchedRole::Router
    }
}

/// A server that is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its number in the run: `server.{number}`.
    pub number: usize,
    /// Where it is, under the name that its set has for it.
    pub address: Address,
    /// What it is.
    pub role: WatchedRole,
    /// The replica set it belongs to.
    pub set: Option<String>,
    /// The shard it belongs to.
    pub shard: Option<String>,
    /// Whether it did not answer when the servers were looked for; a set names it all the same.
    pub is_silent: bool,
    /// Its process, if it runs on this host.
    pub pid: Option<u32>,
    /// Its data directory as it says; a path of this host if there is a `pid`.
    pub dbpath: Option<PathBuf>,
    /// Its log as it says; a path of this host if there is a `pid`.
    pub log: Option<PathBuf>,
    /// What to connect with.
    pub(crate) target: Target,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The way to the server failed.
    Lost(String),
    /// Our user may not (13, Unauthorized).
    Denied,
    /// The server does not know the command, the stage or the collection, or is no member of a set.
    Absent,
    /// Another failure.
    Failed(String),
}

/// One server.
#[derive(Debug)]
pub(crate) struct Link {
    number: usize,
    address: Address,
    target: Target,
    connection: Option<Connection>,
    ping: Duration,
    spent: Duration,
    sums: Sums,
}

impl Link {
    /// A link that connects when it is first used.
    pub(crate) fn new(number: usize, address: Address, target: &Target) -> Link {
        let mut target = target.clone();
        target.socket_timeout = Some(target.socket_timeout.map_or(PATIENCE, |own| own.min(PATIENCE)));
        target.app_name.get_or_insert_with(|| "fathom".to_owned());
        Link {
            number,
            address,
            target,
            connection: None,
            ping: Duration::ZERO,
            spent: Duration::ZERO,
            sums: Sums::default(),
        }
    }

    /// As it stands in notes: its number and where it is.
    pub(crate) fn who(&self) -> String {
        format!("server {} ({})", self.number, self.address)
    }

    /// Connects if there is no connection. After the first time, a server that does not answer is given up soon.
    pub(crate) fn connect(&mut self) -> Result<(), Refusal> {
        if self.connection.as_ref().is_some_and(|connection| !connection.is_broken()) {
            return Ok(());
        }
        self.connection = None;
        let opened = Connection::open(&self.address, &self.target);
        self.target.connect_timeout = self.target.connect_timeout.min(PATIENCE_TO_RETURN);
        self.connection = Some(opened.map_err(|error| match error {
            // A login that is refused is no better next time, but a member that starts again refuses logins too.
            fathom_client::Error::Server(failure) => Refusal::Lost(failure.message().to_owned()),
            fathom_client::Error::Network(error) => Refusal::Lost(error.to_string()),
        })?);
        Ok(())
    }

    /// Sends a command and waits for the reply, which stays where it lies.
    pub(crate) fn ask(&mut self, database: &str, command: &RawDocument) -> Result<&RawDocument, Refusal> {
        self.connect()?;
        let Link { connection, ping, spent, .. } = self;
        let Some(connection) = connection else { return Err(Refusal::Lost(String::new())) };
        let preference = rawdoc! { "mode": "primaryPreferred" };
        let began = Instant::now();
        let answer = connection.call(|message| {
            let mut body = message.body();
            body.extend_raw(command);
            body.string("$db", database);
            // Without it a secondary refuses what reads data; a primary, and a server alone, take no notice.
            body.document("$readPreference", &preference);
            body.end();
        });
        *spent += began.elapsed().saturating_sub(*ping);
        answer.map_err(refusal)
    }

    /// [`Link::ask`] with a reply that outlives the next command.
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

    /// What our commands cost the server since the last time this was called.
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

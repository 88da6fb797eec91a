//! Connections to other members: one for heartbeats, which reconnects by itself, and one for each vote.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_client::{Address, Connection, Credential, LOOK_UP_TIMEOUT, Target, host_addresses};
use fathom_query::{Code, Failure};
use fathom_replication::messages::{HeartbeatReply, RequestVotesReply};
use fathom_replication::{Host, ReplicaSetConfig};

use crate::Result;
use crate::client::REPLICATION_APP_NAME;
use crate::instance::Instance;

/// The time limit for an address to answer whether it belongs to this server.
const IS_SELF_TIMEOUT: Duration = Duration::from_secs(3);

/// The time limit for a member to answer the request to run for election.
const STEP_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// One heartbeat to send.
struct Beat {
    sequence: u64,
    arguments: Document,
    timeout: Duration,
}

/// The connection for heartbeats; it ends when dropped.
pub(super) struct HeartbeatLink {
    beats: Sender<Beat>,
}

impl HeartbeatLink {
    /// Starts the thread that sends heartbeats.
    pub(super) fn start(instance: &Arc<Instance>, to: &Host) -> HeartbeatLink {
        let (beats, receiver) = channel();
        let (instance, to) = (Arc::clone(instance), to.clone());
        // Without a thread every heartbeat times out, which is what the coordinator must learn.
        let _ = std::thread::Builder::new()
            .name("ReplHeartbeat".to_owned())
            .spawn(move || send_beats(&instance, &to, &receiver));
        HeartbeatLink { beats }
    }

    /// Sends a heartbeat; the coordinator gets the outcome.
    pub(super) fn heartbeat(&self, sequence: u64, arguments: Document, timeout: Duration) {
        let _ = self.beats.send(Beat { sequence, arguments, timeout });
    }
}

fn send_beats(instance: &Arc<Instance>, to: &Host, beats: &Receiver<Beat>) {
    let mut connection: Option<Connection> = None;
    while let Ok(mut beat) = beats.recv() {
        // If several have queued behind a slow one, only the newest matters.
        while let Ok(newer) = beats.try_recv() {
            beat = newer;
        }
        if instance.is_stopping() {
            return;
        }
        let begun = Instant::now();
        let answer = ask(instance, to, &mut connection, &beat.arguments, beat.timeout)
            .and_then(|reply| HeartbeatReply::from_document(&reply));
        let round_trip = begun.elapsed();
        let Some(set) = &instance.set else { return };
        set.tell(|coordinator, now| {
            coordinator.heartbeat_answered(now, to, beat.sequence, round_trip, answer);
        });
    }
}

/// Requests a vote on a thread of its own.
pub(super) fn request_vote(
    instance: &Arc<Instance>,
    to: &Host,
    round: u64,
    arguments: Document,
    timeout: Duration,
) {
    let (instance, to) = (Arc::clone(instance), to.clone());
    let run = move || {
        let answer = ask(&instance, &to, &mut None, &arguments, timeout)
            .and_then(|reply| RequestVotesReply::from_document(&reply));
        if let Some(set) = &instance.set {
            set.tell(|coordinator, now| coordinator.vote_answered(now, &to, round, answer));
        }
    };
    // A vote request that cannot be sent counts as a vote not given.
    let _ = std::thread::Builder::new().name("ReplVote".to_owned()).spawn(run);
}

/// Asks another member to run for election, on a thread of its own; the set shows the outcome.
pub(super) fn step_up(instance: &Arc<Instance>, to: &Host) {
    let (instance, to) = (Arc::clone(instance), to.clone());
    let run = move || {
        if let Err(failure) = ask(&instance, &to, &mut None, &doc! { "replSetStepUp": 1 }, STEP_UP_TIMEOUT) {
            let attributes = doc! { "to": to.as_str(), "error": failure.message() };
            instance.log.info(
                "REPL",
                21336,
                "ReplCoord",
                "The member that was to follow did not stand",
                attributes,
            );
        }
    };
    // Without a thread, the election timeout leads to another primary.
    let _ = std::thread::Builder::new().name("ReplHandOver".to_owned()).spawn(run);
}

/// Runs an internal command of the database `admin` on another member, connecting first if the caller requests it.
pub(crate) fn ask(
    instance: &Instance,
    to: &Host,
    connection: &mut Option<Connection>,
    command: &Document,
    timeout: Duration,
) -> Result<Document> {
    if connection.as_ref().is_none_or(Connection::is_broken) {
        *connection = Some(connect(instance, to, timeout)?);
    }
    let Some(open) = connection else { return Err(unreachable_host(to, "no connection")) };
    open.set_timeout(Some(timeout)).map_err(|error| unreachable_host(to, &error.to_string()))?;
    match open.run("admin", command) {
        Ok(reply) => crate::parse::owned(&reply),
        Err(fathom_client::Error::Server(failure)) => Err(failure),
        Err(error) => {
            *connection = None;
            Err(unreachable_host(to, &error.to_string()))
        }
    }
}

/// Connects to another member, authenticated as a member of the set.
pub(crate) fn connect(instance: &Instance, to: &Host, timeout: Duration) -> Result<Connection> {
    let address: Address = to.as_str().parse().map_err(|_| unreachable_host(to, "it is not an address"))?;
    let mut target = Target::at(address.clone());
    target.app_name = Some(REPLICATION_APP_NAME.to_owned());
    target.connect_timeout = timeout.min(Duration::from_secs(10)).max(Duration::from_millis(100));
    target.socket_timeout = Some(timeout);
    target.direct_connection = true;
    if let Some((user, password)) = instance.users.member_login() {
        target.credential = Some(Credential { user, password, source: "local".to_owned(), mechanism: None });
    }
    Connection::open(&address, &target).map_err(|error| unreachable_host(to, &error.to_string()))
}

/// Marks a read so that a secondary answers it too: a sync source may be either.
pub(super) fn of_any_role(mut read: Document) -> Document {
    read.insert("$readPreference", doc! { "mode": "secondaryPreferred" });
    read
}

fn unreachable_host(to: &Host, why: &str) -> Failure {
    Failure::new(Code::HostUnreachable, format!("Error connecting to {to} :: caused by :: {why}"))
}

/// The index in a configuration of this server: the member that names its port and an address of this machine. `None` if it is
/// not a member; a failure if it appears twice.
pub(crate) fn own_index(instance: &Instance, config: &ReplicaSetConfig) -> Result<Option<usize>> {
    let own: Vec<usize> = config
        .members
        .iter()
        .enumerate()
        .filter(|(_, member)| is_own(instance, &member.host))
        .map(|(place, _)| place)
        .collect();
    match own.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => Err(Failure::new(
            Code::InvalidReplicaSetConfig,
            "This node is in the replica set config more than once, by different names",
        )),
    }
}

/// Whether a member's address belongs to this server: by the address itself, or because this server answers there, as behind a proxy.
fn is_own(instance: &Instance, host: &Host) -> bool {
    if is_own_address(instance, host) {
        return true;
    }
    let asked = ask(instance, host, &mut None, &doc! { "_isSelf": 1 }, IS_SELF_TIMEOUT);
    asked.is_ok_and(|reply| reply.get_object_id("id").is_ok_and(|id| id == instance.id))
}

fn is_own_address(instance: &Instance, host: &Host) -> bool {
    let Some((name, port)) = host.as_str().rsplit_once(':') else { return false };
    let port: u16 = port.parse().unwrap_or(0);
    if instance.port.get() != Some(&port) {
        return false;
    }
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let Ok(addresses) = host_addresses(name, 0, LOOK_UP_TIMEOUT) else { return false };
    // Only an address of this machine (or of this network namespace) can be bound.
    addresses.into_iter().any(|address| std::net::UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok())
}

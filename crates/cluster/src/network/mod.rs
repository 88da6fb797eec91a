//! Network faults between servers: a proxy in front of each server, which delays and cuts connections.
//!
//! A proxy is used instead of network namespaces with `tc netem`: it needs no root, no kernel module and no addresses that clients
//! elsewhere would have to know. It works with any server, and a cut begins and ends within milliseconds. It adds a process to the
//! path, so a cluster has it only on request.
//!
//! A cut is silent, as in a network: connections stay open and their bytes wait, new ones are accepted and get no answer; after the
//! heal all traffic continues, as with TCP retransmission. Each direction has two threads, so that consecutive bytes are delayed by
//! the same time and delays do not add up.
//!
//! The kernel's tables tell whether a connection belongs to a member or a client, since all come from the loopback: they give the
//! socket at the other end, and which of our processes has it open (proc_net_tcp(5), proc_pid_fd(5)).

mod rules;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;

use crate::layout::layout;
use crate::ports::{TcpEntry, holds};
use crate::state::ClusterState;

pub use rules::Rules;

/// The interval at which the rules are read, and at which cut connections check whether they still are.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The state that all threads share.
struct ProxyState {
    rules: RwLock<Rules>,
    sources: Sources,
}

impl ProxyState {
    fn rules<T>(&self, ask: impl FnOnce(&Rules) -> T) -> T {
        ask(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One direction between two ends.
#[derive(Clone, Copy)]
struct Link {
    from: Option<u16>,
    to: u16,
}

/// Runs the proxy in front of all servers of the cluster in `folder`, until its process ends.
pub fn serve(folder: &Path) -> Result<()> {
    let what = || format!("there is no cluster in {}", folder.display());
    let missing = || Error::new(Kind::NotFound, what()).with_id("no-cluster");
    let state = ClusterState::read(folder)?.ok_or_else(missing)?;
    let shared =
        Arc::new(ProxyState { rules: RwLock::new(Rules::read(folder)?), sources: Sources::new(folder) });
    for node in layout(&state.topology, folder)? {
        let address = SocketAddr::from(([127, 0, 0, 1], node.port));
        let listener = TcpListener::bind(address).map_err(|cause| {
            let what = format!("cannot listen on port {}", node.port);
            Error::new(Kind::Busy, what).because(cause).with_id("port-taken")
        })?;
        let behind = SocketAddr::from(([127, 0, 0, 1], node.own_port));
        let shared = Arc::clone(&shared);
        spawn("listener", move || accept(&listener, node.port, behind, &shared))?;
    }
    loop {
        thread::sleep(CHECK_INTERVAL);
        // A file that is being replaced is read the next time.
        if let Ok(rules) = Rules::read(folder)
            && shared.rules(|before| *before != rules)
        {
            *shared.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let failed = |cause| Error::new(Kind::Unsupported, "cannot start a thread").because(cause);
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(failed)
}

fn accept(listener: &TcpListener, port: u16, behind: SocketAddr, shared: &Arc<ProxyState>) {
    for client in listener.incoming().flatten() {
        let shared = Arc::clone(shared);
        // If the server is down, the connection ends for the client, as it does without a proxy.
        let _ = spawn("connection", move || drop(join(client, port, behind, &shared)));
    }
}

fn join(client: TcpStream, port: u16, behind: SocketAddr, shared: &Arc<ProxyState>) -> Result<()> {
    let failed = |cause: io::Error| Error::new(Kind::Io, "a connection broke").because(cause);
    let from = shared.sources.source_of(client.peer_addr().map_err(failed)?.port(), port);
    let server = TcpStream::connect(behind).map_err(failed)?;
    client.set_nodelay(true).map_err(failed)?;
    server.set_nodelay(true).map_err(failed)?;
    let link = Link { from, to: port };
    let ends = [(client.try_clone().map_err(failed)?, server.try_clone().map_err(failed)?), (server, client)];
    for (from, to) in ends {
        let (sender, receiver) = channel();
        let (one, other) = (Arc::clone(shared), Arc::clone(shared));
        spawn("from", move || take(from, &sender, link, &one))?;
        spawn("to", move || hand_on(to, &receiver, link, &other))?;
    }
    Ok(())
}

fn take(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, link: Link, shared: &ProxyState) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + shared.rules(|rules| rules.one_way(link.from, link.to));
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if sender.send((due, bytes)).is_err() {
            return;
        }
    }
}

fn hand_on(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>, link: Link, shared: &ProxyState) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        await_passage(link, shared);
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The closing of one end is information that a cut delays as well.
    await_passage(link, shared);
    let _ = to.shutdown(Shutdown::Both);
}

fn await_passage(link: Link, shared: &ProxyState) {
    while shared.rules(|rules| rules.is_cut(link.from, link.to)) {
        thread::sleep(CHECK_INTERVAL);
    }
}

/// The servers of a cluster, as listed in its state file.
#[derive(Debug)]
struct Sources {
    folder: PathBuf,
}

impl Sources {
    fn new(folder: &Path) -> Sources {
        Sources { folder: folder.to_owned() }
    }

    /// The server whose connection comes from `remote_port` to our `port`; `None` for a client's.
    fn source_of(&self, remote_port: u16, port: u16) -> Option<u16> {
        let view = View::live();
        let is_it = |socket: &TcpEntry| {
            socket.local_port == remote_port && socket.remote_port == port && !socket.listens
        };
        let tables = ["proc/net/tcp", "proc/net/tcp6"].map(|path| view.text(path).unwrap_or_default());
        let socket = tables.iter().flat_map(|table| table.lines()).filter_map(TcpEntry::parse).find(is_it)?;
        // Read each time: servers start and stop, and connections are few.
        let state = ClusterState::read(&self.folder).ok()??;
        let has = |pid: u32| holds(pid, socket.inode);
        state
            .servers
            .iter()
            .find(|server| server.process.is_some_and(|id| has(id.pid)))
            .map(|server| server.port)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use fathom_process::ProcessId;

    use super::*;
    use crate::arguments::Maker;
    use crate::state::ServerState;
    use crate::topology::Topology;

    #[test]
    fn a_members_connection_is_told_from_a_clients() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let remote = listener.accept().unwrap().1.port();
        let sources = Sources::new(folder.path());
        assert_eq!(sources.source_of(remote, port), None, "there is no state");
        let server = |port, process| ServerState {
            port,
            maker: Maker::Fathom,
            program: "fathom".into(),
            version: None,
            arguments: Vec::new(),
            process,
            groups: Vec::new(),
        };
        let other = ProcessId { pid: 1, start_time: 1 };
        let servers = vec![server(1, None), server(2, Some(other)), server(3, ProcessId::current().ok())];
        ClusterState::new(Topology::default(), servers).write(folder.path()).unwrap();
        assert_eq!(sources.source_of(remote, port), Some(3));
        assert_eq!(sources.source_of(remote, port + 1), None);
    }
}

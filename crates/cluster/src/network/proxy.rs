//! The proxy: one listener for each server, and what passes through it late, or not while the two ends are cut apart.
//!
//! A cut is silent, as a network's is: connections stay open and their bytes wait, new ones are taken and get no answer; after
//! the heal all goes on, as with TCP that sends again. Two threads for each direction, so that bytes which come close behind each
//! other are late by the same time and not by sums of it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

use super::rules::Rules;
use super::source::Sources;
use crate::layout::layout;
use crate::state::State;

/// How often the rules are looked at, and those who are cut off look whether they still are.
const LOOK: Duration = Duration::from_millis(10);

/// What all threads share.
struct Shared {
    rules: RwLock<Rules>,
    sources: Sources,
}

impl Shared {
    fn rules<T>(&self, ask: impl FnOnce(&Rules) -> T) -> T {
        ask(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One way between two ends.
#[derive(Clone, Copy)]
struct Link {
    from: Option<u16>,
    to: u16,
}

/// Stands before all servers of the cluster in `folder`, until its process ends.
pub fn serve(folder: &Path) -> Result<()> {
    let missing = || Error::new(Kind::NotFound, format!("there is no cluster in {}", folder.display()));
    let state = State::read(folder)?.ok_or_else(missing)?;
    let shared = Arc::new(Shared { rules: RwLock::new(Rules::read(folder)?), sources: Sources::new(folder) });
    for node in layout(&state.topology, folder)? {
        let address = SocketAddr::from(([127, 0, 0, 1], node.port));
        let listener = TcpListener::bind(address).map_err(|cause| {
            Error::new(Kind::Busy, format!("cannot listen on port {}", node.port)).because(cause)
        })?;
        let behind = SocketAddr::from(([127, 0, 0, 1], node.own_port));
        let shared = Arc::clone(&shared);
        spawn("listener", move || accept(&listener, node.port, behind, &shared))?;
    }
    loop {
        thread::sleep(LOOK);
        // A file that is just being replaced is read the next time.
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

fn accept(listener: &TcpListener, port: u16, behind: SocketAddr, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        let shared = Arc::clone(shared);
        // A server that is not there is an end of the connection for the client, as it is without a proxy.
        let _ = spawn("connection", move || drop(join(client, port, behind, &shared)));
    }
}

fn join(client: TcpStream, port: u16, behind: SocketAddr, shared: &Arc<Shared>) -> Result<()> {
    let failed = |cause: io::Error| Error::new(Kind::Io, "a connection broke").because(cause);
    let from = shared.sources.of(client.peer_addr().map_err(failed)?.port(), port);
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

fn take(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, link: Link, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + shared.rules(|rules| rules.one_way(link.from, link.to));
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if sender.send((due, bytes)).is_err() {
            return;
        }
    }
}

fn hand_on(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>, link: Link, shared: &Shared) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        await_passage(link, shared);
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // That one end has closed is news that a cut holds up as well.
    await_passage(link, shared);
    let _ = to.shutdown(Shutdown::Both);
}

fn await_passage(link: Link, shared: &Shared) {
    while shared.rules(|rules| rules.is_cut(link.from, link.to)) {
        thread::sleep(LOOK);
    }
}

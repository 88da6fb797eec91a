//! Listening: addresses, the limit of connections, a thread for each.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bson::doc;
use fathom_errors::{Error, Kind};
use parking_lot::Mutex;
use rustls::ServerConfig;

use super::connection::Connection;
use super::stream::Socket;
use crate::config::{NetOptions, TlsMode};
use crate::instance::Instance;

/// What a connection's thread may use of stack, as mongod's; the deepest recursion is over 200 nested documents.
const STACK_BYTES: usize = 1 << 20;
/// How many may wait to be accepted, as the kernel's own `SOMAXCONN` has it.
const BACKLOG: i32 = 4096;
/// How long the listener rests between two looks at whether the server stops.
const ACCEPT_POLL: Duration = Duration::from_millis(50);
/// After how long an idle connection is asked whether it lives, as mongod sets it.
const KEEPALIVE_SECONDS: u64 = 120;

/// Binds all addresses; with port 0 the first one decides the port of the others.
pub(crate) fn bind(net: &NetOptions) -> Result<Vec<TcpListener>, Error> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut port = net.port;
    for host in &net.bind_ip {
        let resolved = (host.as_str(), port).to_socket_addrs().map_err(|error| {
            Error::new(Kind::Usage, format!("cannot resolve the address '{host}' of --bind_ip"))
                .because(error)
        })?;
        for address in resolved {
            // `localhost` may stand for two addresses, and a name for the same one twice.
            let same = |one: &TcpListener| one.local_addr().is_ok_and(|bound| bound == address);
            if listeners.iter().any(same) {
                continue;
            }
            let listener = listen(SocketAddr::new(address.ip(), port))?;
            if port == 0 {
                port = listener.local_addr().map_err(|error| Error::io("listen on", host, error))?.port();
            }
            listeners.push(listener);
        }
    }
    Ok(listeners)
}

fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let kind = if error.kind() == std::io::ErrorKind::AddrInUse {
            Kind::Busy
        } else {
            fathom_errors::kind_of(&error)
        };
        let advice = if kind == Kind::Busy {
            "give another --port, or stop what listens there"
        } else {
            "check --bind_ip and --port"
        };
        Error::new(kind, format!("cannot listen on {address}")).because(error).advise(advice)
    })?;
    // The standard library lets 128 wait to be accepted; a pool that opens more at once would wait for seconds. A kernel that
    // refuses leaves it at that.
    let _ = rustix::net::listen(&listener, BACKLOG);
    Ok(listener)
}

/// The sockets of all connections, so that they can be ended from outside, and their threads.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    open: Mutex<HashMap<u64, Arc<TcpStream>>>,
}

/// The running listeners.
#[derive(Debug)]
pub(crate) struct Listener {
    accepting: Vec<JoinHandle<()>>,
    sockets: Arc<Sockets>,
}

impl Listener {
    /// Accepts connections on `listeners` from now on.
    pub(crate) fn start(
        instance: &Arc<Instance>,
        listeners: Vec<TcpListener>,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Listener, Error> {
        let sockets = Arc::new(Sockets::default());
        let mut accepting = Vec::new();
        for listener in listeners {
            let failed = |error| Error::new(Kind::Io, "cannot start the listener").because(error);
            listener.set_nonblocking(true).map_err(failed)?;
            let (instance, sockets, tls) = (Arc::clone(instance), Arc::clone(&sockets), tls.clone());
            let run = move || accept_all(&instance, &listener, &sockets, tls.as_ref());
            accepting
                .push(std::thread::Builder::new().name("listener".to_owned()).spawn(run).map_err(failed)?);
        }
        Ok(Listener { accepting, sockets })
    }

    /// Ends all connections and waits until their threads are gone, a bounded time.
    pub(crate) fn stop(self) {
        for thread in self.accepting {
            // A listener that panicked accepts nothing more, which is what is wanted.
            let _ = thread.join();
        }
        for socket in self.sockets.open.lock().values() {
            // Only reading ends: a reply that is being written may still go out.
            let _ = socket.shutdown(std::net::Shutdown::Read);
        }
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while !self.sockets.open.lock().is_empty() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn accept_all(
    instance: &Arc<Instance>,
    listener: &TcpListener,
    sockets: &Arc<Sockets>,
    tls: Option<&Arc<ServerConfig>>,
) {
    let mut poll = rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN);
    while !instance.is_stopping() {
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: ACCEPT_POLL.subsec_nanos().into() };
        if !matches!(rustix::event::poll(std::slice::from_mut(&mut poll), Some(&timeout)), Ok(1..)) {
            continue;
        }
        match listener.accept() {
            Ok((stream, peer)) => welcome(instance, stream, peer, sockets, tls),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                ) => {}
            Err(error) => {
                // Out of file descriptors, most likely: say it, and let others finish first.
                instance.log.warning(
                    "NETWORK",
                    23018,
                    "listener",
                    "Error accepting new connection",
                    doc! {
                        "error": error.to_string(),
                    },
                );
                std::thread::sleep(ACCEPT_POLL);
            }
        }
    }
}

fn welcome(
    instance: &Arc<Instance>,
    stream: TcpStream,
    peer: SocketAddr,
    sockets: &Arc<Sockets>,
    tls: Option<&Arc<ServerConfig>>,
) {
    let open = sockets.open.lock().len();
    if open >= instance.config.net.max_connections {
        instance.clients.reject();
        instance.log.info(
            "NETWORK",
            22942,
            "listener",
            "Connection refused because there are too many open connections",
            doc! {
                "remote": peer.to_string(),
                "connectionCount": i64::try_from(open).unwrap_or(i64::MAX),
            },
        );
        return;
    }
    // A socket that refuses these options still works.
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(KEEPALIVE_SECONDS));
    let client = instance.clients.add(peer.to_string());
    let id = client.id;
    let socket = Arc::new(stream);
    client.set_socket(Arc::clone(&socket));
    sockets.open.lock().insert(id, Arc::clone(&socket));
    instance.log.info(
        "NETWORK",
        22943,
        "listener",
        "Connection accepted",
        doc! {
            "remote": &client.remote,
            "connectionId": i64::try_from(id).unwrap_or(i64::MAX),
            "connectionCount": i64::try_from(open + 1).unwrap_or(i64::MAX),
        },
    );
    let thread = std::thread::Builder::new().name(format!("conn{id}")).stack_size(STACK_BYTES);
    let leave = Leave { instance: Arc::clone(instance), sockets: Arc::clone(sockets), id };
    let tls = tls.cloned();
    let mode = instance.config.net.tls.mode;
    let run = move || {
        // Dropped last, also when the connection panics.
        let leave = leave;
        if let Ok(stream) = super::connection::secure(Socket(socket), tls.as_ref(), mode != TlsMode::Require)
        {
            Connection::new(Arc::clone(&leave.instance), client, stream).serve();
        }
    };
    // Where no thread can be made, `run` is dropped and `leave` with it: the connection is closed.
    if let Err(error) = thread.spawn(run) {
        instance.log.warning(
            "NETWORK",
            22944,
            "listener",
            "cannot start a thread for a connection",
            doc! {
                "error": error.to_string(),
            },
        );
    }
}

/// Takes a connection out of the lists when its thread ends.
struct Leave {
    instance: Arc<Instance>,
    sockets: Arc<Sockets>,
    id: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.instance.clients.remove(self.id);
        let mut open = self.sockets.open.lock();
        open.remove(&self.id);
        let left = i64::try_from(open.len()).unwrap_or(i64::MAX);
        drop(open);
        self.instance.log.info(
            "NETWORK",
            22944,
            &format!("conn{}", self.id),
            "Connection ended",
            doc! {
                "connectionId": i64::try_from(self.id).unwrap_or(i64::MAX),
                "connectionCount": left,
            },
        );
    }
}

//! The listener: binds addresses, limits the number of connections, and starts a thread for each.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bson::doc;
use fathom_errors::{Error, Kind};
use rustls::ServerConfig;

use crate::Service;
use crate::connection::{secure, spawn};
use crate::service::{ConnectionGuard, ServedConnection, Sockets};
use crate::stream::Socket;

/// The number of connections that may wait to be accepted, as in the kernel's `SOMAXCONN`.
const MAX_BACKLOG: i32 = 4096;
/// The interval at which the listener checks whether the server stops.
const ACCEPT_POLL: Duration = Duration::from_millis(50);
/// The time after which the kernel probes an idle connection, as in mongod.
const KEEPALIVE_SECONDS: u64 = 120;

/// The limits on accepted connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections beyond this are closed at once.
    pub max_connections: usize,
    /// Whether a client may connect without TLS although TLS is enabled.
    pub may_be_plain: bool,
}

/// Binds all addresses to which `addresses_of` resolves the names; with port 0 the first address decides the port of the others.
pub fn bind(
    bind_ip: &[String],
    port: u16,
    addresses_of: impl Fn(&str) -> io::Result<Vec<SocketAddr>>,
) -> Result<Vec<TcpListener>, Error> {
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut port = port;
    for host in bind_ip {
        let resolved = addresses_of(host).map_err(|error| {
            Error::new(Kind::Usage, format!("cannot resolve the address '{host}' of --bind_ip"))
                .because(error)
        })?;
        // An address among several that this machine does not have is no error: `localhost` includes ::1 even without IPv6.
        let is_only = resolved.len() == 1;
        let is_own = |address: &SocketAddr| UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok();
        for mut address in resolved.into_iter().filter(|address| is_only || is_own(address)) {
            address.set_port(port);
            // `localhost` may resolve to two addresses, and a name to the same address twice.
            let same = |one: &TcpListener| one.local_addr().is_ok_and(|bound| bound == address);
            if listeners.iter().any(same) {
                continue;
            }
            let listener = listen(address)?;
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
        let error = Error::new(kind, format!("cannot listen on {address}")).because(error).advise(advice);
        if kind == Kind::Busy { error.with_id("port-taken") } else { error }
    })?;
    // The standard library lets 128 connections wait to be accepted; a pool that opens more at once would wait for seconds.
    // If the kernel refuses, the default stays.
    let _ = rustix::net::listen(&listener, MAX_BACKLOG);
    Ok(listener)
}

#[derive(Debug)]
pub struct Listener {
    accepting: Vec<JoinHandle<()>>,
    sockets: Arc<Sockets>,
}

impl Listener {
    /// Accepts connections on `listeners` from now on.
    pub fn start<S: Service>(
        service: &Arc<S>,
        listeners: Vec<TcpListener>,
        limits: ConnectionLimits,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Listener, Error> {
        let sockets = Arc::new(Sockets::default());
        let mut accepting = Vec::new();
        for listener in listeners {
            let failed = |error| Error::new(Kind::Io, "cannot start the listener").because(error);
            listener.set_nonblocking(true).map_err(failed)?;
            let acceptor = Acceptor {
                service: Arc::clone(service),
                sockets: Arc::clone(&sockets),
                limits,
                tls: tls.clone(),
            };
            let run = move || acceptor.accept_all(&listener);
            accepting
                .push(std::thread::Builder::new().name("listener".to_owned()).spawn(run).map_err(failed)?);
        }
        Ok(Listener { accepting, sockets })
    }

    /// Closes all connections and waits, for a bounded time, until their threads have ended.
    pub fn stop(self) {
        for thread in self.accepting {
            // A listener that panicked accepts no more connections, as intended.
            let _ = thread.join();
        }
        for socket in self.sockets.open.lock().values() {
            // Only reading is shut down: a reply that is being written may still be sent.
            let _ = socket.shutdown(std::net::Shutdown::Read);
        }
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while !self.sockets.open.lock().is_empty() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The state of an accepting thread.
struct Acceptor<S> {
    service: Arc<S>,
    sockets: Arc<Sockets>,
    limits: ConnectionLimits,
    tls: Option<Arc<ServerConfig>>,
}

impl<S: Service> Acceptor<S> {
    fn accept_all(&self, listener: &TcpListener) {
        let mut poll = rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN);
        while !self.service.is_stopping() {
            let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: ACCEPT_POLL.subsec_nanos().into() };
            if !matches!(rustix::event::poll(std::slice::from_mut(&mut poll), Some(&timeout)), Ok(1..)) {
                continue;
            }
            match listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    // File descriptors have probably run out: logs that, and lets other connections finish first.
                    let attributes = doc! { "error": error.to_string() };
                    let what = "Error accepting new connection";
                    self.service.log().warning("NETWORK", 23018, "listener", what, attributes);
                    std::thread::sleep(ACCEPT_POLL);
                }
            }
        }
    }

    fn welcome(&self, stream: TcpStream, peer: SocketAddr) {
        let log = self.service.log();
        let open = self.sockets.open.lock().len();
        let remote = peer.to_string();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        if open >= self.limits.max_connections {
            self.service.turn_away();
            let what = "Connection refused because there are too many open connections";
            let attributes = doc! { "remote": remote, "connectionCount": count(open) };
            log.info("NETWORK", 22942, "listener", what, attributes);
            return;
        }
        // A socket that refuses these options still works.
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
        let _ = rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(KEEPALIVE_SECONDS));
        let socket = Arc::new(stream);
        let (id, kept) = self.service.welcome(&remote, &socket);
        self.sockets.open.lock().insert(id, Arc::clone(&socket));
        let attributes = doc! {
            "remote": &remote,
            "connectionId": i64::try_from(id).unwrap_or(i64::MAX),
            "connectionCount": count(open + 1),
        };
        log.info("NETWORK", 22943, "listener", "Connection accepted", attributes);
        let leave =
            ConnectionGuard { service: Arc::clone(&self.service), sockets: Arc::clone(&self.sockets), id };
        let (tls, may_be_plain) = (self.tls.clone(), self.limits.may_be_plain);
        spawn(&*self.service, id, move || {
            // If the closure is dropped unused or panics, `leave` is dropped with it.
            let leave = leave;
            if let Ok(stream) = secure(Socket(socket), tls.as_ref(), may_be_plain) {
                let service = Arc::clone(&leave.service);
                ServedConnection::new(service, (id, remote), kept, stream, leave).serve();
            }
        });
    }
}

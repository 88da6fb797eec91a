//! A proxy that adds latency to a server: it forwards all bytes unchanged, half of a round trip later in each direction.
//!
//! Each direction of a connection has two threads, so that bytes in quick succession are late by the same time and not by sums of
//! it. The delay can be changed while connections are open.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A proxy that runs until its process ends.
#[derive(Debug)]
pub struct DelayProxy {
    port: u16,
    half_us: Arc<AtomicU64>,
}

impl DelayProxy {
    /// Listens on any free port of the loopback, and adds `round_trip` to each round trip to `server`.
    pub fn start(server: SocketAddr, round_trip: Duration) -> io::Result<DelayProxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let proxy = DelayProxy { port, half_us: Arc::default() };
        proxy.set_round_trip(round_trip);
        let half_us = Arc::clone(&proxy.half_us);
        thread::Builder::new().name("delay-proxy".to_owned()).spawn(move || {
            for client in listener.incoming().flatten() {
                // A missing server closes the client's connection, as it does without a proxy.
                let _ = join(client, server, &half_us);
            }
        })?;
        Ok(proxy)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the time by which each round trip is longer from now on.
    pub fn set_round_trip(&self, round_trip: Duration) {
        let half_us = u64::try_from(round_trip.as_micros() / 2).unwrap_or(u64::MAX);
        self.half_us.store(half_us, Ordering::Relaxed);
    }
}

fn join(client: TcpStream, server: SocketAddr, half_us: &Arc<AtomicU64>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (from, to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        let (sender, receiver) = channel();
        let half_us = Arc::clone(half_us);
        thread::spawn(move || take(from, &sender, &half_us));
        thread::spawn(move || hand_on(to, &receiver));
    }
    Ok(())
}

fn take(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, half_us: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + Duration::from_micros(half_us.load(Ordering::Relaxed));
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        if sender.send((due, bytes)).is_err() {
            return;
        }
    }
}

fn hand_on(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other side learns that this one has ended.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NullResponder;

    #[test]
    fn a_round_trip_takes_longer_by_what_was_asked() {
        let server = NullResponder::start(&bson::rawdoc! { "a": 1 }).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let proxy = DelayProxy::start(to, Duration::from_millis(40)).unwrap();
        let target = fathom_client::Target::at(fathom_client::Address::new("127.0.0.1", proxy.port()));
        let mut connection = fathom_client::Connection::connect(&target).unwrap();
        let mut time = || {
            let begun = Instant::now();
            connection.run("admin", &bson::rawdoc! { "ping": 1 }).unwrap();
            begun.elapsed()
        };
        assert!(time() >= Duration::from_millis(40));
        proxy.set_round_trip(Duration::ZERO);
        let fastest = (0..20).map(|_| time()).min().unwrap();
        assert!(fastest < Duration::from_millis(40), "{fastest:?}");
    }
}

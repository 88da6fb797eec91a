//! Opens connections on separate threads: connecting and logging in take round trips and computation, and loops must not wait.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use fathom_client::ConnectionParts;
use fathom_errors::{Error, Kind};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

/// Makes the connection of this number. May be called from several threads at once.
pub(super) type Opener = dyn Fn(usize) -> Result<ConnectionParts, Error> + Send + Sync;

/// The number of connections that are opened at once.
const MAX_CONNECTING: usize = 16;
/// An attempt that takes longer than this no longer counts among them.
const MAX_COUNTED_ATTEMPT: Duration = Duration::from_secs(1);
/// The pause before the first and the last of many tries to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The interval between checks for the end of the run.
const POLL: Duration = Duration::from_millis(50);

/// Opens `count` connections; the first failure ends the attempt.
pub(super) fn connect_all(opener: &Opener, count: usize) -> Result<Vec<ConnectionParts>, Error> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let hand = || {
        let mut made = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            match open(opener, number) {
                Ok(parts) => made.push((number, parts)),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(made)
    };
    let mut made = thread::scope(|scope| {
        let hands: Vec<_> = (0..MAX_CONNECTING.min(count)).map(|_| scope.spawn(hand)).collect();
        let mut all = Vec::with_capacity(count);
        for hand in hands {
            all.extend(hand.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<_, Error>(all)
    })?;
    made.sort_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, parts)| parts).collect())
}

/// Calls the opener; a panic in it is reported as a program error, not as one of the command line or of a server.
fn open(opener: &Opener, number: usize) -> Result<ConnectionParts, Error> {
    catch_unwind(AssertUnwindSafe(|| opener(number)))
        .unwrap_or_else(|_| Err(Error::new(Kind::Stopped, "the thread that connects to the server panicked")))
}

/// The mailbox in which a loop receives new connections, with its wake-up.
#[derive(Debug)]
pub(super) struct ConnectionQueue {
    letters: Mutex<Vec<(usize, Result<ConnectionParts, Error>)>>,
    bell: OwnedFd,
}

impl ConnectionQueue {
    pub(super) fn new() -> Result<ConnectionQueue, Error> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| {
            Error::new(Kind::Unsupported, "cannot make an eventfd").because(std::io::Error::from(error))
        })?;
        Ok(ConnectionQueue { letters: Mutex::default(), bell })
    }

    /// The descriptor that is readable when the mailbox has content or the loop is to wake up.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Wakes the event loop that waits for it.
    pub(super) fn ring(&self) {
        // A full bell has already been rung.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn put(&self, link: usize, parts: Result<ConnectionParts, Error>) {
        self.letters.lock().push((link, parts));
        self.ring();
    }

    /// Takes the whole content and resets the bell.
    pub(super) fn take(&self) -> Vec<(usize, Result<ConnectionParts, Error>)> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.letters.lock())
    }
}

/// A connection that is to be reopened.
#[derive(Clone)]
pub(super) struct ReconnectRequest {
    pub(super) mailbox: Arc<ConnectionQueue>,
    /// The link's place in its loop, and the connection's number over all.
    pub(super) link: usize,
    pub(super) number: usize,
}

/// An event of a connection during a run.
pub(super) enum ConnectionEvent {
    /// A loop has lost a connection.
    Lost(ReconnectRequest),
    /// An attempt to connect has ended; `begun` is when it began.
    Attempted { wish: ReconnectRequest, begun: Instant, made: bool },
}

/// The channel to the reconnecting thread.
pub(super) type ReconnectSender = Sender<ConnectionEvent>;

/// Reopens connections until the run stops. Each attempt has a thread of its own, which is never joined: an attempt that hangs
/// delays neither the other connections nor the end of the run. After a failure, attempts begin one by one with a pause between
/// them, which grows until one succeeds.
pub(super) fn reconnect(
    opener: &Arc<Opener>,
    sender: &ReconnectSender,
    events: &Receiver<ConnectionEvent>,
    stop: &AtomicBool,
) {
    let mut waiting = VecDeque::new();
    let mut attempts: Vec<Instant> = Vec::new();
    let (mut pause, mut changed) = (Duration::ZERO, Instant::now());
    let mut next = changed;
    while !stop.load(Ordering::Relaxed) {
        let mut now = Instant::now();
        let brief = attempts.iter().filter(|begun| begun.elapsed() < MAX_COUNTED_ATTEMPT).count();
        if now >= next
            && brief < MAX_CONNECTING
            && let Some(wish) = waiting.pop_front()
        {
            attempts.push(now);
            next = now + pause;
            attempt(opener, wish, now, sender);
            continue;
        }
        let left = if waiting.is_empty() || now >= next { POLL } else { POLL.min(next - now) };
        match events.recv_timeout(left) {
            Ok(ConnectionEvent::Lost(wish)) => waiting.push_back(wish),
            Ok(ConnectionEvent::Attempted { wish, begun, made }) => {
                now = Instant::now();
                if let Some(place) = attempts.iter().position(|one| *one == begun) {
                    attempts.swap_remove(place);
                }
                if made {
                    (pause, changed, next) = (Duration::ZERO, now, now);
                    continue;
                }
                waiting.push_back(wish);
                // Attempts that fail together make the pause longer only once.
                if begun >= changed {
                    pause = (pause * 2).clamp(FIRST_PAUSE, MAX_PAUSE);
                    (changed, next) = (now, now + pause);
                }
            }
            Err(_) => {}
        }
    }
}

/// Tries to open a connection on a thread of its own. The loop gets the connection, or the error to count.
fn attempt(opener: &Arc<Opener>, wish: ReconnectRequest, begun: Instant, events: &ReconnectSender) {
    let (opener, events, other) = (Arc::clone(opener), events.clone(), (wish.clone(), events.clone()));
    let run = move || {
        let result = open(&*opener, wish.number);
        let made = result.is_ok();
        wish.mailbox.put(wish.link, result);
        // Nothing receives it when the run has ended.
        let _ = events.send(ConnectionEvent::Attempted { wish, begun, made });
    };
    if let Err(error) = thread::Builder::new().name("connect".to_owned()).spawn(run) {
        let (wish, events) = other;
        let error = Error::new(Kind::Unsupported, "cannot start a thread").because(error);
        wish.mailbox.put(wish.link, Err(error));
        let _ = events.send(ConnectionEvent::Attempted { wish, begun, made: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_connecting_is_no_usage_error() {
        let error = connect_all(&|number| panic!("connection {number}"), 3).unwrap_err();
        assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Stopped, 3), "{error}");
        assert!(error.to_string().contains("panicked"), "{error}");
    }
}

//! Makes connections beside the loops: to connect and to log in takes round trips and computing that no loop may wait for.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use fathom_client::Parts;
use fathom_errors::{Error, Kind};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

/// Makes the connection of this number. May be called from several threads at once.
pub(super) type Opener = dyn Fn(usize) -> Result<Parts, Error> + Send + Sync;

/// Connections that are made at once.
const HANDS: usize = 16;
/// An attempt that takes longer leaves its place among these to another.
const LONG_ATTEMPT: Duration = Duration::from_secs(1);
/// The pause before the first and the last of many tries to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// How often the end of the run is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Makes so many connections; the first that fails ends it.
pub(super) fn connect_all(opener: &Opener, count: usize) -> Result<Vec<Parts>, Error> {
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
        let hands: Vec<_> = (0..HANDS.min(count)).map(|_| scope.spawn(hand)).collect();
        let mut all = Vec::with_capacity(count);
        for hand in hands {
            all.extend(hand.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<_, Error>(all)
    })?;
    made.sort_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, parts)| parts).collect())
}

/// Calls the opener; a panic in it is an error of the program, and not of the command line or of a server.
fn open(opener: &Opener, number: usize) -> Result<Parts, Error> {
    catch_unwind(AssertUnwindSafe(|| opener(number)))
        .unwrap_or_else(|_| Err(Error::new(Kind::Stopped, "the thread that connects to the server panicked")))
}

/// Where a loop finds what was connected anew, and how it is woken.
#[derive(Debug)]
pub(super) struct Mailbox {
    letters: Mutex<Vec<(usize, Result<Parts, Error>)>>,
    bell: OwnedFd,
}

impl Mailbox {
    pub(super) fn new() -> Result<Mailbox, Error> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| {
            Error::new(Kind::Unsupported, "cannot make an eventfd").because(std::io::Error::from(error))
        })?;
        Ok(Mailbox { letters: Mutex::default(), bell })
    }

    /// Readable when something is in it, or the loop shall look up.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Wakes the loop.
    pub(super) fn ring(&self) {
        // A bell that is full rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn put(&self, link: usize, parts: Result<Parts, Error>) {
        self.letters.lock().push((link, parts));
        self.ring();
    }

    /// Takes all that is in it, and stills the bell.
    pub(super) fn take(&self) -> Vec<(usize, Result<Parts, Error>)> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.letters.lock())
    }
}

/// A connection that is to be made again.
#[derive(Clone)]
pub(super) struct Wish {
    pub(super) mailbox: Arc<Mailbox>,
    /// The link's place in its loop, and the connection's number over all.
    pub(super) link: usize,
    pub(super) number: usize,
}

/// What happens to connections while a run goes on.
pub(super) enum Event {
    /// A loop has lost one.
    Lost(Wish),
    /// An attempt to connect that began then has ended.
    Attempted { wish: Wish, begun: Instant, made: bool },
}

/// The way to what connects.
pub(super) type Wishes = Sender<Event>;

/// Makes connections again until the run stops. Each attempt has a thread of its own, which nothing waits for: one that hangs
/// delays neither the other connections nor the end of the run. After a failure, attempts begin one by one with a pause between
/// them, which grows until one succeeds.
pub(super) fn reconnect(opener: &Arc<Opener>, sender: &Wishes, events: &Receiver<Event>, stop: &AtomicBool) {
    let mut waiting = VecDeque::new();
    let mut attempts: Vec<Instant> = Vec::new();
    let (mut pause, mut changed) = (Duration::ZERO, Instant::now());
    let mut next = changed;
    while !stop.load(Ordering::Relaxed) {
        let mut now = Instant::now();
        let brief = attempts.iter().filter(|begun| begun.elapsed() < LONG_ATTEMPT).count();
        if now >= next
            && brief < HANDS
            && let Some(wish) = waiting.pop_front()
        {
            attempts.push(now);
            next = now + pause;
            attempt(opener, wish, now, sender);
            continue;
        }
        let left = if waiting.is_empty() || now >= next { POLL } else { POLL.min(next - now) };
        match events.recv_timeout(left) {
            Ok(Event::Lost(wish)) => waiting.push_back(wish),
            Ok(Event::Attempted { wish, begun, made }) => {
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
                    pause = (pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
                    (changed, next) = (now, now + pause);
                }
            }
            Err(_) => {}
        }
    }
}

/// Tries to make a connection, by a thread of its own. The loop gets it, or the error, to count it.
fn attempt(opener: &Arc<Opener>, wish: Wish, begun: Instant, events: &Wishes) {
    let (opener, events, other) = (Arc::clone(opener), events.clone(), (wish.clone(), events.clone()));
    let run = move || {
        let result = open(&*opener, wish.number);
        let made = result.is_ok();
        wish.mailbox.put(wish.link, result);
        // Nothing receives it when the run has ended.
        let _ = events.send(Event::Attempted { wish, begun, made });
    };
    if let Err(error) = thread::Builder::new().name("connect".to_owned()).spawn(run) {
        let (wish, events) = other;
        let error = Error::new(Kind::Unsupported, "cannot start a thread").because(error);
        wish.mailbox.put(wish.link, Err(error));
        let _ = events.send(Event::Attempted { wish, begun, made: false });
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

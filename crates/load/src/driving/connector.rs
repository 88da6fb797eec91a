//! Makes connections beside the loops: to connect and to log in takes round trips and computing that no loop may wait for.

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
pub type Opener<'a> = dyn Fn(usize) -> Result<Parts, Error> + Send + Sync + 'a;

/// Threads that connect at the start.
const HANDS: usize = 16;
/// The pause before the first and the last of many tries to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Makes so many connections; the first that fails ends it.
pub(super) fn connect_all(opener: &Opener<'_>, count: usize) -> Result<Vec<Parts>, Error> {
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
fn open(opener: &Opener<'_>, number: usize) -> Result<Parts, Error> {
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

/// A connection that is to be made anew.
pub(super) struct Wish {
    pub(super) mailbox: Arc<Mailbox>,
    /// The link's place in its loop, and the connection's number over all.
    pub(super) link: usize,
    pub(super) number: usize,
}

/// The way to the threads that connect.
pub(super) type Wishes = Sender<Wish>;

/// Makes connections anew until the run stops: all that are wished for at once, then a pause that grows while the server is away.
pub(super) fn reconnect(opener: &Opener<'_>, wishes: &Receiver<Wish>, stop: &AtomicBool) {
    let mut pause = FIRST_PAUSE;
    let mut waiting: Vec<Wish> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match wishes.recv_timeout(if waiting.is_empty() { Duration::from_millis(50) } else { Duration::ZERO })
        {
            Ok(wish) => waiting.push(wish),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) if waiting.is_empty() => return,
            Err(_) => {}
        }
        waiting.extend(wishes.try_iter());
        let mut failed = Vec::new();
        let mut asked = waiting.drain(..);
        for wish in asked.by_ref() {
            match open(opener, wish.number) {
                Ok(parts) => {
                    pause = FIRST_PAUSE;
                    wish.mailbox.put(wish.link, Ok(parts));
                }
                Err(error) => {
                    // The loop hears of it, to count it, and the wish stays.
                    wish.mailbox.put(wish.link, Err(error));
                    failed.push(wish);
                    break;
                }
            }
        }
        failed.extend(asked);
        waiting = failed;
        if !waiting.is_empty() {
            rest(pause, stop);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

fn rest(pause: Duration, stop: &AtomicBool) {
    let until = Instant::now() + pause;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10).min(pause));
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

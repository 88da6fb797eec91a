//! Asks servers for hello, all at once, so that a dead one does not hold up the rest.
//!
//! Each has a thread of its own, because the look-up of a name cannot be interrupted; a thread that is late ends by itself, and
//! what it brings is no longer looked at. Nobody logs in here: arbiters know no users.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

use super::description::{Description, Role, normal};
use crate::{Address, Connection, Target};

/// What came back from an address.
pub(super) type Answer = (Address, Result<Description>);

/// Once the answer that is enough has come, others get so long, or this part of the time-out if that is less; and
/// twice as long as it took in any case, since all may be far away.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_FRACTION: u32 = 4;

/// For whom the others are not waited for much longer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Enough {
    /// A server that takes writes.
    Writable,
    /// Whoever answers: while an election goes on, a member that died silently must not hold up the news from the others.
    Anybody,
}

/// Asks `first` and, unless the target wants a direct connection, all members that they name. Ends when all have answered, soon
/// after `enough` has, or at the deadline.
pub(super) fn survey(target: &Target, first: &[Address], enough: Enough, deadline: Instant) -> Vec<Answer> {
    let began = Instant::now();
    let (sender, receiver) = mpsc::channel();
    // Whether it is the right set is judged later, with all answers at hand.
    let anonymous = Target { credential: None, replica_set: None, ..target.clone() };
    let mut round = Round { target: Arc::new(anonymous), sender, asked: Vec::new(), answers: Vec::new() };
    first.iter().for_each(|address| round.ask(address));
    let mut until = deadline;
    while round.answers.len() < round.asked.len() {
        let Some((address, answer)) = next(&receiver, until) else { break };
        if let Ok(description) = &answer {
            if enough == Enough::Anybody || matches!(description.role, Role::Primary | Role::Router) {
                let grace = GRACE.min(target.connect_timeout / GRACE_FRACTION).max(began.elapsed() * 2);
                until = until.min(Instant::now() + grace);
            }
            let is_ours = target.replica_set.is_none() || target.replica_set == description.set;
            if is_ours && !target.direct_connection {
                description.members.iter().for_each(|member| round.ask(member));
            }
        }
        round.answers.push((address, answer));
    }
    round.finish(began.elapsed())
}

/// The next message, if one comes in time.
pub(super) fn next<T>(receiver: &Receiver<T>, until: Instant) -> Option<T> {
    receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

struct Round {
    target: Arc<Target>,
    sender: Sender<Answer>,
    asked: Vec<Address>,
    answers: Vec<Answer>,
}

impl Round {
    fn ask(&mut self, address: &Address) {
        let address = normal(address.clone());
        if self.asked.contains(&address) {
            return;
        }
        self.asked.push(address.clone());
        let (target, sender, asked) = (Arc::clone(&self.target), self.sender.clone(), address.clone());
        let spawned = thread::Builder::new().name("hello".to_owned()).spawn(move || {
            let answer = describe(&asked, &target);
            // Nobody listens any more if this comes late.
            let _ = sender.send((asked, answer));
        });
        if let Err(cause) = spawned {
            let what = format!("cannot ask {address} for want of a thread");
            self.answers.push((address, Err(Error::new(Kind::Io, what).because(cause))));
        }
    }

    /// The answers, and an error for each that is still to come, in the order in which they were asked.
    fn finish(mut self, waited: Duration) -> Vec<Answer> {
        let mut all = Vec::with_capacity(self.asked.len());
        for address in self.asked {
            let found = self.answers.iter().position(|(from, _)| *from == address);
            all.push(match found {
                Some(at) => self.answers.swap_remove(at),
                None => {
                    let what = format!("no answer from {address} within {} ms", waited.as_millis());
                    (address, Err(Error::new(Kind::Io, what)))
                }
            });
        }
        all
    }
}

fn describe(address: &Address, target: &Target) -> Result<Description> {
    let connection = Connection::open(address, target)?;
    Description::of(connection.hello(), connection.hello_round_trip())
}

//! Sends hello to all servers at once, so that an unreachable one does not delay the rest.
//!
//! Each server has a thread of its own, because a name look-up cannot be interrupted; a late thread ends by itself, and its answer
//! is ignored. This does not log in: arbiters know no users.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};

use super::description::{HelloReply, Role, normal};
use crate::{Address, Connection, Target};

/// The reply of an address.
pub(super) type SurveyAnswer = (Address, Result<HelloReply>);

/// The time that the other servers get after the decisive answer, or this part of the time-out if that is less; and in any case
/// twice the time that the answer took, since all may be far away.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_FRACTION: u32 = 4;

/// The answer after which the survey waits only a short time for the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyEnd {
    /// The answer of a server that accepts writes.
    Writable,
    /// The answer of any member: during an election, an unreachable member must not delay the replies of the others.
    Anybody,
}

/// Asks `first` and, unless the target wants a direct connection, all members that they name. Ends when all have answered, soon
/// after `enough` has, or at the deadline.
pub(super) fn survey(
    target: &Target,
    first: &[Address],
    enough: SurveyEnd,
    deadline: Instant,
) -> Vec<SurveyAnswer> {
    let began = Instant::now();
    let (sender, receiver) = mpsc::channel();
    // The set name is checked later, with all answers available.
    let anonymous = Target { credential: None, replica_set: None, ..target.clone() };
    let mut round =
        SurveyRound { target: Arc::new(anonymous), sender, asked: Vec::new(), answers: Vec::new() };
    first.iter().for_each(|address| round.ask(address));
    let mut until = deadline;
    while round.answers.len() < round.asked.len() {
        let Some((address, answer)) = next(&receiver, until) else { break };
        if let Ok(description) = &answer {
            if enough == SurveyEnd::Anybody || matches!(description.role, Role::Primary | Role::Router) {
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

/// The next message, if one arrives in time.
pub(super) fn next<T>(receiver: &Receiver<T>, until: Instant) -> Option<T> {
    receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

struct SurveyRound {
    target: Arc<Target>,
    sender: Sender<SurveyAnswer>,
    asked: Vec<Address>,
    answers: Vec<SurveyAnswer>,
}

impl SurveyRound {
    fn ask(&mut self, address: &Address) {
        let address = normal(address.clone());
        if self.asked.contains(&address) {
            return;
        }
        self.asked.push(address.clone());
        let (target, sender, asked) = (Arc::clone(&self.target), self.sender.clone(), address.clone());
        let spawned = thread::Builder::new().name("hello".to_owned()).spawn(move || {
            let answer = describe(&asked, &target);
            // The receiver is already dropped if this comes late.
            let _ = sender.send((asked, answer));
        });
        if let Err(cause) = spawned {
            let what = format!("cannot ask {address} for want of a thread");
            self.answers.push((address, Err(Error::new(Kind::Io, what).because(cause))));
        }
    }

    /// The answers, and an error for each outstanding one, in the order in which they were asked.
    fn finish(mut self, waited: Duration) -> Vec<SurveyAnswer> {
        let mut all = Vec::with_capacity(self.asked.len());
        for address in self.asked {
            let found = self.answers.iter().position(|(from, _)| *from == address);
            all.push(match found {
                Some(at) => self.answers.swap_remove(at),
                None => {
                    let what = format!("no answer from {address} within {} ms", waited.as_millis());
                    (address, Err(Error::new(Kind::Io, what).with_id("no-server")))
                }
            });
        }
        all
    }
}

fn describe(address: &Address, target: &Target) -> Result<HelloReply> {
    let connection = Connection::open(address, target)?;
    HelloReply::from_hello(connection.hello(), connection.hello_round_trip())
}

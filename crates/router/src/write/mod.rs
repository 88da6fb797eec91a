//! Batches of writes: each statement goes to the shard, or the shards, of what it writes; what came of it comes back under its
//! place in the client's batch.
//!
//! An ordered batch goes statement by statement, those in a row for one shard together; an unordered one goes to all shards at
//! once. A shard that refuses a part because the router's knowledge is old has done nothing of it: it is routed again.

mod outcome;
mod statements;

use std::collections::BTreeMap;
use std::sync::Arc;

use fathom_wire::limits::MAX_WRITE_BATCH;
use fathom_wire::{Code, DocumentWriter, Failure};

pub(crate) use outcome::Outcome;
use statements::Batch;
pub(crate) use statements::Verb;

use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::instance::Operation;
use crate::outgoing::Outgoing;
use crate::request::{Request, Sending};
use crate::route::{Route, is_stale};

/// After so many rounds without progress a batch is given up, as in mongos.
const ROUNDS: u32 = 5;

/// A part of a batch for one shard: the places of its statements.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    shard: String,
    places: Vec<usize>,
}

/// Runs a batch and writes its reply.
pub(crate) fn run(
    op: Operation<'_>,
    request: &Request<'_>,
    verb: Verb,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let batch = Batch::read(request, verb)?;
    if !(1..=MAX_WRITE_BATCH).contains(&batch.statements.len()) {
        let what = format!(
            "Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {} operations.",
            batch.statements.len()
        );
        return Err(Failure::new(Code::InvalidLength, what));
    }
    verb.count(&op.instance.counters, batch.statements.len());
    let route = op.instance.route_or_new(request.database, &namespace)?;
    let mut run = Run { op, request, batch: &batch, route, outcome: Outcome::default(), rounds: 0 };
    if run.route.table.is_none() && !run.forward(reply)? {
        return Ok(());
    }
    if batch.ordered {
        run.in_order()?
    } else {
        run.all_at_once()?
    }
    run.outcome.write(verb, reply);
    Ok(())
}

/// A batch under way.
struct Run<'r, 'a> {
    op: Operation<'r>,
    request: &'r Request<'a>,
    batch: &'r Batch<'a>,
    route: Route,
    outcome: Outcome,
    /// Rounds without progress.
    rounds: u32,
}

impl Run<'_, '_> {
    /// Sends the whole batch as it came to the primary shard; whether the collection turned out to be sharded.
    fn forward(&mut self, reply: &mut DocumentWriter<'_>) -> Result<bool> {
        loop {
            let primary = Arc::clone(&self.route.primary);
            let versions = self.route.versions(primary.id());
            let command = Outgoing::forwarded(self.request, &[], |_| {})?.with_sequence_of(self.request);
            let command = command.with_versions(versions);
            let sending = Sending::of(self.request);
            let answered = call::call(&primary, self.request.database, &command, &sending, |answer| {
                crate::outgoing::pass_on(answer, reply);
                Ok(())
            });
            match answered {
                Err(failure) if is_stale(failure.code()) && self.rounds < ROUNDS => {
                    self.route_again()?;
                    if self.route.table.is_some() {
                        return Ok(true);
                    }
                }
                result => return result.map(|()| false),
            }
        }
    }

    fn route_again(&mut self) -> Result<()> {
        self.rounds += 1;
        self.op.instance.forget_route(&self.route);
        self.route = self.op.instance.route_or_new(self.request.database, &self.route.namespace)?;
        Ok(())
    }

    /// Whether there is to be another round; the statements that are left fail otherwise.
    fn another_round(&mut self, left: &[usize]) -> Result<bool> {
        if self.rounds < ROUNDS {
            self.route_again()?;
            return Ok(true);
        }
        let what = format!(
            "no progress was made executing batch write op in {} after {ROUNDS} rounds",
            self.route.namespace
        );
        for place in left {
            self.outcome.fail(*place, &Failure::new(Code::NoProgressMade, what.clone()));
        }
        Ok(false)
    }

    fn in_order(&mut self) -> Result<()> {
        let count = self.batch.statements.len();
        let mut place = 0;
        while place < count {
            let shards = match self.batch.target(place, &self.route) {
                Ok(shards) => shards,
                Err(failure) => {
                    self.outcome.fail(place, &failure);
                    return Ok(());
                }
            };
            let mut places = vec![place];
            if let [only] = shards.as_slice() {
                let same = |next: &usize| {
                    self.batch.target(*next, &self.route).is_ok_and(|shards| shards == [only.clone()])
                };
                places.extend((place + 1..count).take_while(|next| same(next)));
            }
            let next = place + places.len();
            let stale = self.send_everywhere(&shards, &places)?;
            if self.outcome.has_failed() {
                return Ok(());
            }
            if stale.is_empty() {
                self.rounds = 0;
                place = next;
            } else if !self.another_round(&stale)? {
                return Ok(());
            } else {
                // What a shard refused it has not begun; what it did of a part before it refused is told apart by its place.
                place = stale.first().copied().unwrap_or(next);
            }
        }
        Ok(())
    }

    fn all_at_once(&mut self) -> Result<()> {
        let mut left: Vec<usize> = (0..self.batch.statements.len()).collect();
        while !left.is_empty() {
            let mut parts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            let mut wide = Vec::new();
            for place in std::mem::take(&mut left) {
                match self.batch.target(place, &self.route) {
                    Err(failure) => self.outcome.fail(place, &failure),
                    Ok(shards) => match shards.as_slice() {
                        [only] => parts.entry(only.clone()).or_default().push(place),
                        _ => wide.push((place, shards)),
                    },
                }
            }
            let before = parts.values().map(Vec::len).sum::<usize>() + wide.len();
            let parts: Vec<Part> = parts.into_iter().map(|(shard, places)| Part { shard, places }).collect();
            left = self.send(&parts)?;
            for (place, shards) in wide {
                left.extend(self.send_everywhere(&shards, &[place])?);
            }
            if left.len() < before {
                self.rounds = 0;
            }
            if !left.is_empty() && !self.another_round(&left)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends statements to one shard, or one statement to several; those that are to be routed again.
    fn send_everywhere(&mut self, shards: &[String], places: &[usize]) -> Result<Vec<usize>> {
        let mut left: Vec<String> = shards.to_vec();
        loop {
            let parts: Vec<Part> =
                left.iter().map(|shard| Part { shard: shard.clone(), places: places.to_vec() }).collect();
            let stale = self.send(&parts)?;
            if parts.len() < 2 || stale.is_empty() {
                return Ok(stale);
            }
            // The others have done it, and must not do it again: those that refused are asked with what is known now.
            left = std::mem::take(&mut self.outcome.refused);
            if !self.another_round(places)? {
                return Ok(Vec::new());
            }
        }
    }

    /// Sends parts, all at once; the places of those that shards refused as stale.
    fn send(&mut self, parts: &[Part]) -> Result<Vec<usize>> {
        let mut commands: Vec<(Arc<Backend>, Outgoing<'_>)> = Vec::with_capacity(parts.len());
        for part in parts {
            let backend = match self.op.instance.cluster.shard(&part.shard) {
                Ok(backend) => backend,
                // It was removed since the route was read: nothing has been sent yet.
                Err(failure) if is_stale(failure.code()) => {
                    self.outcome.refused = parts.iter().map(|part| part.shard.clone()).collect();
                    return Ok(parts.iter().flat_map(|part| part.places.iter().copied()).collect());
                }
                Err(failure) => return Err(failure),
            };
            let command = self.batch.command(self.request, &part.places)?;
            commands.push((backend, command.with_versions(self.route.versions(&part.shard))));
        }
        let replies = call::ask_all(self.request.database, &commands, &Sending::of(self.request));
        let mut stale = Vec::new();
        self.outcome.refused.clear();
        let alone =
            parts.len() == 1 && parts.iter().all(|part| part.places.len() == self.batch.statements.len());
        for (reply, part) in replies.into_iter().zip(parts) {
            match reply {
                Err(failure) if is_stale(failure.code()) => {
                    self.outcome.refused.push(part.shard.clone());
                    stale.extend(part.places.iter().copied());
                }
                // Nothing was done at all: the command fails, and not its statements.
                Err(failure) if alone && self.outcome.is_empty() => return Err(failure),
                Err(failure) => self.fail_part(part, &failure),
                Ok(reply) => stale.extend(self.outcome.take(&reply, &part.places)?),
            }
        }
        stale.sort_unstable();
        stale.dedup();
        Ok(stale)
    }

    /// A part that failed whole: of an ordered batch the first statement did, of another all.
    fn fail_part(&mut self, part: &Part, failure: &Failure) {
        let count = if self.batch.ordered { 1 } else { part.places.len() };
        for place in part.places.iter().take(count) {
            self.outcome.fail(*place, failure);
        }
    }
}

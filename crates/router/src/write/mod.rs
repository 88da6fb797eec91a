//! Batches of writes: each statement is sent to the shards of the documents that it writes; its result is returned under its
//! position in the client's batch.
//!
//! An ordered batch is sent statement by statement, with consecutive statements for one shard together; an unordered batch is sent
//! to all shards at once. A shard that refuses a part as stale has executed nothing of it: that part is routed again.

mod outcome;
mod statements;

use std::collections::BTreeMap;
use std::sync::Arc;

use fathom_wire::limits::MAX_WRITE_BATCH;
use fathom_wire::{Code, DocumentWriter, Failure};

pub(crate) use outcome::WriteOutcome;
pub(crate) use statements::BatchType;
use statements::StatementBatch;

use crate::Result;
use crate::backend::Backend;
use crate::call;
use crate::instance::RouterOperation;
use crate::request::{Request, SendPolicy};
use crate::route::{Route, is_stale};
use crate::shard_command::ShardCommand;

/// The number of rounds without progress after which a batch is given up, as in mongos.
const MAX_ROUNDS_WITHOUT_PROGRESS: u32 = 5;

/// A part of a batch for one shard: the positions of its statements.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TargetedBatch {
    shard: String,
    places: Vec<usize>,
}

/// Runs a batch and writes its reply.
pub(crate) fn run(
    op: RouterOperation<'_>,
    request: &Request<'_>,
    verb: BatchType,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = request.namespace()?;
    let batch = StatementBatch::read(request, verb)?;
    if !(1..=MAX_WRITE_BATCH).contains(&batch.statements.len()) {
        let what = format!(
            "Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {} operations.",
            batch.statements.len()
        );
        return Err(Failure::new(Code::InvalidLength, what));
    }
    verb.count(&op.instance.counters, batch.statements.len());
    let route = op.instance.route_or_new(request.database, &namespace)?;
    let mut run =
        BatchWriteOp { op, request, batch: &batch, route, outcome: WriteOutcome::default(), rounds: 0 };
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

/// A batch that is being executed.
struct BatchWriteOp<'r, 'a> {
    op: RouterOperation<'r>,
    request: &'r Request<'a>,
    batch: &'r StatementBatch<'a>,
    route: Route,
    outcome: WriteOutcome,
    /// The number of rounds without progress so far.
    rounds: u32,
}

impl BatchWriteOp<'_, '_> {
    /// Sends the whole batch unchanged to the primary shard; returns whether the collection turned out to be sharded.
    fn forward(&mut self, reply: &mut DocumentWriter<'_>) -> Result<bool> {
        loop {
            let primary = Arc::clone(&self.route.primary);
            let versions = self.route.versions(primary.id());
            let command = ShardCommand::forwarded(self.request, &[], |_| {})?.with_sequence_of(self.request);
            let command = command.with_versions(versions);
            let sending = SendPolicy::from_request(self.request);
            let answered = call::call(&primary, self.request.database, &command, &sending, |answer| {
                crate::shard_command::pass_on(answer, reply);
                Ok(())
            });
            match answered {
                Err(failure) if is_stale(failure.code()) && self.rounds < MAX_ROUNDS_WITHOUT_PROGRESS => {
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

    /// Whether to make another round; if not, the statements that are left fail.
    fn another_round(&mut self, left: &[usize]) -> Result<bool> {
        if self.rounds < MAX_ROUNDS_WITHOUT_PROGRESS {
            self.route_again()?;
            return Ok(true);
        }
        let what = format!(
            "no progress was made executing batch write op in {} after {MAX_ROUNDS_WITHOUT_PROGRESS} rounds",
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
                // A shard did not begin a statement that it refused; the index separates it from those that it had executed.
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
            let parts: Vec<TargetedBatch> =
                parts.into_iter().map(|(shard, places)| TargetedBatch { shard, places }).collect();
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

    /// Sends statements to one shard, or one statement to several; returns those that must be routed again.
    fn send_everywhere(&mut self, shards: &[String], places: &[usize]) -> Result<Vec<usize>> {
        let mut left: Vec<String> = shards.to_vec();
        loop {
            let parts: Vec<TargetedBatch> = left
                .iter()
                .map(|shard| TargetedBatch { shard: shard.clone(), places: places.to_vec() })
                .collect();
            let stale = self.send(&parts)?;
            if parts.len() < 2 || stale.is_empty() {
                return Ok(stale);
            }
            // The other shards have executed it and must not repeat it: only those that refused are asked, with the newer route.
            left = std::mem::take(&mut self.outcome.refused);
            if !self.another_round(places)? {
                return Ok(Vec::new());
            }
        }
    }

    /// Sends parts, all at once; returns the positions of those that shards refused as stale.
    fn send(&mut self, parts: &[TargetedBatch]) -> Result<Vec<usize>> {
        let mut commands: Vec<(Arc<Backend>, ShardCommand<'_>)> = Vec::with_capacity(parts.len());
        for part in parts {
            let backend = match self.op.instance.cluster.shard(&part.shard) {
                Ok(backend) => backend,
                // The shard was removed since the route was read: nothing has been sent yet.
                Err(failure) if is_stale(failure.code()) => {
                    self.outcome.refused = parts.iter().map(|part| part.shard.clone()).collect();
                    return Ok(parts.iter().flat_map(|part| part.places.iter().copied()).collect());
                }
                Err(failure) => return Err(failure),
            };
            let command = self.batch.command(self.request, &part.places)?;
            commands.push((backend, command.with_versions(self.route.versions(&part.shard))));
        }
        let replies =
            call::ask_all(self.request.database, &commands, &SendPolicy::from_request(self.request));
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
                // Nothing was executed at all: the whole command fails, not its statements.
                Err(failure) if alone && self.outcome.is_empty() => return Err(failure),
                Err(failure) => self.fail_part(part, &failure),
                Ok(reply) => stale.extend(self.outcome.take(&reply, &part.places)?),
            }
        }
        stale.sort_unstable();
        stale.dedup();
        Ok(stale)
    }

    /// Notes a part that failed as a whole: in an ordered batch its first statement fails, in an unordered batch all of them.
    fn fail_part(&mut self, part: &TargetedBatch, failure: &Failure) {
        let count = if self.batch.ordered { 1 } else { part.places.len() };
        for place in part.places.iter().take(count) {
            self.outcome.fail(*place, failure);
        }
    }
}

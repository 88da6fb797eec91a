//! Clients that write and read during faults, and record every reply.
//!
//! They connect to the known primary, and now and then to another member: a primary that does not know yet that it was replaced is asked
//! too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bson::spec::BinarySubtype;
use bson::{Binary, Document, RawDocument, RawDocumentBuf, doc};
use fathom_client::{Code, Connection, Failure};
use fathom_stats::SeededRandom;

use super::history::{Event, NOTHING, Object, OperationKind, Outcome};
use super::members::Members;

/// Lists, and as many registers.
pub(crate) const OBJECTS: i64 = 4;
/// How long a client waits for a reply.
const REPLY: Duration = Duration::from_secs(4);
/// How often a retryable write is sent at most.
const MAX_SENDS: u32 = 6;

/// The outcome of a command.
enum CommandOutcome {
    Reply(RawDocumentBuf),
    Refused(Failure),
    /// No member could be reached.
    NotSent,
    /// It was sent, and no reply came.
    Silence,
}

pub(crate) struct Client<'m> {
    members: &'m Members,
    number: i64,
    begun: Instant,
    random: SeededRandom,
    connections: [Option<Connection>; 3],
    /// How many values it has given out.
    values: i64,
    transaction: i64,
    events: Vec<Event>,
}

impl<'m> Client<'m> {
    /// The client of a number, from 1; its choices follow from the seed.
    pub(crate) fn new(members: &'m Members, number: i64, seed: u64, begun: Instant) -> Client<'m> {
        let random = SeededRandom::from_seed(seed).split(number.unsigned_abs());
        let connections = Default::default();
        Client { members, number, begun, random, connections, values: 0, transaction: 0, events: Vec::new() }
    }

    /// Writes and reads at majority until it has to stop; returns what it remembers.
    pub(crate) fn work(mut self, stop: &AtomicBool) -> Vec<Event> {
        self.members.network.enter().unwrap();
        while !stop.load(Ordering::Acquire) {
            let number = self.below(4);
            match self.below(10) {
                0..=3 => self.append(Object::List(number)),
                4..=5 => self.change(Object::Register(number)),
                6 => drop(self.read(Object::List(number), true)),
                7 => drop(self.read(Object::Register(number), false)),
                _ => drop(self.read(Object::List(number), false)),
            }
        }
        self.events
    }

    /// Inserts at `w: 1` until it has to stop; returns the `_id`s that were acknowledged.
    pub(crate) fn insert_loosely(mut self, stop: &AtomicBool) -> Vec<i64> {
        self.members.network.enter().unwrap();
        let mut acknowledged = Vec::new();
        while !stop.load(Ordering::Acquire) {
            let id = self.value();
            let insert = doc! { "insert": "loose", "documents": [{ "_id": id, "by": self.number }] };
            let place = self.somebody(3);
            match self.ask(place, &insert) {
                CommandOutcome::Reply(reply) if reply.get_i32("n").is_ok_and(|n| n == 1) => {
                    acknowledged.push(id)
                }
                _ => thread::sleep(Duration::from_millis(20)),
            }
            thread::sleep(Duration::from_millis(5));
        }
        acknowledged
    }

    /// A number below `bound`.
    fn below(&mut self, bound: i64) -> i64 {
        self.random.below(bound.unsigned_abs()).cast_signed()
    }

    /// A value that is unique in the run.
    fn value(&mut self) -> i64 {
        self.values += 1;
        self.number * 1_000_000 + self.values
    }

    /// The primary, and every so often any member.
    fn somebody(&mut self, each: i64) -> usize {
        if self.below(each) == 0 {
            usize::try_from(self.below(3)).unwrap()
        } else {
            self.members.primary.load(Ordering::SeqCst)
        }
    }

    fn append(&mut self, object: Object) {
        let Object::List(number) = object else { return };
        let value = self.value();
        let update = doc! { "update": "lists", "updates": [{ "q": { "_id": number }, "u": { "$push": { "v": value } } }] };
        self.write(object, NOTHING, value, update);
    }

    /// Changes a register from what it holds to something new.
    fn change(&mut self, object: Object) {
        let Object::Register(number) = object else { return };
        let Some(&[from]) = self.read(object, true).as_deref() else { return };
        let value = self.value();
        let change = doc! {
            "findAndModify": "registers", "query": { "_id": number, "v": from }, "update": { "$set": { "v": value } },
        };
        self.write(object, from, value, change);
    }

    /// Writes at majority, half of the time as a driver does that sends again what got no answer.
    fn write(&mut self, object: Object, from: i64, value: i64, mut command: Document) {
        command.insert("writeConcern", doc! { "w": "majority", "wtimeout": 3000 });
        let retryable = self.below(2) == 0;
        if retryable {
            self.transaction += 1;
            let id = u128::from(self.number.unsigned_abs()) << 64 | 1;
            let id = Binary { subtype: BinarySubtype::Uuid, bytes: id.to_be_bytes().to_vec() };
            command.insert("lsid", doc! { "id": id });
            command.insert("txnNumber", self.transaction);
        }
        let invoked = self.begun.elapsed();
        let mut outcome = Outcome::Failed;
        let mut tries = 0;
        let (place, life) = loop {
            let place = self.somebody(5);
            let life = self.members.life(place);
            let told = self.ask(place, &command);
            match outcome_of(&told) {
                Outcome::Done => {
                    outcome = Outcome::Done;
                    break (place, life);
                }
                Outcome::Failed => {}
                Outcome::Unknown => outcome = Outcome::Unknown,
            }
            tries += 1;
            if !retryable || tries == MAX_SENDS || was_looked_at(&told) {
                break (place, life);
            }
            thread::sleep(Duration::from_millis(150));
        };
        self.note(Event {
            object,
            what: OperationKind::Write { from, value },
            outcome,
            member: place,
            life,
            invoked,
            returned: self.begun.elapsed(),
        });
        if outcome != Outcome::Done {
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// Reads an object from the primary at `linearizable` or from any member at `majority`; returns the values.
    fn read(&mut self, object: Object, linearizable: bool) -> Option<Vec<i64>> {
        let (collection, number) = match object {
            Object::List(number) => ("lists", number),
            Object::Register(number) => ("registers", number),
        };
        let level = if linearizable { "linearizable" } else { "majority" };
        let mode = if linearizable { "primary" } else { "secondaryPreferred" };
        let find = doc! {
            "find": collection, "filter": { "_id": number }, "limit": 1, "singleBatch": true, "maxTimeMS": 3000,
            "readConcern": { "level": level }, "$readPreference": { "mode": mode },
        };
        let place = self.somebody(if linearizable { 8 } else { 1 });
        let life = self.members.life(place);
        let invoked = self.begun.elapsed();
        let CommandOutcome::Reply(reply) = self.ask(place, &find) else {
            thread::sleep(Duration::from_millis(30));
            return None;
        };
        let seen = seen_in(&reply);
        self.note(Event {
            object,
            what: OperationKind::Read { linearizable, seen: seen.clone() },
            outcome: Outcome::Done,
            member: place,
            life,
            invoked,
            returned: self.begun.elapsed(),
        });
        Some(seen)
    }

    fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    fn ask(&mut self, place: usize, command: &Document) -> CommandOutcome {
        let connection = match &mut self.connections[place] {
            Some(open) => open,
            none => match self.members.connect(place, REPLY) {
                Ok(open) => none.insert(open),
                Err(_) => return CommandOutcome::NotSent,
            },
        };
        match connection.run("test", command) {
            Ok(reply) => CommandOutcome::Reply(reply),
            Err(fathom_client::Error::Server(failure)) => CommandOutcome::Refused(failure),
            Err(_) => {
                self.connections[place] = None;
                CommandOutcome::Silence
            }
        }
    }
}

/// What became of a write by its reply.
fn outcome_of(told: &CommandOutcome) -> Outcome {
    match told {
        CommandOutcome::NotSent => Outcome::Failed,
        CommandOutcome::Silence => Outcome::Unknown,
        // Refused before anything was done; any other failure may have come after.
        CommandOutcome::Refused(failure) if failure.code() == Code::NotWritablePrimary => Outcome::Failed,
        CommandOutcome::Refused(_) => Outcome::Unknown,
        CommandOutcome::Reply(reply) if is_without_match(reply) => Outcome::Failed,
        CommandOutcome::Reply(reply) if has(reply, "writeErrors") || has(reply, "writeConcernError") => {
            Outcome::Unknown
        }
        CommandOutcome::Reply(_) => Outcome::Done,
    }
}

/// Whether a driver would take the answer for one, good or bad.
fn was_looked_at(told: &CommandOutcome) -> bool {
    matches!(told, CommandOutcome::Reply(reply) if is_without_match(reply) || !has(reply, "writeConcernError"))
}

/// Whether a findAndModify found nothing to modify.
fn is_without_match(reply: &RawDocument) -> bool {
    matches!(reply.get("value").unwrap(), Some(bson::RawBsonRef::Null))
}

fn has(reply: &RawDocument, name: &str) -> bool {
    reply.get(name).unwrap().is_some()
}

/// The values in the document that a find gave.
fn seen_in(reply: &RawDocument) -> Vec<i64> {
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let first = batch.into_iter().next().unwrap_or_else(|| panic!("the object is gone: {reply:?}"));
    values_of(&Document::try_from(first.unwrap().as_document().unwrap()).unwrap())
}

/// The values of an object: a list's, or the one of a register.
pub(crate) fn values_of(document: &Document) -> Vec<i64> {
    match document.get("v").unwrap() {
        bson::Bson::Array(values) => values.iter().map(|value| value.as_i64().unwrap()).collect(),
        value => vec![value.as_i64().unwrap()],
    }
}

/// Makes the objects, with nothing in them, on all members.
pub(crate) fn prepare(members: &Members) {
    let place = members.wait_for_primary();
    let mut connection = members.connect(place, super::members::TIMEOUT).unwrap();
    let all = |document: fn(i64) -> Document| (0..OBJECTS).map(document).collect::<Vec<_>>();
    let contents = [
        ("lists", all(|number| doc! { "_id": number, "v": [] })),
        ("registers", all(|number| doc! { "_id": number, "v": NOTHING })),
        ("loose", vec![doc! { "_id": 0_i64 }]),
    ];
    for (name, documents) in contents {
        let insert = doc! {
            "insert": name, "documents": documents, "writeConcern": { "w": 3, "wtimeout": 60_000 },
        };
        let reply = connection.run("test", &insert).unwrap();
        assert!(!has(&reply, "writeErrors") && !has(&reply, "writeConcernError"), "{reply:?}");
    }
}

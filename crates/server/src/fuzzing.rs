//! The entry point for the fuzzers: runs whole commands on an in-memory server in this process, without a socket or a thread.
//!
//! Commands that wait by design (a lock of all writes, a shutdown) are left out, because a fuzzer takes waiting for a hang;
//! all others run as they would for a client.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use fathom_engine::{Session, memory};
use fathom_service::RequestMessage;
use fathom_wire::{Header, Message, OpCode, validate_document};

use crate::auth::Conversation;
use crate::client::Client;
use crate::config::{Config, EngineName};
use crate::dispatch::{self, RequestContext};
use crate::instance::Instance;
use crate::log::Log;

/// The server is created again after this many commands, so that its data stays small.
const COMMANDS: u32 = 500;
/// Commands that wait for other connections or disturb the process itself.
const LEFT_OUT: &[&str] = &["fsync", "fsyncUnlock", "shutdown", "logRotate"];

/// A server without sockets.
#[derive(Debug)]
pub struct Harness {
    instance: Arc<Instance>,
    client: Arc<Client>,
    session: Box<dyn Session>,
    conversation: Option<Conversation>,
    commands: u32,
    auth: bool,
}

impl Harness {
    /// Makes an in-memory server, on which clients must log in if `auth`; `None` on failure.
    pub fn new(auth: bool) -> Option<Harness> {
        let mut config = Config::default();
        config.storage.engine = EngineName::Ephemeral;
        config.auth = auth;
        config.set_parameters.insert("enableTestCommands".to_owned(), "1".to_owned());
        let log = Arc::new(Log::quiet(&config.log_options()));
        let (instance, _) =
            Instance::new(config, memory::open(), None, log, crate::commands::registry()).ok()?;
        let client = instance.clients.add("127.0.0.1:1".to_owned());
        let session = instance.engine.session().ok()?;
        Some(Harness { instance, client, session, conversation: None, commands: 0, auth })
    }

    /// Runs the sections of an OP_MSG (the bytes after its flags) as a command. Returns no reply if they are not a message, or
    /// if the command is left out.
    pub fn run(&mut self, sections: &[u8]) -> Option<RawDocumentBuf> {
        let header = Header {
            length_bytes: Header::BYTES + 4 + sections.len(),
            request_id: 1,
            response_to: 0,
            op_code: OpCode::MSG,
        };
        let frame = [&header.to_bytes()[..], &[0; 4], sections].concat();
        let Ok(Message::Msg(message)) = Message::parse(&frame) else { return None };
        if blocks(message.body) {
            return None;
        }
        self.commands += 1;
        if self.commands > COMMANDS || self.instance.is_stopping() {
            *self = Harness::new(self.auth)?;
        }
        let place = RequestContext {
            instance: &self.instance,
            session: &*self.session,
            client: &self.client,
            in_loop: false,
        };
        let mut reply = Vec::new();
        dispatch::run(&place, &RequestMessage::Message(&message), &mut self.conversation, &mut reply);
        // Every reply of a server must be valid BSON, regardless of the request.
        let reply = validate_document(&reply).map(RawDocument::to_owned);
        assert!(reply.is_ok(), "a reply that is no document");
        reply.ok()
    }
}

/// Whether a command may wait for long: by its name, or because it gives a time.
fn blocks(body: &RawDocument) -> bool {
    let named = body.iter().next().and_then(Result::ok).map(|(name, _)| name.as_str().to_owned());
    named.is_none_or(|name| LEFT_OUT.contains(&name.as_str()) || name == "configureFailPoint")
        || ["awaitData", "maxTimeMS"].iter().any(|name| body.get(name).ok().flatten().is_some())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::commands::registry;

    /// Random commands: names and fields that exist, with mostly meaningless values.
    struct CommandGenerator(Xoshiro256PlusPlus);

    impl CommandGenerator {
        fn below(&mut self, limit: usize) -> usize {
            usize::try_from(self.0.next_u64() % limit as u64).unwrap()
        }

        fn pick<T: Clone>(&mut self, from: &[T]) -> T {
            from[self.below(from.len())].clone()
        }

        fn text(&mut self) -> String {
            let texts = [
                "c",
                "a",
                "",
                "a.b",
                "$a",
                "_id_",
                "_id",
                "system.users",
                "a.c",
                "$$ROOT",
                "$a.b",
                "*",
                "x".repeat(300).as_str(),
                "SCRAM-SHA-256",
                "n,,n=u,r=x",
                "local",
                "wiredTiger",
                "zlib",
                "bixuPXUscj1h",
                "root",
                "off",
            ]
            .map(str::to_owned);
            self.pick(&texts)
        }

        fn key(&mut self) -> String {
            let keys = "a b _id $gt $in $and $or $set $inc $push $unset $match $group $lookup $sort $limit \
            $project $facet $expr $elemMatch $not q u limit multi upsert key name unique id role db \
            find aggregate pipeline from as $each $bit $merge $out $natural $slice $exists $type \
            $regex $mod $size a.0.$[x] $sum $unwind $sample $count $bucket $currentOp $collStats \
            batchSize w level locale partialFilterExpression expireAfterSeconds sparse hidden \
            validator index user";
            let keys: Vec<&str> = keys.split_whitespace().collect();
            self.pick(&keys).to_owned()
        }

        fn value(&mut self, depth: usize) -> Bson {
            let kinds = if depth == 0 { 9 } else { 14 };
            match self.below(kinds) {
                0 => self.text().into(),
                1 => self.pick(&[0, 1, -1, 2, 100, i32::MAX, i32::MIN]).into(),
                2 => self.pick(&[0, 1, -1, i64::MAX, i64::MIN, 1 << 40]).into(),
                3 => self.pick(&[0.0, 1.0, -0.0, 1.5, f64::NAN, f64::INFINITY, 1e308, -1e19]).into(),
                4 => self.pick(&[true, false]).into(),
                5 => self.pick(&[Bson::Null, Bson::Undefined, Bson::MinKey, Bson::MaxKey]),
                6 => bson::DateTime::from_millis(self.pick(&[0, -1, i64::MAX, i64::MIN])).into(),
                7 => Bson::from(bson::Uuid::from_bytes([1; 16])),
                8 => bson::oid::ObjectId::from_bytes([7; 12]).into(),
                9 | 10 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect::<Vec<_>>().into(),
                _ => self.document(depth - 1).into(),
            }
        }

        fn document(&mut self, depth: usize) -> Document {
            (0..self.below(4)).map(|_| (self.key(), self.value(depth))).collect()
        }

        fn command(&mut self) -> Document {
            let row = &registry().all()[self.below(registry().all().len())];
            let target = if self.below(3) == 0 { self.value(2) } else { "c".into() };
            let mut command = doc! { row.name: target };
            for _ in 0..self.below(5) {
                if !row.rules.fields.is_empty() {
                    let field = self.pick(row.rules.fields);
                    command.insert(field, self.value(4));
                }
            }
            command.insert("$db", self.pick(&["a", "admin", "local", "config"]));
            if self.below(10) == 0 {
                command.insert("lsid", self.value(2));
            }
            command
        }
    }

    #[test]
    fn any_command_with_any_values_gets_a_reply() {
        let mut source = CommandGenerator(Xoshiro256PlusPlus::seed_from_u64(SEED));
        let mut harness = Harness::new(false).unwrap();
        let (mut answered, mut succeeded) = (0, 0);
        for _ in 0..ROUNDS {
            let command = source.command();
            let body = command.to_vec().unwrap();
            if let Some(reply) = harness.run(&[&[0], body.as_slice()].concat()) {
                answered += 1;
                succeeded += i32::from(reply.get_f64("ok").unwrap() == 1.0);
            }
        }
        assert!(answered > ROUNDS / 2 && succeeded > ROUNDS / 50, "{answered} answered, {succeeded} well");
    }

    const SEED: u64 = 42;
    const ROUNDS: i32 = 3000;
}

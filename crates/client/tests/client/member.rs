//! A server of a deployment whose replies to hello a test sets, for all clients at once, until it is stopped.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use bson::{Document, doc};
use fathom_client::Address;

use crate::responder::{Request, SurveyAnswer, serve};

/// A running fake server of a deployment.
pub(crate) struct FakeMember {
    pub(crate) port: u16,
    hello: Arc<Mutex<Document>>,
    stopped: Arc<AtomicBool>,
}

impl FakeMember {
    /// A server that has only a port so far.
    pub(crate) fn start() -> FakeMember {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hello = Arc::new(Mutex::new(doc! { "isWritablePrimary": true }));
        let stopped = Arc::new(AtomicBool::new(false));
        let (said, ended) = (Arc::clone(&hello), Arc::clone(&stopped));
        thread::spawn(move || {
            for socket in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let said = Arc::clone(&said);
                thread::spawn(move || {
                    serve(socket.unwrap(), &mut |request| answer(request, &said), &mut Vec::new())
                });
            }
        });
        FakeMember { port, hello, stopped }
    }

    /// Three servers of one set, the first of them its primary.
    pub(crate) fn set_of_three() -> [FakeMember; 3] {
        let members = [FakeMember::start(), FakeMember::start(), FakeMember::start()];
        elect(&members, 0, 1);
        members
    }

    pub(crate) fn say(&self, hello: Document) {
        *self.hello.lock().unwrap() = hello;
    }

    pub(crate) fn address(&self) -> Address {
        Address::new("127.0.0.1", self.port)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // The thread that accepts connections gets one more.
        drop(TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        while TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            thread::yield_now();
        }
    }
}

/// Makes the members report that one of them won an election.
pub(crate) fn elect(members: &[FakeMember], primary: usize, set_version: i32) {
    let hosts: Vec<String> = members.iter().map(|member| member.address().to_string()).collect();
    for (at, member) in members.iter().enumerate() {
        member.say(doc! {
            "isWritablePrimary": at == primary, "secondary": at != primary, "setName": "rs",
            "setVersion": set_version, "hosts": hosts.clone(), "tags": { "rack": at.to_string() },
        });
    }
}

fn answer(request: &Request, hello: &Mutex<Document>) -> SurveyAnswer {
    let mut reply = match request.name() {
        "hello" => hello.lock().unwrap().clone(),
        // Every login is refused.
        "saslStart" => return doc! { "ok": 0, "code": 18, "errmsg": "Authentication failed." }.into(),
        _ => Document::new(),
    };
    reply.insert("maxWireVersion", 9);
    reply.insert("ok", 1);
    reply.into()
}

//! The DevTools protocol over two pipes: JSON documents that end in a zero byte, numbered calls, their answers, and events.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use serde_json::{Value, json};

/// The connection. A thread reads from the browser continuously, so that it never blocks.
#[derive(Debug)]
pub(super) struct Link {
    into: ChildStdin,
    from: Receiver<Value>,
    number: u64,
    events: VecDeque<Value>,
}

impl Link {
    pub(super) fn over(into: ChildStdin, from: ChildStdout) -> Link {
        let (sender, receiver) = channel();
        // Ends when the last process that holds the other end has closed it.
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut bytes = Vec::new();
            while matches!(from.read_until(0, &mut bytes), Ok(count) if count > 0) {
                bytes.pop();
                if let Ok(message) = serde_json::from_slice(&bytes) {
                    let _ = sender.send(message);
                }
                bytes.clear();
            }
        });
        Link { into, from: receiver, number: 0, events: VecDeque::new() }
    }

    /// Calls a method and waits for its answer. Events that arrive meanwhile are kept.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
        patience: Duration,
    ) -> Result<Value> {
        self.number += 1;
        let number = self.number;
        let mut message = json!({ "id": number, "method": method, "params": parameters });
        if let (Some(session), Some(fields)) = (session, message.as_object_mut()) {
            fields.insert("sessionId".to_owned(), json!(session));
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let sent = self.into.write_all(&bytes).and_then(|()| self.into.flush());
        sent.map_err(|e| Error::new(Kind::Io, format!("the browser took no {method}")).because(e))?;
        let deadline = Instant::now() + patience;
        loop {
            let answer = self.receive(deadline, method)?;
            if answer.get("id").and_then(Value::as_u64) != Some(number) {
                self.keep(answer);
                continue;
            }
            if let Some(error) = answer.get("error") {
                return Err(Error::new(Kind::Malformed, format!("the browser refused {method}: {error}")));
            }
            return Ok(answer.get("result").cloned().unwrap_or_default());
        }
    }

    /// The next event of a session that was kept or comes before the deadline, by its name.
    pub(super) fn event(&mut self, session: &str, method: &str, patience: Duration) -> Result<Value> {
        let deadline = Instant::now() + patience;
        let is_it = |event: &Value| event["sessionId"] == session && event["method"] == method;
        loop {
            if let Some(at) = self.events.iter().position(is_it) {
                return Ok(self.events.remove(at).unwrap_or_default());
            }
            let message = self.receive(deadline, method)?;
            self.keep(message);
        }
    }

    /// Takes every event of a session that has come so far.
    pub(super) fn events(&mut self, session: &str) -> Vec<Value> {
        while let Ok(message) = self.from.try_recv() {
            self.keep(message);
        }
        let (wanted, others): (Vec<Value>, Vec<Value>) =
            self.events.drain(..).partition(|event| event["sessionId"] == session);
        self.events = others.into();
        wanted
    }

    /// Waits until no process holds the other end.
    pub(super) fn wait_for_end(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.from.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
    }

    fn keep(&mut self, message: Value) {
        // A message that answers no pending call is dropped.
        if message.get("method").is_some() {
            self.events.push_back(message);
        }
    }

    fn receive(&self, deadline: Instant, wanted: &str) -> Result<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Error::new(Kind::Io, format!("the browser did not come to {wanted} in time"))
            }
            RecvTimeoutError::Disconnected => {
                Error::new(Kind::Io, format!("the browser ended before it came to {wanted}"))
            }
        })
    }
}

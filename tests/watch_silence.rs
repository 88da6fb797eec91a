//! Tests `fathom watch` of a server that stops answering and then breaks off: in lines, in JSON, and as OpenMetrics. The server is
//! scripted, and the steps follow what the program has shown.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bson::{Document, RawDocumentBuf, doc};
use fathom_testkit::{Fathom, RunningProgram, TIMEOUT, assert};
use fathom_wire::{Header, Message, OpMsgWriter};
use rustix::process::Signal;
use serde_json::Value;

/// The behaviour of the server from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Answers,
    /// It keeps its connections, and answers nothing.
    Silent,
    /// It has closed its connections, and accepts no others.
    Closed,
}

struct ScriptedServer {
    port: u16,
    manner: Arc<(Mutex<Manner>, Condvar)>,
}

impl ScriptedServer {
    fn start() -> ScriptedServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let manner = Arc::new((Mutex::new(Manner::Answers), Condvar::new()));
        let shared = Arc::clone(&manner);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if *shared.0.lock().unwrap() == Manner::Closed {
                    return;
                }
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(socket, &shared));
            }
        });
        ScriptedServer { port, manner }
    }

    fn behave(&self, manner: Manner) {
        *self.manner.0.lock().unwrap() = manner;
        self.manner.1.notify_all();
        if manner == Manner::Closed {
            // The thread that accepts connections gets one more, and ends.
            drop(TcpStream::connect(("127.0.0.1", self.port)));
        }
    }
}

fn serve(mut socket: TcpStream, (manner, changed): &(Mutex<Manner>, Condvar)) {
    let mut asked = 0;
    loop {
        let mut frame = vec![0; Header::BYTES];
        if socket.read_exact(&mut frame).is_err() {
            return;
        }
        let header = Header::parse(frame.first_chunk().unwrap()).unwrap();
        frame.resize(header.length_bytes, 0);
        socket.read_exact(&mut frame[Header::BYTES..]).unwrap();
        let Message::Msg(message) = Message::parse(&frame).unwrap() else { return };
        let command = Document::try_from(message.body).unwrap();
        let now = changed.wait_while(manner.lock().unwrap(), |now| *now == Manner::Silent).unwrap();
        if *now == Manner::Closed {
            return;
        }
        drop(now);
        asked += 1;
        let reply = RawDocumentBuf::try_from(&answer(&command, asked)).unwrap();
        let mut out = Vec::new();
        let mut message = OpMsgWriter::begin(&mut out, 1, header.request_id);
        message.raw_body(&reply);
        message.finish().unwrap();
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

/// A standalone server with more reads at each question.
fn answer(command: &Document, asked: i64) -> Document {
    match command.keys().next().map(String::as_str) {
        Some("hello" | "isMaster") => {
            doc! { "isWritablePrimary": true, "minWireVersion": 0, "maxWireVersion": 9, "ok": 1 }
        }
        Some("ping") => doc! { "ok": 1 },
        // No process of this host has this id.
        Some("serverStatus") => doc! {
            "pid": 999_999_999_i64, "uptimeMillis": 1_000_000_i64 + 1000 * asked, "ok": 1,
            "opLatencies": {
                "reads": { "latency": 300_000 * asked, "ops": 300 * asked },
                "writes": { "latency": 100_000 * asked, "ops": 100 * asked },
            },
        },
        _ => doc! { "ok": 0, "code": 59, "errmsg": "no such command" },
    }
}

fn watch(server: &ScriptedServer, flags: &[&str]) -> RunningProgram {
    let uri = format!("mongodb://127.0.0.1:{}/", server.port);
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["watch", "--for", "600s", "--uri", &uri])
        .args(flags)
        .spawn()
}

/// Waits for a page of metrics, served by the program, that is as `is_wanted` asks.
fn wait_for_page(program: &RunningProgram, is_wanted: impl Fn(&str) -> bool) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let said = program.stderr();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let mut page = String::new();
        if let Some(mut socket) = address.and_then(|address| TcpStream::connect(address).ok()) {
            socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            socket.read_to_string(&mut page).unwrap();
        }
        if is_wanted(&page) {
            return;
        }
        assert!(Instant::now() < until, "{page}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The server is stalled for eight seconds before its time-out, and each program must show that meanwhile. Simulated time says the same in
/// `crates/cli/src/verbs/watch/tests.rs` and `crates/cli/src/metrics.rs`.
mod timed {
    use fathom_testkit::{assert, assert_eq, test};

    use super::*;

    #[test]
    fn a_server_that_stops_answering_is_stalled_and_then_down_and_has_no_figures() {
        let server = ScriptedServer::start();
        let (mut json, mut plain) =
            (watch(&server, &["--json", "--metrics", "0"]), watch(&server, &["--plain"]));
        let read = "fathom_server_reads_operations_total{member=\"0\"}";
        wait_for_page(&json, |page| page.contains(read));
        assert!(json.wait_for_stdout("\"name\":\"reads\""), "{}", json.stdout());
        assert!(plain.wait_for_stdout("standalone"), "{}", plain.stdout());
        server.behave(Manner::Silent);
        assert!(json.wait_for_stdout("\"condition\":\"stalled\""), "{}", json.stdout());
        assert!(plain.wait_for_stdout("STALLED"), "{}", plain.stdout());
        server.behave(Manner::Closed);
        // A counter is left out once its next value is late.
        let down = "fathom_server_condition{member=\"0\",condition=\"down\"} 1.0";
        wait_for_page(&json, |page| page.contains(down) && !page.contains(read));
        assert!(json.wait_for_stdout("\"condition\":\"down\""), "{}", json.stdout());
        assert!(plain.wait_for_stdout("DOWN"), "{}", plain.stdout());
        json.signal(Signal::TERM);
        plain.signal(Signal::TERM);
        for line in json.wait().expect_code(0).stdout.lines() {
            let screen: Value = serde_json::from_str(line).unwrap();
            let member = &screen["members"][0];
            if member["condition"] != "up" {
                assert_eq!(
                    (&member["operations_per_s"], &screen["latency"]),
                    (&Value::Null, &Value::Array(Vec::new()))
                );
            }
        }
        let text = plain.wait().expect_code(0).stdout;
        let silent = text.lines().filter(|line| line.contains("STALLED") || line.contains("DOWN"));
        for line in silent {
            let cells: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(cells[2..6], ["-"; 4], "{text}");
        }
    }
}

//! Tests `fathom runs --serve`: its pages, and the requests that it refuses.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use fathom_record::{Finding, Severity};
use fathom_testkit::{RunningProgram, Scratch};
use rustix::process::Signal;

use crate::runs::{made, names, runs};

/// A page that is served, and its address.
struct ServedPage {
    running: RunningProgram,
    address: String,
}

fn serve(place: &Path) -> ServedPage {
    let mut running = runs(place, &["--serve", "127.0.0.1:0"]).limit(Duration::from_secs(120)).spawn();
    assert!(running.wait_for_stdout("http://127.0.0.1:"), "{}", running.stderr());
    assert!(running.wait_for_stdout("/\n"));
    let address = running.stdout().trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    ServedPage { running, address }
}

/// The list of the runs at a place, as a browser gets it.
pub(crate) fn list_of(place: &Path) -> String {
    let served = serve(place);
    let answer = served.get("/");
    served.running.signal(Signal::INT);
    served.running.wait().expect_code(0);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

impl ServedPage {
    /// Sends these bytes, and returns the answer.
    fn ask(&self, request: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A refusal may arrive before the whole request was read.
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, target: &str) -> String {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }
}

#[test]
fn the_page_lists_filters_opens_and_compares() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    let hostile = "<script>alert(1)</script>";
    made(&place, "disk", 3, &[Finding::new("x", Severity::Critical, hostile)]);
    made(&place, "ycsb", 1, &[]);
    fs::create_dir(place.join("odd")).unwrap();
    let served = serve(&place);
    let list = served.get("/");
    assert!(list.starts_with("HTTP/1.1 200 OK\r\n"), "{list}");
    for head in ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-referrer", "no-store"] {
        assert!(list.contains(head), "{head}: {list}");
    }
    let folders: Vec<String> = names(&place).into_iter().filter(|name| name != "odd").collect();
    assert!(folders.iter().all(|name| list.contains(&format!("/run/{name}"))), "{list}");
    assert!(
        !list.contains(hostile) && list.contains("&lt;script&gt;") && list.contains("odd has no manifest"),
        "{list}"
    );
    assert!(!list.contains("http://") && !list.contains("https://"), "nothing is asked of anybody: {list}");
    let filtered = served.get("/?verb=ycsb&state=complete&words=");
    assert!(filtered.contains("1 of 2 runs"), "{filtered}");
    assert!(served.get("/?words=alert%281").contains("1 of 2 runs"));
    let run = served.get(&format!("/run/{}", folders[0]));
    assert!(run.starts_with("HTTP/1.1 200 OK") && run.contains("<!doctype html>"), "{}", &run[..400]);
    assert!(!run.contains(hostile));
    let compared = served.get(&format!("/compare?a={}&b={}", folders[0], folders[1]));
    assert!(compared.contains("no proof") && compared.contains("two runs side by side"), "{compared}");
    assert!(!compared.contains(hostile), "what a run says is text");
    let head = served.ask(&format!("HEAD / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address));
    assert!(head.ends_with("\r\n\r\n") && head.contains("Content-Length: "), "{head}");
    served.running.signal(Signal::INT);
    served.running.wait().expect_code(0);
    assert_eq!(names(&place).len(), 3, "nothing was made or removed");
    assert!(!place.join(&folders[0]).join("report.html").exists(), "it only reads");
}

#[test]
fn nobody_gets_out_of_the_folder_or_in_by_another_name() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path().join("runs");
    let run = made(&place, "disk", 0, &[]);
    made(&scratch.path(), "secret", 0, &[]);
    let outside = names(&scratch.path()).into_iter().find(|name| name != "runs").unwrap();
    let served = serve(&place);
    let name = run.file_name().unwrap().to_string_lossy().into_owned();
    for target in [
        format!("/run/../{outside}"),
        format!("/run/..%2f{outside}"),
        format!("/run/%2e%2e/{outside}"),
        format!("/run/{name}/manifest.json"),
        format!("/run/{name}%00"),
        format!("/compare?a={name}&b=../{outside}"),
        "/run/".to_owned(),
        "/etc/passwd".to_owned(),
        "/../../etc/passwd".to_owned(),
    ] {
        let answer = served.get(&target);
        assert!(answer.starts_with("HTTP/1.1 404"), "{target}: {answer}");
        assert!(!answer.contains("secret") && !answer.contains("root:"), "{target}: {answer}");
    }
    for host in ["evil.example", "evil.example:80", "10.0.0.7", "", "127.0.0.1.evil.example"] {
        let answer = served.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains(&name), "{host}: {answer}");
    }
    assert!(served.ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 421"));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
        let answer = served.ask(&format!("{method} / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address));
        assert!(answer.starts_with("HTTP/1.1 405"), "{method}: {answer}");
    }
    assert!(served.ask("\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert_eq!(served.ask(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000))), "", "too long a request");
    // An idle connection does not delay the others.
    let _idle = TcpStream::connect(&served.address).unwrap();
    assert!(served.get("/").starts_with("HTTP/1.1 200"));
    served.running.signal(Signal::TERM);
    served.running.wait().expect_code(0);
}

#[test]
fn it_stays_on_the_loopback_unless_asked() {
    let scratch = Scratch::new().unwrap();
    let refused = runs(&scratch.path(), &["--serve", "0.0.0.0:0"]).run().expect_code(2);
    assert!(refused.stderr.contains("--to-network"), "{}", refused.stderr);
    runs(&scratch.path(), &["--serve", "nonsense"]).run().expect_code(2);
    runs(&scratch.path(), &["--serve", "0", "--json"]).run().expect_code(2);
    let mut open = runs(&scratch.path(), &["--serve", "0.0.0.0:0", "--to-network"]).spawn();
    assert!(open.wait_for_stdout("http://127.0.0.1:"), "{}", open.stderr());
    open.signal(Signal::INT);
    open.wait().expect_code(0);
}

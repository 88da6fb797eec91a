//! Tests what becomes of the secrets in connection strings, in every place that takes one: no part of a string that cannot be read
//! is repeated, kept or shown to other users of the host.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fathom_testkit::{Fathom, Output, Scratch, assert, assert_eq, test};

/// The halves of the passwords here, which are found nowhere else.
const HALVES: [&str; 2] = ["s3cretA", "s3cretB"];
/// The characters that separate the parts of a string, and a percent sign that escapes nothing.
const UNESCAPED: [&str; 9] = ["/", "?", ":", "@", "%", "/?", "?a=", "@h?a=", "%zz?"];
const RESTS: [&str; 4] = ["127.0.0.1:1", "127.0.0.1:1/x", "127.0.0.1:1/x?w=1", "127.0.0.1:1/?w=1&appName=a"];

/// The verbs that take a connection string where `URI` is.
const TAKERS: [&str; 9] = [
    "watch --for 1s --plain --uri URI",
    "explain --for 5s --uri URI",
    "explain --for 5s --uri mongodb://127.0.0.1:1 --uri=URI",
    "checkup --quick --uri URI",
    "checkup --quick --load --yes --uri URI",
    "ycsb run mongodb -p workload=CoreWorkload -p recordcount=1 -p operationcount=1 -p mongodb.url=URI",
    "ycsb load mongodb --workload nested-orders -p mongodb.url=URI",
    "ycsb run mongodb --driver official -p workload=CoreWorkload -p recordcount=1 -p operationcount=1 -p mongodb.url=URI",
    "route --configdb URI",
];

/// The verbs and options that take no connection string, given one.
const OTHERS: [&str; 9] = [
    "watch URI",
    "disk --uri URI",
    "explain URI",
    "report URI",
    "runs show URI",
    "cluster list URI",
    "ycsb run URI",
    "ycsb run mongodb -P URI",
    "ycsb run mongodb -p URI",
];

fn fathom(line: &str, uri: &str, scratch: &Scratch) -> Fathom {
    let words = line.split(' ').map(|word| word.replace("URI", uri));
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words).state(scratch.path()).current_dir(scratch.path())
}

/// The files below a folder that hold a half of a password.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(leaks(&path));
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        if bytes.windows(HALVES[0].len()).any(|part| HALVES.iter().any(|half| half.as_bytes() == part)) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[track_caller]
fn assert_silent(output: &Output, line: &str) {
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(HALVES.iter().all(|half| !said.contains(half)), "{line}: {said}");
}

#[test]
fn a_string_that_cannot_be_read_is_repeated_and_kept_nowhere() {
    let scratch = Scratch::new().unwrap();
    for (number, line) in TAKERS.into_iter().enumerate() {
        for (place, character) in UNESCAPED.into_iter().enumerate() {
            let [first, second] = HALVES;
            let rest = RESTS[(number + place) % RESTS.len()];
            let uri = format!("mongodb://us3r:{first}{character}{second}@{rest}");
            let output = fathom(line, &uri, &scratch).run().expect_code(2);
            assert_silent(&output, &format!("{line}, {uri}"));
            if !line.starts_with("route") {
                let escape = format!("%{:02X} for ", character.as_bytes()[0]);
                assert!(output.stderr.contains(&escape), "{line}, {uri}: {}", output.stderr);
            }
        }
    }
    assert_eq!(leaks(&scratch.path()), Vec::<String>::new());
}

#[test]
fn a_string_in_the_wrong_place_is_repeated_without_its_login() {
    let scratch = Scratch::new().unwrap();
    for line in OTHERS {
        for character in ["", "?", " ", "'", "@"] {
            let [first, second] = HALVES;
            let uri = format!("mongodb://us3r:{first}{character}{second}@127.0.0.1:1/x?w=1");
            let output = fathom(line, &uri, &scratch).run();
            assert_silent(&output, &format!("{line}, {uri}"));
            assert!([2, 3].contains(&output.code), "{line}: {output:?}");
        }
    }
    assert_eq!(leaks(&scratch.path()), Vec::<String>::new());
}

/// The server is a socket that accepts and does not answer, so the program is at work when its command line is read.
#[test]
fn other_users_of_the_host_do_not_see_the_password() {
    let scratch = Scratch::new().unwrap();
    for line in TAKERS.into_iter().filter(|line| !line.contains("--uri=") && !line.starts_with("route")) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let [first, second] = HALVES;
        let uri = format!("mongodb://us3r:{first}%3F{second}@127.0.0.1:{port}/x?directConnection=true");
        let mut running = fathom(line, &uri, &scratch).spawn();
        let socket = loop {
            match listener.accept() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(5))
                }
                accepted => break accepted.unwrap(),
            }
            assert!(!running.has_ended(), "{line}: {}", running.stderr());
        };
        let shown = fs::read(format!("/proc/{}/cmdline", running.pid())).unwrap();
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("mongodb://***@127.0.0.1:"), "{line}: {shown}");
        assert!(HALVES.iter().all(|half| !shown.contains(half)), "{line}: {shown}");
        drop((listener, socket));
        let output = running.wait();
        assert_silent(&output, line);
        assert!(output.code > 0, "{line}: {output:?}");
    }
    assert_eq!(leaks(&scratch.path()), Vec::<String>::new());
}

//! Tests `fathom serve --fork`: the parent ends when clients may connect, or reports why they never will.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_process::ProcessId;
use fathom_testkit::{Fathom, Scratch};
use rustix::process::{Pid, Signal, getsid, kill_process};

use crate::serve_run::{connect, count, port_in, run, serve};

/// Ends the server that was left in the background, also when the test fails.
struct Background(Pid);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn the_parent_ends_when_the_child_listens() {
    let scratch = Scratch::new().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let arguments =
        ["--dbpath", "db", "--logpath", "log", "--pidfilepath", "pid", "--wiredTigerCacheSizeGB", "0.25"];
    let fork = || serve(&arguments).arg("--fork").current_dir(scratch.path()).run();
    let output = fork().expect_code(0);
    assert!(output.stdout.starts_with("about to fork child process"), "{}", output.stdout);
    assert!(
        output.stdout.ends_with("child process started successfully, parent exiting\n"),
        "{}",
        output.stdout
    );
    let number: i32 = fs::read_to_string(path("pid")).unwrap().trim().parse().unwrap();
    assert!(output.stdout.contains(&format!("forked process: {number}\n")), "{}", output.stdout);
    let pid = Pid::from_raw(number).unwrap();
    let _background = Background(pid);
    assert_eq!(getsid(Some(pid)).unwrap(), pid);
    assert_eq!(fs::read_link(format!("/proc/{number}/cwd")).unwrap(), std::path::Path::new("/"));

    let mut connection = connect(port_in(&fs::read_to_string(path("log")).unwrap()));
    run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }] });
    assert_eq!(count(&mut connection), 2);
    let options = run(&mut connection, &doc! { "getCmdLineOpts": 1 });
    let process = options.get_document("parsed").unwrap().get_document("processManagement").unwrap();
    assert_eq!(process, &doc! { "fork": true, "pidFilePath": "pid" });

    // A second server on the same directory reports the reason for its refusal, and the place of its log.
    let second = serve(&["--dbpath", "db", "--logpath", "log2", "--fork"]).current_dir(scratch.path()).run();
    let second = second.expect_code(3);
    assert!(
        second.stderr.contains("in use by another server") && second.stderr.contains("log2"),
        "{}",
        second.stderr
    );

    let child = ProcessId::read(u32::try_from(number).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let begun = Instant::now();
    while child.lives() && begun.elapsed() < Duration::from_secs(300) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!child.lives());
    assert!(fs::read_to_string(path("log")).unwrap().contains("Now exiting"));
    assert!(!scratch.path().join("pid").exists());
}

#[test]
fn a_child_that_cannot_start_is_a_failure_of_the_parent() {
    let scratch = Scratch::new().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["serve", "--fork", "--dbpath", "db", "--logpath", "log", "--port", &port])
        .current_dir(scratch.path())
        .run()
        .expect_code(3);
    assert!(
        output.stderr.contains("cannot listen on") && output.stderr.contains("the log is"),
        "{}",
        output.stderr
    );
    assert_eq!(output.stderr.lines().count(), 1);
    assert!(fs::read_to_string(scratch.path().join("log")).unwrap().contains("cannot listen on"));
    assert!(!scratch.path().join("db").exists());
}

//! Tests the progress that a terminal shows during a measurement, by `script`.

use std::path::Path;
use std::process::Command;

use fathom_testkit::{Need, Scratch, assert, skip, test};

use crate::clients::{WIRED_TIGER, serve, stop};
use crate::ycsb::url;

/// The program that makes a terminal.
const SCRIPT: &str = "/usr/bin/script";

/// All that a terminal gets of a call of the program.
fn on_terminal(scratch: &Scratch, words: &str) -> String {
    let program = env!("CARGO_BIN_EXE_fathom");
    let output = Command::new(SCRIPT)
        .args(["-qec", &format!("stty rows 24 cols 120; exec {program} {words}"), "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("FATHOM_STATE", scratch.path().join("state"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_load_shows_time_rate_and_tail() {
    if !Path::new(SCRIPT).exists() {
        skip!(Need::Program, "no script(1) to make a terminal");
    }
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let to = url(&server, "y", "");
    on_terminal(&scratch, &format!("ycsb load mongodb -P workloada -p {to}"));
    let words = format!("ycsb run mongodb -P workloada -p {to} -p operationcount=0 -p maxexecutiontime=6");
    let text = on_terminal(&scratch, &words);
    // A busy machine may not draw each second.
    let is_drawn = |second| {
        text.contains(&format!("{second} of 6 s, ")) && text.contains(&format!("{} s left", 6 - second))
    };
    assert!((1..6).any(is_drawn) && text.contains("/s, p99 "), "{text:?}");
    // Status lines take its place.
    let text = on_terminal(&scratch, &format!("{words} -s"));
    assert!(text.contains("[READ: Count=") && !text.contains(" s left"), "{text:?}");
    stop(server);
}

#[test]
fn a_probe_shows_its_step_and_the_time_left() {
    if !Path::new(SCRIPT).exists() {
        skip!(Need::Program, "no script(1) to make a terminal");
    }
    let scratch = Scratch::new().unwrap();
    let dir = scratch.path().join("data");
    std::fs::create_dir_all(&dir).unwrap();
    let words = format!(
        "disk --dir {} --pattern randread --depth 1..4 --time 1s --size 16M --engine psync",
        dir.display()
    );
    let text = on_terminal(&scratch, &words);
    assert!(text.contains("step 1 of 7: randread at depth 1, "), "{text:?}");
    assert!(text.contains("step 2 of 7: randread at depth 2, ") && text.contains(" s left"), "{text:?}");
}

#[test]
fn a_checkup_shows_what_runs_what_follows_and_the_time_left() {
    if !Path::new(SCRIPT).exists() {
        skip!(Need::Program, "no script(1) to make a terminal");
    }
    let scratch = Scratch::new().unwrap();
    let dir = scratch.path().join("data");
    std::fs::create_dir_all(&dir).unwrap();
    let program = env!("CARGO_BIN_EXE_fathom");
    // Ended during the probe: the whole takes longer than a test may.
    let call = format!(
        "stty rows 24 cols 120; exec timeout -s INT 6 {program} checkup --quick --size 16M --no-record --dir {}",
        dir.display()
    );
    let output = Command::new(SCRIPT)
        .args(["-qec", &call, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("FATHOM_STATE", scratch.path().join("state"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the disk: random reads, then loading a table, "), "{text:?}");
    assert!(text.contains(" s left") && text.contains("about 45 s."), "{text:?}");
    assert!(text.contains("Interrupted: "), "{text:?}");
}

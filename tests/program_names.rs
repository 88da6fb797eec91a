//! Tests the program under the names of the tools that its verbs replace, by a link.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use fathom_record::Run;
use fathom_testkit::{Fathom, Ports, Scratch};

use crate::clients::{WIRED_TIGER, serve, stop};
use crate::runs::names;
use crate::ycsb::{report, url};

/// A link of this name to the program under test.
fn linked(scratch: &Scratch, name: &str) -> Fathom {
    let link: PathBuf = scratch.path().join(name);
    symlink(env!("CARGO_BIN_EXE_fathom"), &link).unwrap();
    Fathom::new(link)
}

#[test]
fn ycsb_loads_a_built_in_workload() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let kept = scratch.path().join("kept");
    let words = ["load", "mongodb", "-P", "S1", "-s", "-threads", "4", "-p", "recordcount=500", "-p"];
    let output = linked(&scratch, "ycsb")
        .args(words)
        .arg(url(&server, "y", ""))
        .arg("--runs")
        .arg(&kept)
        .run()
        .expect_code(0);
    assert_eq!(report(&output).returned("INSERT", "OK"), 500);
    assert!(output.stderr.contains("500 operations"), "status lines: {}", output.stderr);
    let run = Run::open(kept.join(&names(&kept)[0])).unwrap();
    assert_eq!(run.manifest.command_line[..3], ["fathom", "ycsb", "load"], "{:?}", run.manifest.command_line);
    stop(server);
}

#[test]
fn mlaunch_is_the_verb_cluster() {
    let scratch = Scratch::new().unwrap();
    let ports = Ports::reserve(1).unwrap();
    let words = ["init", "--replicaset", "--nodes", "1", "--binarypath", "fathom", "--dry-run", "--port"];
    let output = linked(&scratch, "mlaunch")
        .args(words)
        .arg(ports.first().to_string())
        .arg("--dir")
        .arg(scratch.path().join("data"))
        .run()
        .expect_code(0);
    assert!(output.stdout.contains("--replSet replset"), "{}", output.stdout);
    let help = linked(&Scratch::new().unwrap(), "mlaunch").arg("--help").run().expect_code(0);
    assert!(help.stdout.contains("Usage: fathom cluster "), "{}", help.stdout);
}

#[test]
fn iostat_and_mongoperf_take_their_old_command_lines() {
    let scratch = Scratch::new().unwrap();
    let output = linked(&scratch, "iostat").args(["-x", "1", "1"]).run().expect_code(0);
    assert!(output.stdout.contains("%util"), "{}", output.stdout);
    let human = Scratch::new().unwrap();
    let output = linked(&human, "iostat").args(["-xh", "1", "1"]).run().expect_code(0);
    assert!(output.stdout.contains("rareq-sz Device"), "{}", output.stdout);
    let version = linked(&Scratch::new().unwrap(), "iostat").arg("-V").run().expect_code(0);
    assert!(version.stdout.contains("sysstat version 12.7."), "{}", version.stdout);
    let output = linked(&scratch, "mongoperf").current_dir(scratch.path()).stdin("{nThreads:16}").run();
    assert!(output.code == 2 && output.stderr.contains("neither r nor w"), "{output:?}");
    let version = linked(&scratch, "mongoperf2").arg("--version").run().expect_code(0);
    assert!(version.stdout.starts_with("fathom "), "{}", version.stdout);
}

//! What happens in a guest: a server whose host pauses, and a cell whose clock steps, which this machine's own must not.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use fathom_testkit::{Drive, Guest, LabServer, SERVER_PORT, Scratch, assert, packed, test};

use super::cell::{Cell, Fault};
use super::cells::CELLS;
use super::recording;
use super::scoring::Truth;
use crate::faults::study::PROGRAM;

/// The disks of the guest that hold the program with its libraries, and take the bundle.
const PROGRAM_DISK: &str = "/dev/vdc";
const BUNDLE_DISK: &str = "/dev/vdd";
/// More than any bundle.
const BUNDLE_DISK_BYTES: u64 = 16 << 20;
/// The prefixes of the results in the guest's output.
const TRUTH: &str = "truth ";
const LENGTH: &str = "bundle of bytes: ";

/// A server in a guest. Its process is the whole guest.
pub(crate) fn server() -> LabServer {
    let scratch = Scratch::new().unwrap();
    let program = packed(Path::new(PROGRAM), &scratch.path()).unwrap();
    Guest::find().server("verdicts::guest::server_process", &[Drive::Holding(program)]).unwrap()
}

/// Records a cell in a guest.
pub(crate) fn record(bundle: &Path) -> Truth {
    let scratch = Scratch::new().unwrap();
    let program = packed(Path::new(PROGRAM), &scratch.path()).unwrap();
    let disk = scratch.path().join("bundle");
    File::create(&disk).unwrap().set_len(BUNDLE_DISK_BYTES).unwrap();
    let drives = [Drive::Holding(program), Drive::Written(disk.clone())];
    let said = Guest::find().run("verdicts::guest::cell_process", &drives).unwrap();
    let result = |prefix: &str| said.iter().find_map(|line| line.strip_prefix(prefix)).unwrap();
    let mut bytes = Vec::new();
    let length: u64 = result(LENGTH).parse().unwrap();
    File::open(&disk).unwrap().take(length).read_to_end(&mut bytes).unwrap();
    fs::write(bundle, bytes).unwrap();
    serde_json::from_str(result(TRUTH)).unwrap()
}

/// Puts the program where this test program looks for it, and its libraries where the loader does.
fn unpack() {
    assert!(Guest::is_here(), "this runs in a guest only");
    let scratch = Scratch::new().unwrap();
    let status = Command::new("tar").args(["-xf", PROGRAM_DISK, "-C"]).arg(scratch.path()).status();
    assert!(status.unwrap().success());
    for library in fs::read_dir(scratch.path().join("lib")).unwrap() {
        let library = library.unwrap();
        fs::copy(library.path(), Path::new("/lib").join(library.file_name())).unwrap();
    }
    fs::create_dir_all(Path::new(PROGRAM).parent().unwrap()).unwrap();
    fs::copy(scratch.path().join("fathom"), PROGRAM).unwrap();
    fs::set_permissions(PROGRAM, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Not a test of its own: a server for clients out of the guest.
#[test]
#[ignore = "runs in a guest"]
fn server_process() {
    unpack();
    let port = SERVER_PORT.to_string();
    let words = ["serve", "--bind_ip_all", "--port", &port, "--dbpath", "/work/db"];
    assert!(Command::new(PROGRAM).args(words).status().unwrap().success());
}

/// Not a test of its own: the recording of the cell whose clock steps.
#[test]
#[ignore = "runs in a guest"]
fn cell_process() {
    unpack();
    let cell: &Cell = CELLS.iter().find(|cell| matches!(cell.fault, Fault::ClockStep(_))).unwrap();
    let scratch = Scratch::new().unwrap();
    let bundle = scratch.path().join("bundle.tar.zst");
    let truth = recording::record(cell, &bundle);
    let bytes = fs::read(&bundle).unwrap();
    let mut disk = File::options().write(true).open(BUNDLE_DISK).unwrap();
    disk.write_all(&bytes).and_then(|()| disk.sync_all()).unwrap();
    Guest::say(&format!("{LENGTH}{}", bytes.len()));
    Guest::say(&format!("{TRUTH}{}", serde_json::to_string(&truth).unwrap()));
}

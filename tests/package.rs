//! Tests the package for users: the tarball, installed into an empty prefix and used there (`setup/package_test.sh`), and
//! the manual pages and completions that the program generates for it.
//!
//! The program is the one under test, not a release; `make package` does the same with that, and with the Debian package.

use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_testkit::{Fathom, Output, Scratch};

fn fathom(arguments: &[&str]) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments).run()
}

/// The root of the source tree under test.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "crates/cli".into(), PathBuf::from);
    package.join("../..").canonicalize().unwrap()
}

/// Runs a script of `setup/`, which must succeed, and returns its output.
fn setup(script: &str, arguments: &[&Path]) -> String {
    let output = Command::new(root().join("setup").join(script)).args(arguments).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{script}: {text}");
    text
}

/// The only file of a folder with this ending.
fn with_ending(folder: &Path, ending: &str) -> PathBuf {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The Debian package takes staged files by its own list; otherwise only `make package` would detect a missing line.
#[test]
fn the_debian_package_takes_every_folder_of_the_tarball() {
    let scratch = Scratch::new().unwrap();
    let made = scratch.path().join("made");
    setup("package.sh", &[Path::new(env!("CARGO_BIN_EXE_fathom")), &made]);
    let manifest = std::fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
    let mut folders = vec![made.join("package")];
    let mut staged = 0;
    while let Some(folder) = folders.pop() {
        let entries: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()).collect();
        let is_folder = |entry: &std::fs::DirEntry| entry.file_type().unwrap().is_dir();
        let (inner, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_folder);
        folders.extend(inner.iter().map(std::fs::DirEntry::path));
        if !files.is_empty() {
            let below = folder.strip_prefix(&made).unwrap().display();
            assert!(manifest.contains(&format!("[\"../../bin/{below}/")), "no line takes {below}");
            staged += 1;
        }
    }
    assert!(staged >= 8, "{staged}");
}

#[test]
fn a_package_that_lacks_something_is_found_out() {
    let scratch = Scratch::new().unwrap();
    let tarball = scratch.path().join("x.tar.gz");
    let tar = |root: &Path| {
        Command::new("tar").arg("-czf").arg(&tarball).arg("-C").arg(root).arg("x").status().unwrap()
    };
    std::fs::create_dir_all(scratch.path().join("x/bin")).unwrap();
    assert!(tar(&scratch.path()).success());
    let output = Command::new(root().join("setup/package_test.sh")).arg(&tarball).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no program"));
}

#[test]
fn one_manual_page_or_all_of_them() {
    let page = fathom(&["man", "disk"]).expect_code(0).stdout;
    assert!(page.contains("\n.TH \"FATHOM-DISK\" \"1\" "), "{page}");
    assert!(page.contains(".SH \"EXIT STATUS\""), "{page}");
    let unknown = fathom(&["man", "dusk"]).expect_code(2);
    assert!(unknown.stderr.contains("there is no verb \"dusk\""), "{}", unknown.stderr);

    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().join("man1");
    fathom(&["man", "--output", &folder.to_string_lossy()]).expect_code(0);
    assert_eq!(std::fs::read_to_string(folder.join("fathom-disk.1")).unwrap(), page);
    assert!(folder.join("fathom.1").exists() && !folder.join("fathom-session.1").exists());
    std::fs::write(scratch.path().join("file"), "").unwrap();
    let onto_a_file = scratch.path().join("file").to_string_lossy().into_owned();
    let refused = fathom(&["man", "--output", &onto_a_file]).expect_code(3);
    assert!(refused.stderr.contains("--output"), "{}", refused.stderr);
}

#[test]
fn completions_know_every_verb_and_refuse_other_shells() {
    let help = fathom(&["--help"]).expect_code(0).stdout;
    for shell in ["bash", "zsh", "fish"] {
        let script = fathom(&["completions", shell]).expect_code(0).stdout;
        for verb in ["checkup", "iostat", "completions"] {
            assert!(help.contains(verb) && script.contains(verb), "{shell}: {verb}");
        }
    }
    let refused = fathom(&["completions", "tcsh"]).expect_code(2);
    assert!(refused.stderr.contains("[possible values: bash, zsh, fish]"), "{}", refused.stderr);
}

mod proof {
    use super::*;

    #[test]
    fn the_tarball_installs_into_an_empty_prefix_and_works_there() {
        let scratch = Scratch::new().unwrap();
        let made = scratch.path().join("made");
        setup("package.sh", &[Path::new(env!("CARGO_BIN_EXE_fathom")), &made]);
        let tarball = with_ending(&made, ".tar.gz");
        let text = setup("package_test.sh", &[&tarball]);
        assert!(text.contains("package test: passed"), "{text}");

        let listed =
            Command::new("tar").args(["--utc", "--numeric-owner", "-tvzf"]).arg(&tarball).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let fields: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let names: Vec<&str> = fields.iter().map(|fields| fields[5]).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert!(fields.iter().all(|fields| fields[1] == "0/0"), "somebody owns them: {listed}");
        let times: std::collections::BTreeSet<_> =
            fields.iter().map(|fields| (fields[3], fields[4])).collect();
        assert_eq!(times.len(), 1, "{times:?}");
        assert!(!listed.contains("journal"), "the journal tells of its day and is not handed out");
    }
}

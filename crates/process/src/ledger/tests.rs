//! Tests of the ledger's guarantees with files only; they do not need root.

use std::process::Command;

use tempfile::tempdir;

use super::*;

fn journal_count(state: &Path) -> usize {
    fs::read_dir(state.join("undo")).map_or(0, Iterator::count)
}

/// Makes the journals in `state` look like those of a process that died: same boot, a start time long past.
fn bury(state: &Path) {
    for path in journal::journals(&state.join("undo")).unwrap() {
        let me = ProcessId::current().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let dead = text.replace(&format!("\"start_time\":{}", me.start_time), "\"start_time\":1");
        fs::write(path.with_file_name(format!("{}-1.jsonl", me.pid)), dead).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

/// The outcomes of undoing the resources of dead processes, which must exist.
fn undo_buried(state: &Path) -> Vec<ResourceFate> {
    let outcomes = undo_dead_in(state).unwrap();
    assert!(!outcomes.is_empty(), "the journals in {} are nobody's and stay", state.display());
    outcomes
}

#[test]
fn a_lock_that_outlives_its_owner_for_a_moment_is_waited_for() {
    let scratch = tempdir().unwrap();
    let state = scratch.path().join("state");
    let (_, entry) = Ledger::open_in(&state).unwrap().create_file(&scratch.path().join("file")).unwrap();
    drop(entry);
    bury(&state);
    let path = journal::journals(&state.join("undo")).unwrap().remove(0);
    // The lock as held by a child that its dead parent was about to start.
    let held = File::open(path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let child = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(held);
    });
    assert_eq!(undo_dead_in(&state).unwrap().len(), 1);
    child.join().unwrap();
    assert!(!scratch.path().join("file").exists());
}

#[test]
fn the_journal_comes_with_the_first_thing_and_goes_with_the_last() {
    let scratch = tempdir().unwrap();
    let state = scratch.path().join("state");
    let ledger = Ledger::open_in(&state).unwrap();
    assert!(!state.exists());
    let (_, one) = ledger.create_file(&scratch.path().join("one")).unwrap();
    let two = ledger.create_directory(&scratch.path().join("two")).unwrap();
    assert_eq!(journal_count(&state), 1);
    one.undo().unwrap();
    assert_eq!(journal_count(&state), 1);
    drop(two.guard());
    assert_eq!(journal_count(&state), 0);
    assert!(!scratch.path().join("one").exists() && !scratch.path().join("two").exists());
}

#[test]
fn a_file_that_stands_is_not_ours_and_leaves_no_record() {
    let scratch = tempdir().unwrap();
    let state = scratch.path().join("state");
    let path = scratch.path().join("theirs");
    fs::write(&path, "x").unwrap();
    let error = Ledger::open_in(&state).unwrap().create_file(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::NotOurs);
    assert_eq!(journal_count(&state), 0);
    assert!(path.exists());
}

#[test]
fn the_living_are_left_alone() {
    let scratch = tempdir().unwrap();
    let ledger = Ledger::open_in(scratch.path()).unwrap();
    let path = scratch.path().join("mine");
    let (_, entry) = ledger.create_file(&path).unwrap();
    assert!(undo_dead_in(scratch.path()).unwrap().is_empty());
    assert!(dead_things_in(scratch.path()).unwrap().is_empty());
    assert!(path.exists());
    entry.undo().unwrap();
}

#[test]
fn the_dead_are_undone_in_reverse_also_with_a_torn_last_line() {
    let scratch = tempdir().unwrap();
    let ledger = Ledger::open_in(scratch.path()).unwrap();
    let folder = scratch.path().join("folder");
    let _folder = ledger.create_directory(&folder).unwrap();
    let (_, _file) = ledger.create_file(&folder.join("file")).unwrap();
    bury(scratch.path());
    let journal = &journal::journals(&scratch.path().join("undo")).unwrap()[0];
    let mut text = fs::read(journal).unwrap();
    text.extend_from_slice(b"{\"step\":\"wi");
    fs::write(journal, text).unwrap();
    assert_eq!(dead_things_in(scratch.path()).unwrap().len(), 2);
    let outcomes = undo_buried(scratch.path());
    assert!(outcomes.iter().all(|outcome| matches!(outcome.fate, CleanupOutcome::Undone)), "{outcomes:?}");
    assert!(outcomes[0].found.thing.to_string().starts_with("file "));
    assert!(!folder.exists());
    assert_eq!(journal_count(scratch.path()), 0);
}

#[test]
fn what_cannot_be_undone_stays_in_the_journal_with_the_reason() {
    let scratch = tempdir().unwrap();
    let ledger = Ledger::open_in(scratch.path()).unwrap();
    let folder = scratch.path().join("folder");
    let _folder = ledger.create_directory(&folder).unwrap();
    fs::write(folder.join("somebody's"), "x").unwrap();
    bury(scratch.path());
    for _ in 0..2 {
        let outcomes = undo_buried(scratch.path());
        assert!(
            matches!(&outcomes[..], [ResourceFate { fate: CleanupOutcome::Kept(_), .. }]),
            "{outcomes:?}"
        );
    }
    let journal = &journal::journals(&scratch.path().join("undo")).unwrap()[0];
    assert!(fs::read_to_string(journal).unwrap().contains("\"step\":\"kept\""));
    fs::remove_file(folder.join("somebody's")).unwrap();
    assert!(matches!(&undo_buried(scratch.path())[..], [ResourceFate { fate: CleanupOutcome::Undone, .. }]));
    assert_eq!(journal_count(scratch.path()), 0);
}

#[test]
fn a_file_that_replaced_ours_survives_the_cleanup() {
    let scratch = tempdir().unwrap();
    let ledger = Ledger::open_in(scratch.path()).unwrap();
    let path = scratch.path().join("f");
    let (_, _entry) = ledger.create_file(&path).unwrap();
    bury(scratch.path());
    // Most file systems give the freed inode number to the very next file.
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "theirs").unwrap();
    assert!(matches!(&undo_buried(scratch.path())[..], [ResourceFate { fate: CleanupOutcome::Gone, .. }]));
    assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
}

#[test]
fn after_a_boot_only_files_are_owed() {
    let scratch = tempdir().unwrap();
    let ledger = Ledger::open_in(scratch.path()).unwrap();
    let path = scratch.path().join("f");
    let (_, _file) = ledger.create_file(&path).unwrap();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let _process = ledger.will_make(Resource::process(sleeper.id()).unwrap()).unwrap();
    bury(scratch.path());
    let journal = &journal::journals(&scratch.path().join("undo")).unwrap()[0];
    let text = fs::read_to_string(journal).unwrap();
    fs::write(journal, text.replace(&crate::process_id::boot_id().unwrap(), "another-boot")).unwrap();
    let outcomes = undo_buried(scratch.path());
    assert!(matches!(
        &outcomes[..],
        [ResourceFate { fate: CleanupOutcome::Gone, .. }, ResourceFate { fate: CleanupOutcome::Undone, .. }]
    ));
    assert!(sleeper.try_wait().unwrap().is_none(), "a process of this boot was ended for one of another");
    assert!(!path.exists());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn names_differ_within_and_between_ledgers() {
    let scratch = tempdir().unwrap();
    let (one, two) = (Ledger::open_in(scratch.path()).unwrap(), Ledger::open_in(scratch.path()).unwrap());
    let names = [one.unique_name(), one.unique_name(), two.unique_name()];
    assert!(
        names[0] != names[1] && names[0] != names[2] && names.iter().all(|name| name.starts_with("fathom-"))
    );
}

//! Fuzzes mlaunch's state file: no panic, no shell words, and no password is taken over.

use fathom_cluster::file;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(environment) = file::parse_mlaunch(text) else { return };
    assert!(environment.topology.check().is_ok());
    for words in environment.commands.values() {
        assert!(!words.is_empty() && !words.iter().any(|word| word == "--fork"));
    }
}

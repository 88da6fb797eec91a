//! mlaunch's state file as it may lie about: never a panic, never a word for a shell, and no password taken over.
#![no_main]

use fathom_cluster::file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(environment) = file::parse_mlaunch(text) else { return };
    assert!(environment.topology.check().is_ok());
    for words in environment.commands.values() {
        assert!(!words.is_empty() && !words.iter().any(|word| word == "--fork"));
    }
});

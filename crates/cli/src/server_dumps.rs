//! Dumps of `serverStatus`, `hostInfo` and the like (also those of `getMongoData.js`) for facts that a recording lacks: recognized by their content among
//! the paths of a command line, and put into words.

use std::fs::{self, File};
use std::path::Path;

use fathom_ftdc::{ServerDump, ServerFacts};
use fathom_units::Bytes;

/// Whether a file is a dump, by its content.
pub(crate) fn is_dump(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
    is_file && File::open(path).is_ok_and(|mut file| ServerDump::read(&mut file).is_some())
}

/// `4 processors, 7.8 GiB of memory, a cache of 3.4 GiB, syncdelay 30 (from serverStatus.json)`; `None` without a dump.
pub(crate) fn dumped_facts_sentence(facts: &ServerFacts) -> Option<String> {
    if facts.dumps.is_empty() {
        return None;
    }
    let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
    let mut words = Vec::new();
    words.extend(facts.processors.map(|number| format!("{number} processors")));
    words.extend(facts.memory_mib.map(|mib| format!("{} of memory", Bytes::mib(bytes(mib)))));
    words.extend(facts.cache_bytes.map(|number| format!("a cache of {}", Bytes(bytes(number)))));
    words.extend(facts.parameters.iter().map(|(name, value)| format!("{name} {value}")));
    words.extend(facts.options.iter().map(|(name, value)| format!("{name} {value}")));
    Some(format!("Server: {} (from {}).", words.join(", "), facts.dumps.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_a_dump_are_a_sentence_with_its_file() {
        let mut facts = ServerFacts { cache_bytes: Some(1 << 30), ..ServerFacts::default() };
        assert_eq!(dumped_facts_sentence(&facts), None);
        facts.dumps.push("status.json".to_owned());
        assert_eq!(dumped_facts_sentence(&facts).unwrap(), "Server: a cache of 1 GiB (from status.json).");
        let folder = tempfile::tempdir().unwrap();
        let (dump, other) = (folder.path().join("status.json"), folder.path().join("other.json"));
        fs::write(&dump, "{ host: 'db1', version: '4.0.3', process: 'mongod', uptime: 5 }").unwrap();
        fs::write(&other, "{}").unwrap();
        assert!(is_dump(&dump) && !is_dump(&other) && !is_dump(folder.path()));
    }
}

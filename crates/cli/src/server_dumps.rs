//! Dumps of `serverStatus`, `hostInfo` and the like (also those of `getMongoData.js`) for facts that a recording lacks. They are named on the command line, or found
//! next to the recording by their content.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use fathom_ftdc::{ServerDump, ServerFacts};
use fathom_units::Bytes;

/// A larger file is no dump. `getMongoData.js` of a thousand collections writes some megabytes.
const MAX_BYTES: u64 = 64 << 20;
/// Binary files have a zero in their first bytes.
const HEAD_BYTES: usize = 512;
/// The endings of files that are opened without being named.
const ENDINGS: [&str; 3] = ["json", "txt", "js"];

/// Whether a file is a dump, by its content.
pub(crate) fn is_dump(path: &Path) -> bool {
    read(path).is_some()
}

fn read(path: &Path) -> Option<ServerDump> {
    let about = fs::metadata(path).ok().filter(|about| about.is_file() && about.len() <= MAX_BYTES)?;
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    (&mut file).take(HEAD_BYTES as u64).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    file.take(about.len()).read_to_end(&mut bytes).ok()?;
    ServerDump::parse(&String::from_utf8_lossy(&bytes))
}

/// Adds the facts that a recording lacks: those of the named dumps, then those of dumps in its folder and the two above it. A dump of another host
/// is not used, and one without a host is used for a single server only.
pub(crate) fn add_dumped_facts(
    facts: &mut ServerFacts,
    directory: &str,
    named: &[PathBuf],
    is_only_server: bool,
) {
    for path in named.iter().cloned().chain(files_beside(Path::new(directory))) {
        let Some(dump) = read(&path).filter(|dump| is_of(facts, &dump.facts, is_only_server)) else {
            continue;
        };
        facts.fill_from(&dump.facts);
        let name = path.display().to_string();
        if !facts.dumps.contains(&name) {
            facts.dumps.push(name);
        }
    }
}

/// Text files in the folder of a recording and in the two above it, in the order of names.
fn files_beside(directory: &Path) -> Vec<PathBuf> {
    let Ok(whole) = directory.canonicalize() else { return Vec::new() };
    let folders = [Some(whole.as_path()), whole.parent(), whole.parent().and_then(Path::parent)];
    let is_text = |path: &PathBuf| {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        ending.is_some_and(|ending| ENDINGS.iter().any(|one| ending == *one))
    };
    let listed = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_text).collect();
        paths.sort();
        paths
    };
    folders.into_iter().flatten().flat_map(listed).collect()
}

/// Whether a dump is of the recorded server.
fn is_of(recorded: &ServerFacts, dumped: &ServerFacts, is_only_server: bool) -> bool {
    if recorded.hosts.is_empty() || dumped.hosts.is_empty() {
        return is_only_server;
    }
    let is_same = |one: &String, other: &String| match (one.split_once(':'), other.split_once(':')) {
        (Some(_), Some(_)) => one == other,
        _ => one.split(':').next() == other.split(':').next(),
    };
    recorded.hosts.iter().any(|one| dumped.hosts.iter().any(|other| is_same(one, other)))
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
    fn a_dump_next_to_the_recording_fills_in_what_it_lacks_if_it_is_of_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("db/diagnostic.data");
        fs::create_dir_all(&recording).unwrap();
        let status = |host: &str, version: &str| {
            format!(
                "{{ host: '{host}', version: '{version}', process: 'mongod', uptime: 5, wiredTiger: {{ cache: {{ 'maximum bytes configured': Long('1073741824') }} }} }}"
            )
        };
        fs::write(folder.path().join("db/a.json"), status("db2:27017", "1")).unwrap();
        fs::write(folder.path().join("db/status.json"), status("db1:27017", "4.0.3")).unwrap();
        fs::write(folder.path().join("db/other.json"), "{}").unwrap();
        fs::write(folder.path().join("db/binary.json"), [0; 600]).unwrap();
        let mut facts = ServerFacts { hosts: vec!["db1".to_owned()], ..ServerFacts::default() };
        add_dumped_facts(&mut facts, &recording.display().to_string(), &[], true);
        assert_eq!(
            (facts.cache_bytes, facts.versions.as_slice()),
            (Some(1 << 30), &["4.0.3".to_owned()][..])
        );
        assert_eq!(facts.dumps.len(), 1, "{:?}", facts.dumps);
        let sentence = dumped_facts_sentence(&facts).unwrap();
        assert!(sentence.starts_with("Server: a cache of 1 GiB (from "), "{sentence}");
        assert!(
            is_dump(&folder.path().join("db/status.json")) && !is_dump(&folder.path().join("db/other.json"))
        );
    }
}

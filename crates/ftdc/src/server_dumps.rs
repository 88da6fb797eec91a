//! Dumps of servers with the names of their files, which complete the facts of a recording.

use crate::server_dump::ServerDump;
use crate::server_facts::ServerFacts;

/// The dumps that belong to some recordings, in the order in which they count.
#[derive(Clone, Debug, Default)]
pub struct ServerDumps {
    dumps: Vec<(String, ServerDump)>,
    /// Whether the recordings are of a single server, so that a dump without a host is of it.
    pub is_only_server: bool,
}

impl ServerDumps {
    /// Adds the dump in a file, unless that file is known.
    pub fn add(&mut self, file: String, dump: ServerDump) {
        if self.dumps.iter().all(|(known, _)| *known != file) {
            self.dumps.push((file, dump));
        }
    }

    /// The names of their files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.dumps.iter().map(|(file, _)| file.as_str())
    }

    /// Adds the facts that a server's recording lacks. A dump of another host is not used.
    pub fn complete(&self, facts: &mut ServerFacts) {
        for (file, dump) in &self.dumps {
            if !facts.dumps.contains(file) && dump.is_of(facts, self.is_only_server) {
                facts.fill_from(&dump.facts);
                facts.dumps.push(file.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(host: &str, memory_mib: i64) -> ServerDump {
        let hosts = [host].iter().filter(|host| !host.is_empty()).map(|host| (*host).to_owned()).collect();
        ServerDump { facts: ServerFacts { hosts, memory_mib: Some(memory_mib), ..ServerFacts::default() } }
    }

    #[test]
    fn a_dump_is_of_the_server_on_its_host_or_of_the_only_one() {
        let facts = || ServerFacts { hosts: vec!["db1:27018".to_owned()], ..ServerFacts::default() };
        let memory_of = |host: &str, is_only_server: bool| {
            let mut dumps = ServerDumps { is_only_server, ..ServerDumps::default() };
            dumps.add("a.json".to_owned(), dump(host, 7));
            dumps.add("a.json".to_owned(), dump("db1:27018", 8));
            let mut facts = facts();
            dumps.complete(&mut facts);
            assert_eq!(facts.dumps.len(), usize::from(facts.memory_mib.is_some()));
            facts.memory_mib
        };
        assert_eq!((memory_of("db1:27018", false), memory_of("db1", false)), (Some(7), Some(7)));
        assert_eq!((memory_of("db1:27017", true), memory_of("db2", true)), (None, None));
        assert_eq!((memory_of("", true), memory_of("", false)), (Some(7), None));
    }
}

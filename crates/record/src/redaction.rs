//! Removes names of a deployment from text: hosts, paths, namespaces and applications. Figures, device names and the kernel's own paths
//! stay.
//!
//! Names are taken from the run's manifest and results. Absolute paths and IPv4 addresses are also recognized by their form. A name that only
//! a line of a server's log contains is not recognized; pages do not show such lines.

use std::net::Ipv4Addr;

use crate::disk::Entry;
use crate::manifest::Manifest;

const PATH: &str = "[path]";
const NAMESPACE: &str = "[namespace]";
const HOST: &str = "[host]";
const APPLICATION: &str = "[application]";
/// The name by which this program connects.
const OWN_APPLICATION: &str = "fathom";
/// Properties and flags of a command line whose value names a namespace or a part of one.
const NAMESPACE_FLAGS: [&str; 4] = ["namespace", "table", "collection", "database"];
/// Directories of the kernel and the system, whose paths do not name the deployment.
const SYSTEM: [&str; 4] = ["/proc/", "/sys/", "/etc/", "/dev/"];
/// Control groups are named after services and containers.
const CGROUPS: &str = "/sys/fs/cgroup/";
/// The length below which a word would also match parts of unrelated text.
const MIN_WORD_LENGTH: usize = 3;

/// Names to remove, with their replacements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction {
    /// Words and their replacements, the longest first.
    words: Vec<(String, String)>,
}

impl Redaction {
    /// The redaction for runs that are shown together.
    pub fn new<'r>(runs: impl IntoIterator<Item = (&'r Manifest, &'r [Entry])>) -> Redaction {
        let mut redaction = Redaction::default();
        runs.into_iter().for_each(|(manifest, results)| redaction.names_of(manifest, results));
        redaction.words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        redaction
    }

    /// The redaction for names given one by one. Directories are left out even if they are relative.
    pub fn from_names<'n>(
        hosts: impl IntoIterator<Item = &'n str>,
        namespaces: impl IntoIterator<Item = &'n str>,
        directories: impl IntoIterator<Item = &'n str>,
    ) -> Redaction {
        let mut redaction = Redaction::default();
        hosts.into_iter().for_each(|host| redaction.host(host));
        namespaces.into_iter().for_each(|namespace| redaction.word(namespace, NAMESPACE));
        directories.into_iter().for_each(|directory| redaction.word(directory, PATH));
        redaction.words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        redaction
    }

    fn names_of(&mut self, manifest: &Manifest, results: &[Entry]) {
        for argument in &manifest.command_line {
            self.connection_string(argument);
        }
        for (name, value) in &manifest.environment {
            // `server.0` is an address, but `server.0.role` is not.
            if name.strip_prefix("server.").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit())) {
                self.host(value);
            }
        }
        for entry in results {
            match entry {
                Entry::SlowOperation(one) => self.word(&one.namespace, NAMESPACE),
                Entry::ServerWork(work) => {
                    let used = work.collections.iter().map(|used| &used.namespace);
                    let run = work.operations.iter().map(|group| &group.namespace);
                    run.chain(used).for_each(|namespace| self.word(namespace, NAMESPACE));
                    let held = work.transactions.iter();
                    held.clone()
                        .filter_map(|one| one.namespace.as_ref())
                        .for_each(|namespace| self.word(namespace, NAMESPACE));
                    let clients = work.operations.iter().map(|group| (&group.client, &group.application));
                    for (client, application) in
                        clients.chain(held.map(|one| (&one.client, &one.application)))
                    {
                        client.iter().for_each(|client| self.host(client));
                        let application = application.iter().filter(|name| *name != OWN_APPLICATION);
                        application.for_each(|name| self.word(name, APPLICATION));
                    }
                }
                Entry::Load(load) => self.connection_string(&load.server),
                _ => {}
            }
        }
        for (flag, value) in flags(&manifest.command_line) {
            if flag == "namespace" {
                self.word(value, NAMESPACE);
            }
        }
    }

    /// The hosts of a connection string, and the database after them.
    fn connection_string(&mut self, text: &str) {
        let Some((_, rest)) = text.split_once("://") else { return };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let authority = authority.split('?').next().unwrap_or(authority);
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        hosts.split(',').for_each(|host| self.host(host));
        let database = path.split('?').next().unwrap_or(path);
        if !database.is_empty() {
            let instead = format!("{}/{NAMESPACE}", self.clean(hosts));
            self.word(&format!("{hosts}/{database}"), &instead);
        }
    }

    /// A host, with and without its port.
    fn host(&mut self, address: &str) {
        let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
        let known = |(word, instead): &(String, String)| (word == name).then(|| instead.clone());
        let instead = self.words.iter().find_map(known).unwrap_or_else(|| {
            let is_host = |(word, instead): &&(String, String)| {
                instead.starts_with("[host ") && !word.contains([':', '/'])
            };
            format!("[host {}]", self.words.iter().filter(is_host).count() + 1)
        });
        self.word(address, &instead);
        self.word(name, &instead);
    }

    fn word(&mut self, word: &str, instead: &str) {
        let is_number = word.bytes().all(|b| b.is_ascii_digit());
        if word.len() >= MIN_WORD_LENGTH && !is_number && !self.words.iter().any(|(known, _)| known == word) {
            self.words.push((word.to_owned(), instead.to_owned()));
        }
    }

    /// The text without names.
    pub fn clean(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for (word, instead) in &self.words {
            clean = without_word(&clean, word, instead);
        }
        without_paths_and_addresses(&clean)
    }

    /// A command line without names. Relative paths and the values of flags that name a namespace are left out too.
    pub fn command_line(&self, words: &[String]) -> Vec<String> {
        let mut hides_next = false;
        let clean = |word: &String| {
            if std::mem::take(&mut hides_next) {
                return NAMESPACE.to_owned();
            }
            let flag = word.trim_start_matches('-');
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            // `mongodb.database` is a property, so the last part decides.
            if NAMESPACE_FLAGS.contains(&name.rsplit('.').next().unwrap_or(name)) {
                hides_next = value.is_empty() && word.starts_with('-');
                return if value.is_empty() { word.clone() } else { word.replace(value, NAMESPACE) };
            }
            match word.split_once("://") {
                // The database follows the hosts.
                Some((scheme, rest)) => {
                    let hosts = rest.split(['/', '?']).next().unwrap_or(rest);
                    self.clean(&format!("{scheme}://{hosts}"))
                }
                None if value.contains('/') => word.replace(value, PATH),
                None if word.contains('/') => PATH.to_owned(),
                None => self.clean(word),
            }
        };
        words.iter().map(clean).collect()
    }
}

/// The flags of a command line with their values.
fn flags(words: &[String]) -> impl Iterator<Item = (&str, &str)> {
    words.iter().enumerate().filter_map(|(at, word)| {
        let flag = word.strip_prefix("--")?;
        match flag.split_once('=') {
            Some(both) => Some(both),
            None => Some((flag, words.get(at + 1)?.as_str())),
        }
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn without_word(text: &str, word: &str, instead: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(word) {
        clean.push_str(before);
        let is_whole = !clean.ends_with(is_of_word) && !behind.starts_with(is_of_word);
        clean.push_str(if is_whole { instead } else { word });
        rest = behind;
    }
    clean.push_str(rest);
    clean
}

/// The text without absolute paths that are not the system's own, and without IPv4 addresses.
fn without_paths_and_addresses(text: &str) -> String {
    let is_end = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '<' | '>' | ',' | ';' | '=' | '`')
    };
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_end).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        // The end tag of an element in a drawing is not a path.
        let is_markup = clean.ends_with('<');
        clean.push_str(&if is_markup { word.to_owned() } else { without_form(word) });
        let next = behind.chars().next().map_or(0, char::len_utf8);
        clean.push_str(behind.get(..next).unwrap_or_default());
        rest = behind.get(next..).unwrap_or_default();
    }
    clean
}

/// One word, which may be a path or an address.
fn without_form(word: &str) -> String {
    let bare = word.trim_end_matches(['.', ':', '?', '!']);
    let tail = word.get(bare.len()..).unwrap_or_default();
    let begins_path = |text: &str| {
        let named = text.strip_prefix("~/").or_else(|| text.strip_prefix('/'));
        named.is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_')))
    };
    if let Some(group) = bare.strip_prefix(CGROUPS) {
        let file = group.rsplit('/').next().unwrap_or(group);
        return format!("{CGROUPS}{PATH}/{file}{tail}");
    }
    if begins_path(bare) && !SYSTEM.iter().any(|system| bare.starts_with(system)) {
        return format!("{PATH}{tail}");
    }
    let host = bare.rsplit_once(':').map_or(bare, |(host, _)| host);
    if host.parse::<Ipv4Addr>().is_ok() {
        return format!("{HOST}{tail}");
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redaction() -> Redaction {
        let words =
            "fathom explain --uri mongodb://me:***@db1.example:27018,db2/shop?w=1 --namespace shop.orders";
        let mut manifest = Manifest::new("explain", "0.1.0", words.split(' ').map(str::to_owned));
        manifest.environment.insert("server.0".to_owned(), "db1.example:27018".to_owned());
        manifest.environment.insert("server.0.role".to_owned(), "primary".to_owned());
        Redaction::new([(&manifest, &[][..])])
    }

    #[test]
    fn hosts_paths_and_namespaces_go_and_figures_stay() {
        let redaction = redaction();
        for (text, clean) in [
            ("db1.example:27018 and db2, primary", "[host 1] and [host 2], primary"),
            ("mydb1.example2 has 5,000 reads/s", "mydb1.example2 has 5,000 reads/s"),
            ("mongodb://db1.example:27018,db2/shop: run", "mongodb://[host 1],[host 2]/[namespace]: run"),
            ("Reads of shop.orders wait.", "Reads of [namespace] wait."),
            ("/data/db is on EXT4, ~/runs too.", "[path] is on EXT4, [path] too."),
            (
                "/proc/self/mountinfo: /dev/sda on /data type ext4",
                "/proc/self/mountinfo: /dev/sda on [path] type ext4",
            ),
            ("/sys/fs/cgroup/system.slice/mongod.service/io.max: 300", "/sys/fs/cgroup/[path]/io.max: 300"),
            ("from 10.0.0.7:27017 to 10.0.0.8", "from [host] to [host]"),
            ("version 4.4.29, 1/s, and/or, / 2", "version 4.4.29, 1/s, and/or, / 2"),
            ("<path d=\"M56 8\"/><text>/data</text>", "<path d=\"M56 8\"/><text>[path]</text>"),
        ] {
            assert_eq!(redaction.clean(text), clean);
        }
    }

    #[test]
    fn a_command_line_keeps_its_flags() {
        let words = [
            "fathom",
            "ycsb",
            "run",
            "-P",
            "workloads/workloada",
            "-p",
            "mongodb.url=mongodb://db1.example:27018/shop?w=1",
            "-p",
            "table=orders",
            "--namespace",
            "shop.orders",
            "--dir=/data/db",
            "-threads",
            "8",
        ];
        let clean = redaction().command_line(&words.map(str::to_owned));
        let expected = [
            "fathom",
            "ycsb",
            "run",
            "-P",
            "[path]",
            "-p",
            "mongodb.url=mongodb://[host 1]",
            "-p",
            "table=[namespace]",
            "--namespace",
            "[namespace]",
            "--dir=[path]",
            "-threads",
            "8",
        ];
        assert_eq!(clean, expected);
    }
}

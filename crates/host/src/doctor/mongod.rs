//! The running mongod: its process, its data directory and its version, as far as files show them.
//!
//! It is never queried or executed: a program named mongod may be any program, and the doctor often runs as root. Its
//! environment and command line may hold secrets, so only what the rules need is taken from them.

use std::fs;
use std::path::{Path, PathBuf};

use super::version::MongoVersion;
use crate::View;

#[derive(Clone, Debug)]
pub struct Mongod {
    pub pid: u32,
    /// Its data directory, if it could be read and is the same folder in our mount namespace.
    pub db_path: Option<PathBuf>,
    /// Its version, if a file shows it.
    pub version: Option<MongoVersion>,
}

/// A process's environment, reduced to the variable that a rule reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tunables {
    /// The environment may not be read.
    Unreadable,
    /// `GLIBC_TUNABLES` is not set.
    Unset,
    Set(String),
}

impl Mongod {
    /// Every process whose name is mongod, lowest number first.
    pub(super) fn running(view: &View) -> Vec<Mongod> {
        let mut pids: Vec<u32> = view.list("proc").iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        let is_mongod = |pid: &u32| view.value(&format!("proc/{pid}/comm")).as_deref() == Some("mongod");
        pids.into_iter().filter(is_mongod).map(|pid| Mongod::read(view, pid)).collect()
    }

    fn read(view: &View, pid: u32) -> Self {
        let line = view.text(&format!("proc/{pid}/cmdline")).unwrap_or_default();
        let arguments: Vec<&str> = line.split('\0').filter(|word| !word.is_empty()).collect();
        let same_mounts = !view.is_live() || link(view, pid, "ns/mnt") == link_of_self(view);
        let db_path = same_mounts.then(|| db_path(view, pid, &arguments)).flatten();
        Mongod { pid, db_path, version: version(view, pid, same_mounts) }
    }
}

/// `GLIBC_TUNABLES` of a process.
pub(super) fn tunables(view: &View, pid: u32) -> Tunables {
    let Some(environment) = view.text(&format!("proc/{pid}/environ")) else { return Tunables::Unreadable };
    tunables_in(&environment).map_or(Tunables::Unset, Tunables::Set)
}

/// The value of `GLIBC_TUNABLES` in an environment. Some versions of glibc (2.36 is one) end each tunable with a null where its colon was,
/// in the memory that `/proc` shows: the tunables that follow belong to it.
pub(super) fn tunables_in(environment: &str) -> Option<String> {
    let mut entries = environment.split(['\0', '\n']);
    let first = entries.find_map(|entry| entry.strip_prefix("GLIBC_TUNABLES="))?;
    let more = entries.take_while(|entry| entry.starts_with("glibc.") && entry.contains('='));
    Some(std::iter::once(first).chain(more).collect::<Vec<_>>().join(":"))
}

fn link(view: &View, pid: u32, name: &str) -> Option<PathBuf> {
    fs::read_link(view.root().join(format!("proc/{pid}/{name}"))).ok()
}

fn link_of_self(view: &View) -> Option<PathBuf> {
    fs::read_link(view.root().join("proc/self/ns/mnt")).ok()
}

/// The value of `--name value`, `--name=value` or a short form.
fn flag<'a>(arguments: &[&'a str], names: &[&str]) -> Option<&'a str> {
    arguments.iter().enumerate().find_map(|(at, argument)| match argument.split_once('=') {
        Some((name, value)) if names.contains(&name) => Some(value),
        _ if names.contains(argument) => arguments.get(at + 1).copied(),
        _ => None,
    })
}

/// From the command line, else the configuration file, else the server's own default.
fn db_path(view: &View, pid: u32, arguments: &[&str]) -> Option<PathBuf> {
    let named = flag(arguments, &["--dbpath"]).map(str::to_owned);
    let path = named.or_else(|| {
        let file = flag(arguments, &["--config", "-f"])?;
        db_path_in(&view.text(file.strip_prefix('/')?)?)
    });
    let path = PathBuf::from(path.unwrap_or_else(|| "/data/db".to_owned()));
    if path.is_absolute() {
        return Some(path);
    }
    Some(link(view, pid, "cwd")?.join(path))
}

/// `dbPath` in a YAML file, or `dbpath` in one of the older form.
fn db_path_in(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.trim().split_once([':', '='])?;
        let value = value.split(" #").next().unwrap_or("").trim().trim_matches(['"', '\'']);
        (key.trim().eq_ignore_ascii_case("dbpath") && !value.is_empty()).then(|| value.to_owned())
    })
}

/// From the program's path, the official container image's environment, or Debian's list of packages.
fn version(view: &View, pid: u32, same_mounts: bool) -> Option<MongoVersion> {
    let program = link(view, pid, "exe");
    let of_path = program.as_deref().and_then(|program| MongoVersion::within(&program.to_string_lossy()));
    let of_image = || {
        let environment = view.text(&format!("proc/{pid}/environ"))?;
        environment.split('\0').find_map(|entry| entry.strip_prefix("MONGO_VERSION="))?.parse().ok()
    };
    let of_package = || {
        let packaged = same_mounts && program.as_deref() == Some(Path::new("/usr/bin/mongod"));
        let status = packaged.then(|| view.text("var/lib/dpkg/status")).flatten()?;
        package_version(&status)
    };
    of_path.or_else(of_image).or_else(of_package)
}

fn package_version(status: &str) -> Option<MongoVersion> {
    let servers = ["mongodb-org-server", "mongodb-enterprise-server", "percona-server-mongodb-server"];
    let mut ours = false;
    for line in status.lines() {
        if let Some(package) = line.strip_prefix("Package: ") {
            ours = servers.contains(&package);
        } else if let Some(version) = line.strip_prefix("Version: ").filter(|_| ours) {
            return version.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn flags_are_found_in_both_forms() {
        assert_eq!(flag(&["mongod", "--dbpath", "/d"], &["--dbpath"]), Some("/d"));
        assert_eq!(flag(&["mongod", "--dbpath=/d"], &["--dbpath"]), Some("/d"));
        assert_eq!(flag(&["mongod", "-f", "/etc/m.conf"], &["--config", "-f"]), Some("/etc/m.conf"));
        assert_eq!(flag(&["mongod", "--dbpath"], &["--dbpath"]), None);
    }

    #[test]
    fn configuration_files_of_both_forms_are_read() {
        assert_eq!(db_path_in("storage:\n  dbPath: \"/data\" # here\n").as_deref(), Some("/data"));
        assert_eq!(db_path_in("port=1\ndbpath = /old\n").as_deref(), Some("/old"));
        assert_eq!(db_path_in("storage:\n  engine: wiredTiger\n"), None);
    }

    #[test]
    fn the_package_list_tells_the_version() {
        let status = "Package: zlib\nVersion: 1.3\n\nPackage: mongodb-org-server\nVersion: 7.0.14\n";
        assert_eq!(package_version(status), Some(MongoVersion((7, 0, 14))));
    }

    #[test]
    fn tunables_that_glibc_took_apart_are_one_value() {
        let both = "glibc.malloc.arena_max=2:glibc.pthread.rseq=0";
        let seen = "A=1\0GLIBC_TUNABLES=glibc.malloc.arena_max=2\0glibc.pthread.rseq=0\0B=glibc.x=1\0";
        assert_eq!(tunables_in(seen).as_deref(), Some(both));
        assert_eq!(tunables_in("A=1\0B=2\0"), None);
        assert_eq!(tunables_in("GLIBC_TUNABLES=").as_deref(), Some(""));
    }

    /// Tests a real process, with the C library of this machine.
    #[test]
    fn tunables_of_a_running_process_are_read_whole() {
        let both = "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=3";
        let mut command = Command::new("cat");
        command.env("GLIBC_TUNABLES", both).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The child runs once it answers; before that the environment may still be ours.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let environment = fs::read_to_string(format!("/proc/{}/environ", child.id())).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(tunables_in(&environment).as_deref(), Some(both));
    }
}

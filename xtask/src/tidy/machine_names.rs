//! Checks that no text for readers names a private machine: home folders, private hosts, package mirrors.
//!
//! Recorded data (`fixtures/`, `snapshots/`, `seeds/`) and Rust code are not checked, since they may need such names.

use super::Complaint;
use super::tree::{Tree, TreeFile};

/// Private folders; each is searched only at the start of a path.
const FOLDERS: [&str; 5] = ["/home/", "/root/", "/Users/", "/work/", "/workspace/"];

/// Top-level names that no public host has (RFC 6762 appendix G, and those in common private use).
const PRIVATE_ENDS: [&str; 8] =
    [".internal", ".intranet", ".private", ".corp", ".home", ".lan", ".local", ".svc"];

/// The source of every dependency.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| is_written(file)) {
        for (number, line) in file.lines() {
            complaints.extend(
                fault(file, line).map(|what| {
                    Complaint::new(&file.path, number, what, "write what holds on every machine")
                }),
            );
        }
    }
    complaints
}

fn is_written(file: &TreeFile) -> bool {
    let recorded = file.path.split('/').any(|part| matches!(part, "fixtures" | "snapshots" | "seeds"));
    !recorded && !file.is_rust() && file.path != super::FLOORS
}

fn fault(file: &TreeFile, line: &str) -> Option<String> {
    if file.name() == "Cargo.lock" {
        let source = line.strip_prefix("source = \"")?.trim_end_matches('"');
        return (source != REGISTRY).then(|| format!("a dependency comes from {source}"));
    }
    if file.path.starts_with(".cargo/")
        && ["[source", "[registr", "replace-with"].iter().any(|w| line.contains(w))
    {
        return Some("the package registry is replaced".to_owned());
    }
    let folder = FOLDERS.iter().find(|folder| starts_path(line, folder));
    folder.map(|folder| format!("a path under {folder} stands here")).or_else(|| private_host(line))
}

/// Returns whether `folder` occurs in `line` as the start of a path.
fn starts_path(line: &str, folder: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '~' | '_' | '-' | '}' | ')' | '*');
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(inside))
}

fn private_host(line: &str) -> Option<String> {
    let schemes = ["http://", "https://", "git://", "ssh://"];
    let hosts = schemes.iter().flat_map(|scheme| line.split(scheme).skip(1));
    let end = |c: char| {
        c.is_whitespace() || matches!(c, '/' | ':' | ')' | '"' | '\'' | '`' | '>' | '?' | '#' | ',')
    };
    let mut hosts =
        hosts.filter_map(|rest| rest.split(end).next()).map(|host| host.rsplit('@').next().unwrap_or(host));
    hosts.find(|host| is_private(host)).map(|host| format!("the host {host} stands here"))
}

fn is_private(host: &str) -> bool {
    if let Ok(address) = host.parse::<std::net::Ipv4Addr>() {
        return !(address.is_loopback() || address.is_unspecified() || address.is_documentation());
    }
    // Shell variables and placeholders are not names.
    let is_name = host.starts_with(|c: char| c.is_ascii_alphanumeric());
    let bare = !host.contains('.') && host != "localhost";
    is_name && (bare || PRIVATE_ENDS.iter().any(|end| host.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&Tree::from_texts(&[(path, text)])).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn folders_of_one_machine_are_named() {
        assert_eq!(complaints("README.md", "run it in /home/ann/db\n"), ["a path under /home/ stands here"]);
        assert_eq!(complaints("Makefile", "DIR = /root/x\n"), ["a path under /root/ stands here"]);
        let free = "~/.cache $(HOME)/home/x https://example.org/home/x sys/work/x /var/lib/mongodb\n";
        assert_eq!(complaints("README.md", free), Vec::<String>::new());
        assert_eq!(complaints("tests/fixtures/mounts", "/home/ann/db\n"), Vec::<String>::new());
    }

    #[test]
    fn private_hosts_are_named() {
        assert_eq!(complaints("a.md", "see http://mirror:8080/x\n"), ["the host mirror stands here"]);
        assert_eq!(complaints("a.md", "see https://pkg.corp.lan/x\n"), ["the host pkg.corp.lan stands here"]);
        assert_eq!(complaints("a.md", "see http://10.1.2.3/x\n"), ["the host 10.1.2.3 stands here"]);
        let free = "https://docs.rs/x http://localhost:9 http://127.0.0.1:1/ http://192.0.2.1 https://$HOST/ \
                    mongodb://db1:27017\n";
        assert_eq!(complaints("a.md", free), Vec::<String>::new());
    }

    #[test]
    fn dependencies_come_from_the_public_registry() {
        let good = format!("source = \"{REGISTRY}\"\n");
        assert_eq!(complaints("Cargo.lock", &good), Vec::<String>::new());
        let found = complaints("Cargo.lock", "source = \"registry+https://example.org/index\"\n");
        assert_eq!(found, ["a dependency comes from registry+https://example.org/index"]);
        assert_eq!(
            complaints(".cargo/config.toml", "[source.crates-io]\n"),
            ["the package registry is replaced"]
        );
    }
}

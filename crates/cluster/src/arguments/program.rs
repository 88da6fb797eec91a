//! A program that servers run, and the passed-through options that it accepts: those that its `--help` lists, in the format of
//! boost for mongod and mongos, of clap for the built-in servers.
//!
//! As in mlaunch, a server gets the options that its `--help` lists. An option that only the other kind of server knows is not
//! passed to this one; an option that newer versions dropped is left out with a note. An unknown option is refused, while mlaunch
//! drops it with a warning: a misspelt option must not silently change a measurement.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fathom_errors::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::layout::{Node, Purpose};
use crate::tls_arguments;
use crate::version::Version;

/// The maker of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Maker {
    /// A `mongod` or `mongos`.
    MongoDb,
    /// This program's own `serve` and `route`.
    Fathom,
}

/// A program that a server is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub maker: Maker,
    pub path: PathBuf,
    /// The words before the options: `serve` for the built-in server.
    pub words: Vec<String>,
    /// Its version; for the built-in server, the version that it claims.
    pub version: Version,
    /// The options that its `--help` lists, with their dashes.
    pub options: BTreeSet<String>,
}

impl Program {
    /// The title for messages, such as `mongod 4.0.3`.
    pub fn title(&self) -> String {
        match self.maker {
            Maker::Fathom => format!("fathom {}", self.words.join(" ")),
            Maker::MongoDb => {
                let name = self.path.file_name().unwrap_or_default().to_string_lossy();
                format!("{name} {}", self.version)
            }
        }
    }
}

/// Every option in a help text, with its dashes: `-f [ --config ] arg` gives `-f` and `--config`.
pub(crate) fn listed_options(help: &str) -> BTreeSet<String> {
    help.lines().map(str::trim_start).filter(|line| line.starts_with('-')).flat_map(of_line).collect()
}

fn of_line(line: &str) -> impl Iterator<Item = String> {
    // Two spaces end the option; its description may mention others.
    let options = line.split("  ").next().unwrap_or(line);
    let words = options.split([' ', ',', '[', ']', '=', '<', '(']);
    words.filter(|word| is_option(word)).map(|word| word.trim_end_matches('.').to_owned())
}

fn is_option(word: &str) -> bool {
    let name = word.trim_start_matches('-').trim_end_matches('.');
    let dashes = word.len() - word.trim_start_matches('-').len();
    (dashes == 1 && name.len() == 1 || dashes == 2 && name.len() > 1)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Options that mlaunch does not pass to config servers.
const NOT_FOR_CONFIG: [&str; 4] = ["--oplogSize", "--storageEngine", "--smallfiles", "--nojournal"];
/// Options that mongod accepts and `--help` does not list.
const UNLISTED: [&str; 1] = ["--wiredTigerEngineConfigString"];
/// The options that the cluster itself sets, and our argument that controls each.
const DECIDED: [(&str, &str); 10] = [
    ("--port", "--port of the cluster"),
    ("--dbpath", "--dir, or 'directory' of a member"),
    ("--logpath", "--dir"),
    ("--replSet", "--name"),
    ("--configdb", "--config"),
    ("--shardsvr", "--sharded"),
    ("--configsvr", "--sharded"),
    ("--fork", "nothing: servers are started in the background"),
    ("--pidfilepath", "'fathom cluster list'"),
    ("--shutdown", "'fathom cluster stop'"),
];
/// Options that were removed, and the version that removed each (MongoDB's release notes).
const GONE: [(&str, &str); 10] = [
    ("--nojournal", "6.1"),
    ("--journal", "6.1"),
    ("--smallfiles", "4.2"),
    ("--noprealloc", "4.2"),
    ("--nopreallocj", "4.2"),
    ("--nssize", "4.2"),
    ("--quota", "4.2"),
    ("--quotaFiles", "4.2"),
    ("--rest", "3.6"),
    ("--httpinterface", "3.6"),
];

/// An option with its value, as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedOption {
    /// The name with its dashes, without a value.
    pub name: String,
    words: Vec<String>,
}

impl TypedOption {
    /// Parses words: a word after an option that is no option itself is its value.
    pub fn read(words: &[String]) -> Result<Vec<TypedOption>> {
        let mut all: Vec<TypedOption> = Vec::new();
        for word in words {
            let is_option = word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err();
            match all.last_mut() {
                _ if is_option => {
                    let name = word.split('=').next().unwrap_or(word).to_owned();
                    all.push(TypedOption { name, words: vec![word.clone()] });
                }
                Some(last)
                    if last.words.len() == 1
                        && !last.name.is_empty()
                        && !last.words.iter().any(|w| w.contains('=')) =>
                {
                    last.words.push(word.clone());
                }
                _ => return Err(Error::usage(format!("'{word}' is neither an option nor the value of one"))),
            }
        }
        Ok(all)
    }

    /// Merges two lists of words: an option in the second replaces the same option in the first.
    pub fn over(before: &[String], again: &[String]) -> Result<Vec<String>> {
        let again = TypedOption::read(again)?;
        let mut all = TypedOption::read(before)?;
        all.retain(|one| one.is_repeatable() || !again.iter().any(|other| other.name == one.name));
        Ok(all.into_iter().chain(again).flat_map(|one| one.words).collect())
    }

    pub fn value(&self) -> Option<&str> {
        match self.words.as_slice() {
            [_, value] => Some(value),
            [word] => word.split_once('=').map(|(_, value)| value),
            _ => None,
        }
    }

    /// Whether it may occur several times.
    pub(super) fn is_repeatable(&self) -> bool {
        self.name == "--setParameter"
    }

    /// Refuses options that the cluster itself sets.
    pub fn check(&self) -> Result<()> {
        match DECIDED.iter().find(|(name, _)| *name == self.name) {
            Some((name, ours)) => {
                Err(Error::usage(format!("{name} is chosen for each server")).advise(format!("use {ours}")))
            }
            None => Ok(()),
        }
    }
}

/// Values of options that are secrets. They stay in memory for one start and are never written to disk.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The words to add to a command line.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().filter(|word| word.starts_with("--"))).finish()
    }
}

/// Separates the options whose value is a password from the passed-through options.
pub fn split_secrets(words: &[String]) -> Result<(Vec<String>, Secrets)> {
    let (mut open, mut secret) = (Vec::new(), Vec::new());
    for given in TypedOption::read(words)? {
        let is_secret = given.name.to_ascii_lowercase().ends_with("password");
        (if is_secret { &mut secret } else { &mut open }).extend(given.words);
    }
    Ok((open, Secrets(secret)))
}

/// A command line being written.
pub(super) struct ProgramLine {
    pub(super) words: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl ProgramLine {
    pub(super) fn switch(&mut self, name: &str) {
        self.words.push(name.to_owned());
    }

    pub(super) fn pair(&mut self, name: &str, value: impl Into<String>) {
        self.words.extend([name.to_owned(), value.into()]);
    }
}

/// Adds the options that apply to this server to its command line.
pub(super) fn keep(
    given: &[TypedOption],
    node: &Node,
    program: &Program,
    programs: &[&Program],
    line: &mut ProgramLine,
) -> Result<()> {
    for one in given {
        let name = one.name.as_str();
        if node.purpose == Purpose::Config && NOT_FOR_CONFIG.contains(&name) {
            continue;
        }
        if let Some(words) = taken_by(one, node, program) {
            line.words.extend(words);
        } else if programs.iter().any(|other| taken_by(one, node, other).is_some()) {
            // The option is for the other kind of server.
        } else if let Some((_, since)) = GONE.iter().find(|(gone, _)| *gone == name) {
            // All removed options belong to mongod.
            if node.is_mongod() {
                let title = program.title();
                line.notes.push(format!("{name} is not passed to {title}: MongoDB {since} removed it"));
            }
        } else {
            let what = format!("{} has no option {name}", program.title());
            let error = Error::usage(what).with_id("unknown-server-option");
            return Err(error.advise(format!("see {} --help", program.title())));
        }
    }
    Ok(())
}

/// The words under which a program accepts an option, if it does.
fn taken_by(one: &TypedOption, node: &Node, program: &Program) -> Option<Vec<String>> {
    let has = |name: &str| program.options.contains(name);
    let is_verbosity = one.name.len() > 2
        && one.name.starts_with("-v")
        && one.name.trim_start_matches("-v").chars().all(|c| c == 'v');
    // For the built-in programs, the list of options is complete.
    let of_mongodb = program.maker == Maker::MongoDb;
    let unlisted = of_mongodb && node.is_mongod() && UNLISTED.contains(&one.name.as_str());
    if has(&one.name) || (of_mongodb && one.is_repeatable()) || is_verbosity || unlisted {
        return Some(one.words.clone());
    }
    // TLS options may have their name in the other version.
    let (name, value) = tls_arguments::other_name(&one.name, one.value())?;
    has(&name).then(|| std::iter::once(name).chain(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_help() {
        let boost = "General options:\n  -v [ --verbose ] [=arg(=v)]           be more verbose (include multiple times \n\
                     \x20                                       for more verbosity e.g. -vvvvv)\n\
                     \x20 -f [ --config ] arg                   configuration file specifying \n\
                     \x20 --networkMessageCompressors [=arg(=disabled)] (=snappy)\n\
                     \x20 --slowms arg (=100)                   value of slow for profile and console \n\
                     \x20                                       log, see --profile\n";
        let options: Vec<String> = listed_options(boost).into_iter().collect();
        assert_eq!(options, ["--config", "--networkMessageCompressors", "--slowms", "--verbose", "-f", "-v"]);
        let clap = "Options:\n  -f, --config <FILE>  Read options\n      --dbpath <DIR>\n          made; see --journal\n  -v, --verbose...       Log more\n";
        let options: Vec<String> = listed_options(clap).into_iter().collect();
        assert_eq!(options, ["--config", "--dbpath", "--verbose", "-f", "-v"]);
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn values_belong_to_the_option_before_them() {
        let given =
            TypedOption::read(&words("--slowms 20 --quiet -f file --setParameter=a=1 --profile -1 -vvv"))
                .unwrap();
        let pairs: Vec<_> = given.iter().map(|one| (one.name.as_str(), one.value())).collect();
        assert_eq!(
            pairs,
            [
                ("--slowms", Some("20")),
                ("--quiet", None),
                ("-f", Some("file")),
                ("--setParameter", Some("a=1")),
                ("--profile", Some("-1")),
                ("-vvv", None)
            ]
        );
        assert!(TypedOption::read(&words("20 --slowms")).is_err());
        assert!(TypedOption::read(&words("--slowms=20 30")).is_err());
    }

    #[test]
    fn an_option_that_is_given_again_replaces_the_one_before() {
        let over = TypedOption::over(
            &words("--slowms 7 --quiet --setParameter a=1"),
            &words("--slowms=9 --setParameter b=2"),
        );
        assert_eq!(over.unwrap(), words("--quiet --setParameter a=1 --slowms=9 --setParameter b=2"));
    }

    #[test]
    fn what_the_cluster_decides_is_refused() {
        for name in ["--dbpath", "--fork"] {
            assert!(TypedOption::read(&words(name)).unwrap()[0].check().is_err(), "{name}");
        }
        assert!(TypedOption::read(&words("--slowms 1")).unwrap()[0].check().is_ok());
    }

    #[test]
    fn passwords_are_taken_out() {
        let (open, secrets) =
            split_secrets(&words("--slowms 1 --tlsCertificateKeyFilePassword hunter2 --quiet")).unwrap();
        assert_eq!(open, words("--slowms 1 --quiet"));
        assert_eq!(secrets.words(), words("--tlsCertificateKeyFilePassword hunter2"));
        assert!(!format!("{secrets:?}").contains("hunter2"));
    }
}

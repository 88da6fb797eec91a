//! Finds the programs of servers, on the path or at a given path, and asks each for its version and options.
//!
//! Without a `mongod` on the path, the servers are this program's own. A given folder without a `mongod` is refused, and so is a
//! program that does not print its version: this module guesses nothing.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fathom_errors::{Error, Kind, Result};

use crate::arguments::{Maker, Program, listed_options};
use crate::layout::Node;
use crate::version::Version;

/// The word for this program's own server, in place of a folder.
pub const OWN: &str = "fathom";

/// The programs of a cluster, each examined once.
#[derive(Debug)]
pub struct Programs {
    /// This program, whose `serve` and `route` are the built-in servers.
    own: PathBuf,
    found: BTreeMap<(Option<String>, bool), Program>,
}

impl Programs {
    /// None yet; `own` is this program's file.
    pub fn new(own: PathBuf) -> Programs {
        Programs { own, found: BTreeMap::new() }
    }

    /// Finds the program of each server. `binaries` is their location, unless a server has its own.
    pub fn find(&mut self, nodes: &[Node], binaries: Option<&str>) -> Result<()> {
        for node in nodes {
            let key = key(node, binaries);
            if !self.found.contains_key(&key) {
                let program = self.look(key.0.as_deref(), key.1)?;
                self.found.insert(key, program);
            }
        }
        Ok(())
    }

    /// The previously found program of a server.
    pub fn program(&self, node: &Node, binaries: Option<&str>) -> Result<&Program> {
        let missing = || Error::new(Kind::NotFound, format!("no program was found for {}", node.title()));
        self.found.get(&key(node, binaries)).ok_or_else(missing)
    }

    /// All programs that were found.
    pub fn all(&self) -> Vec<&Program> {
        self.found.values().collect()
    }

    fn look(&self, binaries: Option<&str>, is_mongod: bool) -> Result<Program> {
        let name = if is_mongod { "mongod" } else { "mongos" };
        let own = |own: &Path| {
            let word = if is_mongod { "serve" } else { "route" };
            describe(Maker::Fathom, own.to_owned(), vec![word.to_owned()])
        };
        match binaries {
            Some(OWN) => own(&self.own),
            Some(folder) => {
                let path = Path::new(folder);
                // mlaunch takes the folder; a path to the program itself is accepted as well.
                let file = if path.is_dir() { path.join(name) } else { path.with_file_name(name) };
                if !is_executable(&file) {
                    let what =
                        format!("there is no program {name} in {}", file.parent().unwrap_or(path).display());
                    return Err(Error::new(Kind::NotFound, what)
                        .with_id("no-program")
                        .advise(format!("name a folder that has one, or '{OWN}' for the built-in server")));
                }
                let file = std::path::absolute(&file).map_err(|cause| Error::io("find", &file, cause))?;
                describe(Maker::MongoDb, file, Vec::new())
            }
            // Both kinds come from one maker: a mongos needs a mongod's config servers.
            None => match (on_path("mongod"), on_path(name)) {
                (None, _) => own(&self.own),
                (Some(_), Some(file)) => describe(Maker::MongoDb, file, Vec::new()),
                (Some(mongod), None) => {
                    let what = format!("{} is on the path, but its folder has no {name}", mongod.display());
                    Err(Error::new(Kind::NotFound, what)
                        .with_id("no-program")
                        .advise(format!("install it, or use '--binarypath {OWN}'")))
                }
            },
        }
    }
}

fn key(node: &Node, binaries: Option<&str>) -> (Option<String>, bool) {
    (node.options.binaries.as_deref().or(binaries).map(str::to_owned), node.is_mongod())
}

fn describe(maker: Maker, path: PathBuf, words: Vec<String>) -> Result<Program> {
    let said = ask(&path, &words, "--version")?;
    let version = Version::find(&said).ok_or_else(|| {
        let what = format!("{} does not say its version", path.display());
        Error::new(Kind::Unsupported, what).advise("it is not a server of MongoDB")
    })?;
    let options = listed_options(&ask(&path, &words, "--help")?);
    Ok(Program { maker, path, words, version, options })
}

/// The output of a program that prints text for one option and ends.
fn ask(path: &Path, words: &[String], option: &str) -> Result<String> {
    let output = Command::new(path)
        .args(words)
        .arg(option)
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| Error::io("run", path, cause))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() || !said.trim().is_empty() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = complaint.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it printed nothing");
    let words = words.iter().map(|word| format!(" {word}")).collect::<String>();
    let what = format!("{}{words} {option} failed ({}): {line}", path.display(), output.status);
    Err(Error::new(Kind::Unsupported, what))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

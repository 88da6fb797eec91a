//! Which of several recorded servers wrote a log: by the host, the port and the process that its lines name, else by the folder that it is in.
//!
//! A log may be of a server that was not recorded. It then belongs to none, since its slow operations would stand with another server's disk.

use std::path::{Path, PathBuf};

use fathom_ftdc::ServerFacts;
use fathom_monitor::{LogOwner, LogSource, RecordedProcess};

use crate::recording::JudgedRecording;

/// A process writes its first line this long after the time that its uptime counts from, or before it, at most.
const MAX_START_DISTANCE_MS: u64 = 10_000;
/// In containers all servers have the number 1, so a smaller one says nothing against the name of a host.
const MIN_TELLING_PID: i64 = 100;

/// Logs by the server that wrote them.
#[derive(Debug, Default)]
pub struct LogAssignment {
    /// The logs of each server, in the order of the servers.
    pub of_servers: Vec<Vec<LogSource>>,
    pub unassigned: Vec<UnassignedLog>,
}

/// A log that no recorded server is known to have written.
#[derive(Debug)]
pub struct UnassignedLog {
    /// A sentence that names it and says why.
    pub why: String,
    /// The host that it is of, if its lines say that.
    pub host: Option<String>,
}

impl LogAssignment {
    /// Assigns each log to one of these servers.
    pub fn new(servers: &[JudgedRecording], logs: Vec<LogSource>) -> LogAssignment {
        let servers: Vec<LogCandidate<'_>> = servers.iter().map(LogCandidate::new).collect();
        let mut found =
            LogAssignment { of_servers: vec![Vec::new(); servers.len()], ..LogAssignment::default() };
        for log in logs {
            let folder = absolute(log.path().parent().unwrap_or(Path::new(".")));
            let owner = log.owner();
            match server_of(&servers, owner.as_ref(), &folder) {
                Ok(number) => {
                    found.of_servers.get_mut(number).into_iter().for_each(|own| own.push(log.clone()))
                }
                Err(why) => found.unassigned.push(UnassignedLog {
                    why: format!("the log {} was not read: {why}", log.path().display()),
                    host: owner.and_then(|owner| owner.host),
                }),
            }
        }
        found
    }
}

/// A server that may have written a log.
struct LogCandidate<'s> {
    facts: &'s ServerFacts,
    processes: &'s [RecordedProcess],
    directory: PathBuf,
}

/// The name of a router's process.
const ROUTER: &str = "mongos";
/// The port of a server whose name has none.
const DEFAULT_PORT: u16 = 27017;

impl<'s> LogCandidate<'s> {
    fn new(server: &'s JudgedRecording) -> LogCandidate<'s> {
        let directory = absolute(Path::new(&server.directory));
        LogCandidate { facts: &server.facts, processes: &server.processes, directory }
    }

    fn has_host(&self, owner: &LogOwner) -> bool {
        self.facts.hosts.iter().any(|host| owner.is_named(host))
    }

    /// Whether one of its processes wrote the line: its number and its start are those of the line. Hosts may be masked, ports are not.
    fn has_process(&self, owner: &LogOwner) -> bool {
        let is_same = |process: &RecordedProcess| {
            let is_in_time = match owner.is_start {
                true => owner.at_ms.abs_diff(process.started_ms) <= MAX_START_DISTANCE_MS,
                false => (process.started_ms..=process.last_ms).contains(&owner.at_ms),
            };
            owner.pid.is_none_or(|pid| pid == process.pid) && is_in_time
        };
        self.may_have_port(owner) && self.processes.iter().any(is_same)
    }

    fn may_have_port(&self, owner: &LogOwner) -> bool {
        let port = format!(":{}", owner.port);
        let has_port = |host: &String| !host.contains(':') || host.ends_with(&port);
        self.facts.hosts.is_empty() || self.facts.hosts.iter().any(has_port)
    }

    /// Whether its port is that of the line. A name without a port has the usual one.
    fn has_port(&self, owner: &LogOwner) -> bool {
        let port = |host: &String| match host.rsplit_once(':') {
            Some((_, port)) => port.parse().ok(),
            None => Some(DEFAULT_PORT),
        };
        self.facts.hosts.iter().any(|host| port(host) == Some(owner.port))
    }

    /// Whether it may be the router that wrote a line at its start, which has its port and no name. A router that ran then did not start.
    fn may_be_router(&self, owner: &LogOwner) -> bool {
        let ran = |process: &RecordedProcess| {
            let apart_ms = MAX_START_DISTANCE_MS.cast_signed();
            process.started_ms < owner.at_ms - apart_ms && owner.at_ms + apart_ms < process.last_ms
        };
        self.facts.process.as_deref() == Some(ROUTER)
            && self.may_have_port(owner)
            && !self.processes.iter().any(ran)
    }
}

/// The number of the server that wrote a log, or why it is not known.
fn server_of(
    servers: &[LogCandidate<'_>],
    owner: Option<&LogOwner>,
    folder: &Path,
) -> std::result::Result<usize, String> {
    let all: Vec<usize> = (0..servers.len()).collect();
    let those = |among: &[usize], is_one: &dyn Fn(&LogCandidate<'_>) -> bool| -> Vec<usize> {
        among.iter().copied().filter(|number| servers.get(*number).is_some_and(is_one)).collect()
    };
    let mut candidates = all;
    if let Some(owner) = owner.filter(|owner| owner.host.is_none()) {
        candidates = those(&candidates, &|server| server.may_be_router(owner));
        if candidates.is_empty() {
            return Err(format!(
                "it is of a router at port {}, and no recording here is of that router",
                owner.port
            ));
        }
        let by_port = those(&candidates, &|server| server.has_port(owner));
        if !by_port.is_empty() {
            candidates = by_port;
        }
        let by_process = those(&candidates, &|server| server.has_process(owner));
        if !by_process.is_empty() {
            candidates = by_process;
        }
    } else if let Some((owner, host)) = owner.and_then(|owner| Some((owner, owner.host.as_deref()?))) {
        let by_host = those(&candidates, &|server| server.has_host(owner));
        let is_known =
            !by_host.is_empty() || those(&candidates, &|server| server.facts.hosts.is_empty()).is_empty();
        if !by_host.is_empty() {
            candidates = by_host.clone();
        }
        let by_process = those(&candidates, &|server| server.has_process(owner));
        let is_telling = !by_host.is_empty() || !is_known || owner.pid >= Some(MIN_TELLING_PID);
        if !by_process.is_empty() && is_telling {
            candidates = by_process;
        } else if is_known && by_host.is_empty() {
            return Err(format!("it is of {host}:{}, and no recording here is of that server", owner.port));
        }
    }
    // The deepest folder that a log and a recording have in common.
    let depth =
        |number: &usize| servers.get(*number).map_or(0, |server| common_depth(&server.directory, folder));
    let deepest = candidates.iter().map(depth).max().unwrap_or(0);
    candidates.retain(|number| depth(number) == deepest);
    match candidates.as_slice() {
        [number] => Ok(*number),
        _ => Err(format!("it does not say which of {} servers wrote it", candidates.len())),
    }
}

/// A path in an archive does not exist, so its symbolic links stay.
fn absolute(path: &Path) -> PathBuf {
    let whole = path.canonicalize().or_else(|_| std::path::absolute(path));
    whole.unwrap_or_else(|_| path.to_owned())
}

/// The number of names that two paths begin with.
fn common_depth(one: &Path, other: &Path) -> usize {
    one.components().zip(other.components()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED_MS: i64 = 1_000_000;
    const PID: i64 = 4711;

    fn facts(host: &str) -> ServerFacts {
        ServerFacts { hosts: vec![host.to_owned()], ..ServerFacts::default() }
    }

    fn owner(host: &str, port: u16, pid: i64, at_ms: i64, is_start: bool) -> LogOwner {
        LogOwner { host: Some(host.to_owned()), port, pid: Some(pid), at_ms, is_start }
    }

    /// Two members on one host, and one whose name is masked.
    fn found_among(pid: i64, owner: Option<&LogOwner>, folder: &str) -> std::result::Result<usize, String> {
        let facts = [facts("db1"), facts("db1:27018"), facts("x1:27019")];
        let processes: Vec<Vec<RecordedProcess>> = (0..3)
            .map(|number| {
                let started_ms = STARTED_MS * (number + 1);
                vec![RecordedProcess { pid, started_ms, last_ms: started_ms + 500_000 }]
            })
            .collect();
        let servers: Vec<LogCandidate<'_>> = facts
            .iter()
            .zip(&processes)
            .enumerate()
            .map(|(number, (facts, processes))| {
                let directory = PathBuf::from(format!("/case.tar/m{number}/diagnostic.data"));
                LogCandidate { facts, processes, directory }
            })
            .collect();
        server_of(&servers, owner, Path::new(folder))
    }

    fn found(owner: Option<&LogOwner>, folder: &str) -> std::result::Result<usize, String> {
        found_among(PID, owner, folder)
    }

    #[test]
    fn host_and_port_decide_before_the_folder() {
        assert_eq!(found(Some(&owner("db1", 27018, 9, 0, true)), "/case.tar/m0"), Ok(1));
        assert_eq!(found(Some(&owner("db1", 27017, 9, 0, true)), "/case.tar/m2"), Ok(0));
        let other = found(Some(&owner("db9", 27017, 9, 0, true)), "/case.tar/m0").unwrap_err();
        assert_eq!(other, "it is of db9:27017, and no recording here is of that server");
    }

    #[test]
    fn a_masked_host_is_known_by_its_process_and_port() {
        let start = |port, at_ms| found(Some(&owner("db3", port, PID, at_ms, true)), "/elsewhere");
        assert_eq!(start(27019, 3 * STARTED_MS + 4000), Ok(2));
        assert!(start(27020, 3 * STARTED_MS).is_err() && start(27019, 2 * STARTED_MS).is_err());
        let rotated = |at_ms| found(Some(&owner("db3", 27019, PID, at_ms, false)), "/elsewhere");
        assert_eq!(rotated(3 * STARTED_MS + 400_000), Ok(2));
        assert!(rotated(3 * STARTED_MS + 600_000).is_err());
        // Processes in containers have the same number.
        let contained = owner("db3", 27019, 1, 3 * STARTED_MS, true);
        assert!(found_among(1, Some(&contained), "/case.tar/m2").is_err());
    }

    /// Two routers at the usual port of two hosts, and one at another port.
    fn found_router(port: u16, at_ms: i64, folder: &str) -> std::result::Result<usize, String> {
        let facts = ["r1", "r2", "r1:27021", "db1:27018"].map(|host| ServerFacts {
            process: Some(if host.starts_with('r') { ROUTER } else { "mongod" }.to_owned()),
            ..facts(host)
        });
        let processes: Vec<Vec<RecordedProcess>> = (1..=4)
            .map(|number| {
                let started_ms = STARTED_MS * number;
                vec![RecordedProcess { pid: 7, started_ms, last_ms: started_ms + 5_000_000 }]
            })
            .collect();
        let servers: Vec<LogCandidate<'_>> = (facts.iter().zip(&processes).enumerate())
            .map(|(number, (facts, processes))| {
                let directory = PathBuf::from(format!("/case.tar/m{number}/diagnostic.data"));
                LogCandidate { facts, processes, directory }
            })
            .collect();
        let owner = LogOwner { host: None, port, pid: None, at_ms, is_start: true };
        server_of(&servers, Some(&owner), Path::new(folder))
    }

    #[test]
    fn a_routers_log_is_of_the_router_that_started_then_at_its_port() {
        assert_eq!(found_router(27017, 2 * STARTED_MS + 300, "/case.tar/m0"), Ok(1));
        assert_eq!(found_router(27021, STARTED_MS, "/case.tar"), Ok(2));
        // Before both recordings: the folder decides.
        assert_eq!(found_router(27017, 0, "/case.tar/m1"), Ok(1));
        // Both routers ran then, so it is of a third one; and no router has the port of a mongod.
        for (port, at_ms) in [(27017, 3 * STARTED_MS), (27018, 4 * STARTED_MS)] {
            let other = found_router(port, at_ms, "/case.tar/m0").unwrap_err();
            assert_eq!(
                other,
                format!("it is of a router at port {port}, and no recording here is of that router")
            );
        }
    }

    #[test]
    fn a_log_that_names_no_process_is_of_the_nearest_recording() {
        assert_eq!((found(None, "/case.tar/m1"), found(None, "/case.tar/m2/logs")), (Ok(1), Ok(2)));
        let between = found(None, "/case.tar").unwrap_err();
        assert_eq!(between, "it does not say which of 3 servers wrote it");
    }
}

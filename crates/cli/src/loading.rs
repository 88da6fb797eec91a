//! Loads as part of something larger: the built-in server under each engine, or somebody's deployment, with a load and the
//! workloads A and C; and what of any load goes into a run folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bson::doc;
use fathom_errors::{Error, Kind, Result};
use fathom_load::binding::Binding;
use fathom_load::client_settings::{ClientSettings, operation_count, phase_of};
use fathom_load::core_workload::{CoreShared, CoreSource, CoreWorkload};
use fathom_load::driving::{self, Arrivals, Ended, Interval, Observer};
use fathom_load::properties::Properties;
use fathom_load::servers::Servers;
use fathom_probe::Sink;
use fathom_process::{Ledger, Signals};
use fathom_record::disk::Entry;
use fathom_record::load::{Load, LoadOperation};

use crate::lab_server::{ENGINES, LabServer};
use crate::live::Live;
use crate::output;
use crate::watched_load::{Beside, Judged};

/// YCSB's table, where nobody names another.
const TABLE: &str = "usertable";
/// Connections of these loads.
const THREADS: usize = 16;
/// What a record takes on the disk, with its journal and its checkpoints, in bytes.
const RECORD_BYTES: u64 = 4096;
/// Fewer records than this say nothing.
const FEWEST_RECORDS: u64 = 1000;
/// Above this share of their processors the loops may be what limits a load (facts/analysis.md A5).
pub(crate) const BUSY: f64 = 0.7;

/// What is loaded, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    /// Where the built-in server keeps its data.
    pub(crate) dir: PathBuf,
    /// Somebody's deployment in place of the built-in server.
    pub(crate) uri: Option<String>,
    pub(crate) quick: bool,
    pub(crate) seed: u64,
}

/// Loads each engine of the built-in server, or the deployment, and judges what was seen meanwhile into `judged`. A signal ends it
/// early without an error.
pub(crate) fn load(
    plan: &LoadPlan,
    live: &mut Live,
    signals: &Signals,
    judged: &mut Vec<Judged>,
) -> Result<()> {
    let ledger = Ledger::open()?;
    if let Some(uri) = &plan.uri {
        let database = ledger.unique_name();
        output::note(&format!("fathom: loading the database {database}, which is dropped at the end"));
        let target: fathom_client::Target = uri.parse()?;
        let url = with_database(uri, &database);
        let mut beside = Beside::start(&url, Some(plan.dir.clone()), format!("{database}.{TABLE}"), 0, live);
        let server = target.to_string();
        let loaded = load_server(plan, (&server, &url), records(plan, None), live, &mut beside, signals);
        judged.extend(beside.end(&server, live));
        // What was made goes, also where the load failed; its own failure counts first.
        let dropped = drop_database(&url, &database);
        return loaded.and(dropped);
    }
    let Some(free) = free_bytes(&plan.dir) else { return Ok(()) };
    let records = records(plan, Some(free));
    if records < FEWEST_RECORDS {
        output::note("fathom: too little room for the built-in server's data, so it is not loaded");
        return Ok(());
    }
    for (number, (engine, name)) in ENGINES.into_iter().enumerate() {
        if signals.stopped() {
            return Ok(());
        }
        let server = LabServer::start(&ledger, &plan.dir, engine)?;
        let url = format!("mongodb://127.0.0.1:{}/ycsb", server.port());
        let mut beside = Beside::start(&url, Some(plan.dir.clone()), format!("ycsb.{TABLE}"), number, live);
        let name = format!("Server on {name}");
        let loaded = load_server(plan, (&name, &url), records, live, &mut beside, signals);
        judged.extend(beside.end(&name, live));
        let stopped = server.stop();
        match loaded {
            // The signal that stopped us has stopped the server too.
            Err(_) if signals.stopped() => return Ok(()),
            // A server that died is why its load failed.
            loaded => stopped.and(loaded)?,
        }
    }
    Ok(())
}

/// How many records fit: a twentieth of the free room at most.
fn records(plan: &LoadPlan, free_bytes: Option<u64>) -> u64 {
    let wanted = if plan.quick { 20_000 } else { 200_000 };
    free_bytes.map_or(wanted, |free| wanted.min(free / 20 / RECORD_BYTES))
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(dir).ok()?;
    Some(room.f_bavail.saturating_mul(room.f_frsize))
}

/// A connection string with another database in its path. Its user stays known where they were: in the database that was there, else in
/// `admin` (the URI specification), which a driver would take the new one for.
fn with_database(uri: &str, database: &str) -> String {
    let (start, options) = uri.split_once('?').unwrap_or((uri, ""));
    let (scheme, rest) = start.split_once("://").unwrap_or(("mongodb", start));
    let (hosts, old) = rest.split_once('/').unwrap_or((rest, ""));
    let lower = options.to_lowercase();
    let has_source = lower.contains("authsource=");
    // Mechanisms other than SCRAM have sources of their own, and an SRV record may name one.
    let is_scram = lower.split('&').all(|option| {
        option.strip_prefix("authmechanism=").is_none_or(|mechanism| mechanism.starts_with("scram"))
    });
    let is_default = scheme == "mongodb" && is_scram;
    let source = match old {
        _ if has_source || !hosts.contains('@') => String::new(),
        "" if !is_default => String::new(),
        old => {
            let source = if old.is_empty() { "admin" } else { old };
            format!("{}authSource={source}", if options.is_empty() { "" } else { "&" })
        }
    };
    format!("{scheme}://{hosts}/{database}?{options}{source}")
}

/// Whether the servers of a connection string answer, and let in: asked before a probe of minutes.
///
/// # Errors
/// Of a string that cannot be, and as of servers that cannot be reached.
pub(crate) fn check_reachable(uri: &str) -> Result<()> {
    let target: fathom_client::Target = uri.parse()?;
    let connected = fathom_client::Connection::connect(&target);
    connected.map(drop).map_err(|error| {
        Error::new(Kind::NotFound, format!("the deployment to load cannot be used: {}", Error::from(error)))
            .advise("name a server that runs with --uri, or leave --uri out to load a built-in server")
    })
}

fn drop_database(url: &str, database: &str) -> Result<()> {
    let target: fathom_client::Target = url.parse()?;
    let mut connection = fathom_client::Connection::connect(&target)?;
    connection.run(database, &doc! { "dropDatabase": 1 })?;
    Ok(())
}

/// A load and the workloads A and C.
fn load_server(
    plan: &LoadPlan,
    (server, url): (&str, &str),
    records: u64,
    live: &mut Live,
    beside: &mut Beside,
    signals: &Signals,
) -> Result<()> {
    let (load_s, run_s) = if plan.quick { (2, 1) } else { (30, 15) };
    let mut records = records;
    for (name, reads, seconds) in
        [("load", None, load_s), ("workload A", Some(0.5), run_s), ("workload C", Some(1.0), run_s)]
    {
        if signals.stopped() {
            return Ok(());
        }
        let mut properties = Properties::default();
        for (name, value) in [
            ("workload", "CoreWorkload".to_owned()),
            ("mongodb.url", url.to_owned()),
            ("threadcount", THREADS.to_string()),
            ("recordcount", records.to_string()),
            ("operationcount", "0".to_owned()),
            ("maxexecutiontime", seconds.to_string()),
            ("requestdistribution", "zipfian".to_owned()),
            ("seed", plan.seed.to_string()),
            ("dotransactions", reads.is_some().to_string()),
            ("readproportion", reads.unwrap_or(1.0).to_string()),
            ("updateproportion", (1.0 - reads.unwrap_or(1.0_f64)).to_string()),
        ] {
            properties.set(name, &value, "checkup");
        }
        let ended = run_properties(&properties, &tag(server, name), live, beside, signals)?;
        if reads.is_none() {
            // Where the time was over first, there are fewer.
            records = ended.operations.max(1);
        }
        live.result(&entry(server, name, (THREADS, Arrivals::Closed), &ended))?;
        if let Some((kind, failures)) = ended.failures.first_key_value() {
            let what = format!("{} operations of {name} failed ({kind})", failures.count);
            return Err(Error::new(Kind::Io, what).because(failures.first.clone()));
        }
    }
    Ok(())
}

/// What the histograms of a load are called in the run folder.
fn tag(server: &str, workload: &str) -> String {
    let plain = |text: &str| -> String {
        text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
    };
    format!("{}.{}.", plain(server), plain(workload))
}

fn run_properties(
    properties: &Properties,
    tag: &str,
    live: &mut Live,
    beside: &mut Beside,
    signals: &Signals,
) -> Result<Ended> {
    let workload = CoreWorkload::of(properties, phase_of(properties), operation_count(properties)?)?;
    let (binding, _) = Binding::of(properties)?;
    let load_count = workload.load_count(properties)?;
    let (settings, _) = ClientSettings::of(properties, workload.phase, load_count, &binding)?;
    let servers = Servers::discover(&binding, workload.writes())?;
    let next = match workload.phase {
        fathom_load::core_workload::Phase::Load => workload.records.first,
        fathom_load::core_workload::Phase::Run => workload.records.table,
    };
    let shared = Arc::new(CoreShared::new(workload, binding, settings.retry, next));
    let source = |number: usize| CoreSource::new(&shared, settings.plan.seed, number as u64);
    let zero_ns = beside.now_ns(live);
    let mut watcher = Watcher { live, beside, signals, tag, zero_ns };
    driving::run(&settings.plan, servers.opener(), source, &mut watcher)
}

struct Watcher<'w> {
    live: &'w mut Live,
    beside: &'w mut Beside,
    signals: &'w Signals,
    tag: &'w str,
    zero_ns: u64,
}

impl Observer for Watcher<'_> {
    fn second(&mut self, interval: &Interval<'_>) {
        self.beside.second(self.live, interval, self.tag, self.zero_ns);
    }

    fn stop_asked(&mut self) -> bool {
        self.signals.stopped()
    }
}

/// What a load came to, as a result of a run; `arrivals` says how operations came to be due.
pub(crate) fn entry(
    server: &str,
    workload: &str,
    (connections, arrivals): (usize, Arrivals),
    ended: &Ended,
) -> Entry {
    let seconds = ended.elapsed.as_secs_f64();
    let by_operation = ended.metrics.iter().map(|(name, measured)| {
        let (service, response) = (&measured.succeeded.service, &measured.succeeded.response);
        let batched = measured.returned(fathom_load::measurements::Status::BatchedOk);
        LoadOperation::new(name, service.len() + batched, measured.failures(), service, response)
    });
    let share = ended.cpu.as_secs_f64() / (seconds * ended.loops as f64).max(1e-9);
    Entry::Load(Load {
        server: server.to_owned(),
        workload: workload.to_owned(),
        connections: connections as u64,
        seconds,
        operations: ended.operations,
        per_s: ended.operations as f64 / seconds.max(1e-9),
        offered_per_s: arrivals.rate_per_s(),
        by_operation: by_operation.collect(),
        client_cpu_share: share,
        client_limited: share > BUSY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_ours_and_the_user_stays_known() {
        assert_eq!(with_database("mongodb://h:1", "x"), "mongodb://h:1/x?");
        assert_eq!(with_database("mongodb://u:p@h/app?w=1", "x"), "mongodb://u:p@h/x?w=1&authSource=app");
        assert_eq!(with_database("mongodb://u:p@h/app", "x"), "mongodb://u:p@h/x?authSource=app");
        assert_eq!(
            with_database("mongodb://u:p@h", "x"),
            "mongodb://u:p@h/x?authSource=admin",
            "the default of the URI specification"
        );
        assert_eq!(with_database("mongodb://u:p@h/?w=1", "x"), "mongodb://u:p@h/x?w=1&authSource=admin");
        assert_eq!(with_database("mongodb+srv://u:p@h", "x"), "mongodb+srv://u:p@h/x?");
        let scram = "mongodb://u:p@h/?authMechanism=SCRAM-SHA-256";
        assert!(with_database(scram, "x").ends_with("SCRAM-SHA-256&authSource=admin"));
        let x509 = "mongodb://u@h/?authMechanism=MONGODB-X509";
        assert!(with_database(x509, "x").ends_with("X509"));
        assert_eq!(
            with_database("mongodb://u:p@h/?authSource=admin", "x"),
            "mongodb://u:p@h/x?authSource=admin"
        );
    }
}

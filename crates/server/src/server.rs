//! Starts and stops a server; logs warnings at the start, and keeps the process id file while it runs.
//!
//! Warnings are for settings that make the server unsafe, or make its figures differ from those of a MongoDB that is set up as its vendor advises.
//! `fathom doctor` checks far more; these are mongod's own warnings. Their ids are mongod's, so that tools that search for them find them.
//!
//! A process id file that names another process at the end is not removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bson::doc;
use fathom_client::tls::ServerTls;
use fathom_client::{LOOK_UP_TIMEOUT, host_addresses};
use fathom_errors::{Error, Kind};
use fathom_service::{ConnectionLimits, Listener, bind};
use rustix::process::{Resource, getrlimit};

use crate::background;
use crate::config::{Config, EngineName, TlsMode, TlsOptions};
use crate::diagnostics::diagnostic_recorder;
use crate::event_loops;
use crate::instance::Instance;
use crate::log::{Log, LogSeverity};
use crate::replication;
use crate::server_parameters;
use crate::storage::{DataDirectory, recount};

/// Our process id file, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes our process id to `path`.
    pub(crate) fn write(path: &Path) -> Result<PidFile, Error> {
        std::fs::write(path, text()).map_err(|error| Error::io("write the process id to", path, error))?;
        Ok(PidFile(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.0).is_ok_and(|found| found == text()) {
            // A file that cannot be removed names a process that has ended; its readers must handle that anyway.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

fn text() -> String {
    format!("{}\n", std::process::id())
}

/// The magic number of ext2 to ext4 (statfs(2)).
const EXT: i64 = 0xEF53;
/// The minimum number of open files that mongod recommends.
const MIN_OPEN_FILES: u64 = 64_000;

/// Logs all warnings that apply.
pub(crate) fn log_warnings(log: &Log, config: &Config, memory_bytes: u64) {
    let warn = |component: &str, id: i32, message: &str| log.startup_warning(component, id, message);
    let storage = &config.storage;
    if storage.engine == EngineName::WiredTiger && is_ext(&storage.db_path) {
        warn(
            "STORAGE",
            22297,
            "The XFS file system is strongly recommended with WiredTiger, and the dbPath is on ext4",
        );
    }
    if let Some(size) = storage.wired_tiger.cache_size_gb
        && storage.engine == EngineName::WiredTiger
        && size * GIB > memory_bytes_as_number(memory_bytes) * 0.8
    {
        warn("STORAGE", 22300, "The configured WiredTiger cache size is more than 80% of available RAM");
    }
    if !config.auth {
        let message = "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted";
        warn("CONTROL", 22120, message);
    }
    if rustix::process::geteuid().is_root() {
        warn("CONTROL", 22138, "You are running this process as the root user, which is not recommended");
    }
    if !is_told_where(config) {
        let message = "This server is bound to localhost. Remote systems will be unable to connect to it; --bind_ip or --bind_ip_all name other addresses";
        warn("CONTROL", 22140, message);
    }
    if let Some(limit) = open_files().filter(|limit| *limit < MIN_OPEN_FILES) {
        let message = format!(
            "Soft rlimits for open file descriptors too low: {limit}, and {MIN_OPEN_FILES} are recommended"
        );
        warn("CONTROL", 22184, &message);
    }
}

const GIB: f64 = 1_073_741_824.0;

#[expect(clippy::cast_precision_loss, reason = "a share of it is all that is asked")]
fn memory_bytes_as_number(bytes: u64) -> f64 {
    bytes as f64
}

fn is_told_where(config: &Config) -> bool {
    let net = config.parsed.get("net").and_then(|net| net.as_document());
    net.is_some_and(|net| net.contains_key("bindIp") || net.contains_key("bindIpAll"))
}

fn is_ext(path: &std::path::Path) -> bool {
    #[allow(clippy::unnecessary_cast, reason = "its type differs between architectures")]
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as i64 == EXT)
}

/// The number of files that this process may open, or `None` without a limit.
pub(crate) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    instance: Arc<Instance>,
    listener: Listener,
    threads: Vec<JoinHandle<()>>,
    /// Removed together with the server.
    _pid_file: Option<PidFile>,
}

impl Server {
    /// Starts a server; when it returns, clients may connect.
    pub fn start(config: Config) -> Result<Server, Error> {
        let log = Log::open(&config.log_options())?;
        Server::start_with(config, log)
    }

    /// Starts a server as [`Server::start`] does, with a log that only `getLog` shows: for a server inside another program.
    pub fn start_quiet(config: Config) -> Result<Server, Error> {
        let log = Log::quiet(&config.log_options());
        Server::start_with(config, log)
    }

    fn start_with(config: Config, log: Log) -> Result<Server, Error> {
        let log = Arc::new(log);
        Server::open(config, &log).inspect_err(|error| {
            let attributes = doc! { "error": error.to_string() };
            log.write(
                LogSeverity::Error,
                "CONTROL",
                20557,
                "initandlisten",
                "The server cannot start",
                attributes,
            );
        })
    }

    /// Runs the checks without effects first, then the steps that leave traces.
    fn open(mut config: Config, log: &Arc<Log>) -> Result<Server, Error> {
        server_parameters::check_start(&config)?;
        config.net.max_connections = connections_that_fit(config.net.max_connections, log);
        let tls = tls_of(&config.net.tls)?;
        let addresses_of = |host: &str| host_addresses(host, 0, LOOK_UP_TIMEOUT);
        let listeners = bind(&config.net.bind_ip, config.net.port, addresses_of)?;
        let pid_file = config.pid_file.as_deref().map(PidFile::write).transpose()?;
        let directory = match config.storage.engine {
            EngineName::Ephemeral => None,
            engine => {
                let in_set = config.replication.set_name.is_some();
                Some(DataDirectory::open(&config.storage.db_path, engine.as_str(), in_set)?)
            }
        };
        log_start(log, &config);
        log_warnings(log, &config, crate::engines::memory_bytes());
        if directory.as_ref().is_some_and(DataDirectory::was_unclean) {
            let what = "Detected unclean shutdown; the engine recovers from its journal";
            log.warning("STORAGE", 22271, "initandlisten", what, doc! {});
        }
        let engine = match crate::engines::open(&config.storage, log) {
            Ok(engine) => engine,
            Err(error) => {
                if let Some(directory) = directory {
                    directory.abandon();
                }
                return Err(error);
            }
        };
        let (instance, uncounted) =
            Instance::new(config, engine, directory, Arc::clone(log), crate::commands::registry())?;
        server_parameters::apply_start(&instance)?;
        replication::recover(&instance)?;
        if let Some(address) = listeners.first().and_then(|listener| listener.local_addr().ok()) {
            let _ = instance.port.set(address.port());
        }
        let mut threads = background::start(&instance)?;
        threads.extend(replication::start(&instance)?);
        threads.push(diagnostic_recorder::start(&instance)?);
        threads.extend(event_loops::start(&instance)?);
        let counting = count_again(&instance, uncounted);
        if instance.config.storage.rocksdb.crash_safe_counters {
            counting.into_iter().for_each(|thread| drop(thread.join()));
        } else {
            threads.extend(counting);
        }
        let net = &instance.config.net;
        let may_be_plain = net.tls.mode != TlsMode::Require;
        let limits = ConnectionLimits { max_connections: net.max_connections, may_be_plain };
        let listener = Listener::start(&instance, listeners, limits, tls)?;
        let port = doc! { "port": i32::from(instance.port.get().copied().unwrap_or(0)) };
        log.info("NETWORK", 23016, "listener", "Waiting for connections", port);
        Ok(Server { instance, listener, threads, _pid_file: pid_file })
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.instance.port.get().copied().unwrap_or(0)
    }

    /// Whether a client's `shutdown` or a storage failure has asked it to stop.
    pub fn is_stopping(&self) -> bool {
        self.instance.is_stopping()
    }

    /// Stops the server: it refuses new work, closes connections, makes a last checkpoint and releases the directory. The
    /// error tells why the server had to stop, if it had to, or what failed during the stop.
    pub fn stop(self) -> Result<(), Error> {
        let Server { instance, listener, threads, _pid_file } = self;
        instance.log.info("CONTROL", 23138, "initandlisten", "Shutting down", doc! {});
        instance.stop();
        listener.stop();
        for thread in threads {
            // A thread that panicked has no work left.
            let _ = thread.join();
        }
        instance.cursors.clear();
        if let Some(error) = instance.take_fatal() {
            leave_alone(instance);
            return Err(error);
        }
        let failed = |failure: fathom_wire::Failure| Error::new(Kind::Io, failure.message().to_owned());
        instance.catalog.flush_sizes(true).map_err(failed)?;
        instance.note_replayed()?;
        instance.engine.close()?;
        if let Some(directory) = &instance.directory {
            directory.lock().close()?;
        }
        instance.log.info("CONTROL", 20565, "initandlisten", "Now exiting", doc! {});
        Ok(())
    }

    /// Begins a new log file, as `systemLog.logRotate` says; a failure is logged.
    pub fn rotate_log(&self) {
        let log = &self.instance.log;
        if let Err(error) = log.rotate() {
            let attributes = doc! { "error": error.to_string() };
            log.warning("CONTROL", 23168, "signals", "Log rotation failed", attributes);
        }
    }

    /// Waits for a request to stop; `asked` is called several times a second.
    pub fn wait(&self, asked: &dyn Fn(Duration) -> bool) {
        while !self.is_stopping() && !asked(Duration::from_millis(100)) {}
    }
}

/// Waits, for a bounded time, until no connection's thread uses the engine, and closes it: after that the process may
/// end, but not while an engine's own threads run.
fn leave_alone(instance: Arc<Instance>) {
    let until = Instant::now() + Duration::from_secs(10);
    while Arc::strong_count(&instance) > 1 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    // An engine that has stopped itself reports that again.
    let _ = instance.engine.close();
}

/// Logs the version, the configuration and the location of the server at its start.
fn log_start(log: &Log, config: &Config) {
    let attributes = doc! {
        "pid": i64::from(std::process::id()),
        "port": i32::from(config.net.port),
        "dbPath": config.storage.db_path.display().to_string(),
        "storageEngine": config.storage.engine.as_str(),
        "fathomVersion": env!("CARGO_PKG_VERSION"),
        "claimedVersion": &config.claimed_version,
    };
    log.info("CONTROL", 4_615_611, "initandlisten", "fathom serve starting", attributes);
    let options: bson::Document = config.parsed.clone().into_iter().collect();
    let attributes = doc! { "options": options };
    log.info("CONTROL", 21951, "initandlisten", "Options set by command line", attributes);
}

/// The number of connections allowed: at most four fifths of the files that may be open, as in mongod.
fn connections_that_fit(wanted: usize, log: &Log) -> usize {
    let Some(files) = open_files() else { return wanted };
    let most = usize::try_from(files / 5 * 4).unwrap_or(usize::MAX).max(1);
    if wanted > most {
        let attributes = doc! { "files": i64::try_from(files).unwrap_or(i64::MAX), "connections": i64::try_from(most).unwrap_or(i64::MAX) };
        log.info(
            "NETWORK",
            22942,
            "initandlisten",
            "Fewer connections than --maxConns, for want of file descriptors",
            attributes,
        );
    }
    wanted.min(most)
}

/// The TLS settings for incoming connections, or `None` if it is disabled.
fn tls_of(options: &TlsOptions) -> Result<Option<Arc<rustls::ServerConfig>>, Error> {
    if options.mode == TlsMode::Disabled {
        return Ok(None);
    }
    let Some(file) = &options.certificate_key_file else {
        return Err(Error::usage("--tlsMode needs --tlsCertificateKeyFile"));
    };
    if options.allow_invalid_certificates {
        return Err(Error::new(Kind::Unsupported, "this server has no --tlsAllowInvalidCertificates")
            .advise(
                "use --tlsAllowConnectionsWithoutCertificates, or a --tlsCAFile that signed the clients",
            ));
    }
    fathom_client::tls::server_config(&ServerTls {
        certificate_key_file: file.clone(),
        ca_file: options.ca_file.clone(),
        allow_connections_without_certificates: options.allow_connections_without_certificates,
    })
    .map(Some)
}

/// Recounts collections after a crash, one after the other, while the server works.
fn count_again(
    instance: &Arc<Instance>,
    collections: Vec<Arc<crate::storage::Collection>>,
) -> Option<JoinHandle<()>> {
    if collections.is_empty() {
        return None;
    }
    let instance = Arc::clone(instance);
    let run = move || {
        for collection in collections {
            if instance.is_stopping() {
                return;
            }
            if let Err(failure) = count_one(&instance, &collection) {
                instance.log.warning(
                    "STORAGE",
                    22431,
                    "recount",
                    "a collection could not be counted",
                    doc! {
                        "namespace": collection.namespace(),
                        "error": failure.message(),
                    },
                );
            }
        }
    };
    std::thread::Builder::new().name("recount".to_owned()).spawn(run).ok()
}

/// Recounts one collection; if it was renamed meanwhile, under its new name.
fn count_one(instance: &Instance, collection: &Arc<crate::storage::Collection>) -> crate::Result<()> {
    let mut current = Arc::clone(collection);
    loop {
        recount(&*instance.engine, &current, &|| instance.is_stopping())?;
        if !current.lock().gone || instance.is_stopping() {
            return Ok(());
        }
        let same = |one: &Arc<crate::storage::Collection>| one.uuid() == current.uuid();
        match instance.catalog.all().into_iter().find(same) {
            Some(renamed) => current = renamed,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_server_unless_it_names_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pid");
        let file = PidFile::write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text());
        drop(file);
        assert!(!path.exists());
        let file = PidFile::write(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
        assert!(PidFile::write(directory.path()).is_err());
    }
}

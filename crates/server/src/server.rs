//! A server from its start to its end.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bson::doc;
use fathom_client::tls::ServerTls;
use fathom_errors::{Error, Kind};

use crate::config::{Config, EngineName, TlsMode, TlsOptions};
use crate::instance::Instance;
use crate::log::Log;
use crate::network::{Listener, bind};
use crate::storage::{DataDirectory, background, recount};

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    instance: Arc<Instance>,
    listener: Listener,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts a server; when it returns, clients may connect.
    pub fn start(config: Config) -> Result<Server, Error> {
        let log = Log::open(config.log_path.as_deref(), config.log_append)?;
        Server::start_with(config, log)
    }

    /// As [`Server::start`], with a log that only `getLog` shows: for a server inside another program.
    pub fn start_quiet(config: Config) -> Result<Server, Error> {
        Server::start_with(config, Log::quiet())
    }

    fn start_with(config: Config, log: Log) -> Result<Server, Error> {
        let log = Arc::new(log);
        let tls = tls_of(&config.net.tls)?;
        let listeners = bind(&config.net)?;
        let directory = match config.storage.engine {
            EngineName::Ephemeral => None,
            engine => Some(DataDirectory::open(&config.storage.db_path, engine.as_str())?),
        };
        log.info(
            "CONTROL",
            4_615_611,
            "initandlisten",
            "fathom serve starting",
            doc! {
                "pid": std::process::id(),
                "dbPath": config.storage.db_path.display().to_string(),
                "storageEngine": config.storage.engine.as_str(),
                "version": env!("CARGO_PKG_VERSION"),
            },
        );
        let engine = crate::engines::open(&config.storage, &log)?;
        let (instance, uncounted) = Instance::new(config, engine, directory, log)?;
        if let Some(address) = listeners.first().and_then(|listener| listener.local_addr().ok()) {
            let _ = instance.port.set(address.port());
        }
        let mut threads = background::start(&instance)?;
        threads.extend(count_again(&instance, uncounted));
        let listener = Listener::start(&instance, listeners, tls)?;
        instance.log.info(
            "NETWORK",
            23016,
            "listener",
            "Waiting for connections",
            doc! {
                "port": i32::from(instance.port.get().copied().unwrap_or(0)),
            },
        );
        Ok(Server { instance, listener, threads })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.instance.port.get().copied().unwrap_or(0)
    }

    /// Whether a client's `shutdown` or a failure of the storage asked it to stop.
    pub fn is_stopping(&self) -> bool {
        self.instance.is_stopping()
    }

    /// Stops: no new work, connections end, a last checkpoint, the directory is given back. The error says why the server
    /// had to stop, if it had to, or what failed in stopping.
    pub fn stop(self) -> Result<(), Error> {
        let Server { instance, listener, threads } = self;
        instance.log.info("CONTROL", 23138, "initandlisten", "Shutting down", doc! {});
        instance.stop();
        listener.stop();
        for thread in threads {
            // A thread that panicked has nothing more to do.
            let _ = thread.join();
        }
        instance.cursors.clear();
        if let Some(error) = instance.take_fatal() {
            return Err(error);
        }
        let failed = |failure: fathom_wire::Failure| Error::new(Kind::Io, failure.message().to_owned());
        instance.catalog.flush_sizes(true).map_err(failed)?;
        instance.engine.close()?;
        if let Some(directory) = &instance.directory {
            directory.lock().close()?;
        }
        instance.log.info("CONTROL", 20565, "initandlisten", "Now exiting", doc! {});
        Ok(())
    }

    /// Begins a new log file, as `systemLog.logRotate` says; a failure is logged.
    pub fn rotate_log(&self) {
        if let Err(error) = self.instance.log.reopen() {
            let attributes = doc! { "error": error.to_string() };
            self.instance.log.warning(
                "CONTROL",
                23168,
                "signalProcessingThread",
                "Log rotation failed",
                attributes,
            );
        }
    }

    /// Waits until somebody asks it to stop: `asked` is looked at several times a second.
    pub fn wait(&self, asked: &dyn Fn(Duration) -> bool) {
        while !self.is_stopping() && !asked(Duration::from_millis(100)) {}
    }
}

/// The TLS that connections are met with; none where it is disabled.
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

/// Counts collections again after a crash, one after the other, while the server works.
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
            if let Err(failure) = recount(&*instance.engine, &collection) {
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

//! The server of a connection: the only one, the primary, a member that may be read, or the routers in turn.
//!
//! It is determined at the start and again when a connection fails or a server reports that it is no longer the primary. Each
//! connection uses one server, so a mix of reads from secondaries and of writes is refused rather than sent to the wrong
//! server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_client::{
    Address, Connection, ConnectionParts, Deployment, DeploymentKind, ReadMode, ReadPreference, Target,
};
use fathom_errors::{Error, Kind};
use parking_lot::Mutex;

use crate::binding::Binding;

/// The least time between two queries for the servers: many connections fail at once, and one query serves all of them.
const MIN_QUERY_INTERVAL: Duration = Duration::from_millis(250);
/// The time limit for finding the servers, if the connection string's own is longer: a run that cannot begin reports so within 5 s.
/// Later connections use the connection string's own limit, since an existing server may stall for seconds.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(4);

/// The servers behind a connection string.
#[derive(Clone, Debug)]
pub struct TargetServers {
    known: Arc<Mutex<KnownDeployment>>,
    /// Held by the thread that asks the servers for their roles.
    asking: Arc<Mutex<()>>,
    /// The time limit for a connection after the discovery.
    connect_timeout: Duration,
    /// The read preference: a workload of reads alone may use other members than the primary.
    reads: Option<ReadPreference>,
}

#[derive(Debug)]
struct KnownDeployment {
    deployment: Deployment,
    asked: Instant,
}

impl TargetServers {
    /// Finds the servers; `writes` tells whether anything but reads will be sent.
    ///
    /// # Errors
    /// An error of one sentence if no server answers or accepts the login, or if a mix needs two servers for one connection.
    pub fn discover(binding: &Binding, writes: bool) -> Result<TargetServers, Error> {
        let mut target = binding.target.clone();
        let connect_timeout = target.connect_timeout;
        target.connect_timeout = connect_timeout.min(DISCOVERY_TIMEOUT);
        let preference = ReadPreference::new(&target)?;
        let deployment = Deployment::discover(&target)?;
        let elsewhere = preference.mode != ReadMode::Primary;
        let is_set = matches!(deployment.kind(), DeploymentKind::ReplicaSet { .. });
        if elsewhere && is_set && writes {
            let what = "only a run without writes can have a read preference other than primary: writes need the primary";
            return Err(Error::new(Kind::Unsupported, what)
                .advise("run reads and writes as two commands, side by side"));
        }
        let reads = Some(preference).filter(|_| elsewhere && !writes);
        let known = Arc::new(Mutex::new(KnownDeployment { deployment, asked: Instant::now() }));
        let servers = TargetServers { known, asking: Arc::default(), connect_timeout, reads };
        servers.addresses()?;
        Ok(servers)
    }

    /// The addresses that may be connected to now; never empty.
    fn addresses(&self) -> Result<Vec<Address>, Error> {
        let known = self.known.lock();
        match &self.reads {
            Some(preference) => known.deployment.readable(preference),
            None => known.deployment.writable(),
        }
    }

    /// Connects to the server whose turn it is.
    ///
    /// # Errors
    /// If the connection fails; the next attempt uses the servers' latest answers.
    pub fn connect(&self, number: usize) -> Result<Connection, Error> {
        self.try_connect(number).inspect_err(|_| self.ask_again())
    }

    /// A function that connects as [`TargetServers::connect`] does, and returns the parts of the connection for event loops.
    pub fn opener(&self) -> impl Fn(usize) -> Result<ConnectionParts, Error> + Send + Sync + use<> {
        let servers = self.clone();
        move |number| Ok(servers.connect(number)?.into_parts()?)
    }

    /// The target of connections after the discovery.
    fn target(&self) -> Target {
        let mut target = self.known.lock().deployment.target().clone();
        target.connect_timeout = self.connect_timeout;
        target
    }

    fn try_connect(&self, number: usize) -> Result<Connection, Error> {
        let addresses = self.addresses()?;
        let address = addresses.get(number % addresses.len().max(1));
        let address =
            address.ok_or_else(|| Error::new(Kind::NotFound, "there is no server to connect to"))?;
        let target = self.target();
        let connection = Connection::open(address, &target)?;
        let is_set = target.replica_set.is_some() && !target.direct_connection;
        if is_set && self.reads.is_none() && !connection.is_writable_primary() {
            return Err(Error::new(Kind::NotFound, format!("{address} is not the primary any more")));
        }
        Ok(connection)
    }

    /// Asks the servers for their roles. Only one thread does so at a time, and the others do not wait for it: a server that does
    /// not answer takes long.
    fn ask_again(&self) {
        let Some(_asking) = self.asking.try_lock() else { return };
        let known = self.known.lock();
        if known.asked.elapsed() < MIN_QUERY_INTERVAL {
            return;
        }
        let mut deployment = known.deployment.clone();
        drop(known);
        let found = deployment.rediscover();
        let mut known = self.known.lock();
        // If no server answers, the known primary remains, and the next failure asks again.
        if found.is_ok() {
            known.deployment = deployment;
        }
        known.asked = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use fathom_testkit::{NullResponder, assert_eq, test};

    use super::*;
    use crate::properties::Properties;

    #[test]
    fn only_the_discovery_is_cut_short() {
        let responder = NullResponder::start(&rawdoc! { "_id": 1 }).unwrap();
        for (option, expected_s) in [("", 10), ("connectTimeoutMS=60000", 60), ("connectTimeoutMS=2000", 2)] {
            let mut properties = Properties::default();
            let url = format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb?{option}", responder.port());
            properties.add_flag(&url).unwrap();
            let (binding, _) = Binding::from_properties(&properties).unwrap();
            let servers = TargetServers::discover(&binding, true).unwrap();
            assert_eq!(servers.target().connect_timeout, Duration::from_secs(expected_s), "{option}");
            let discovery = servers.known.lock().deployment.target().connect_timeout;
            assert_eq!(discovery, Duration::from_secs(expected_s.min(4)), "{option}");
            servers.connect(0).unwrap();
        }
    }
}

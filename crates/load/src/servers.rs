//! Which server a connection goes to: the one there is, the primary, a member that may be read, or the routers in turn.
//!
//! It is found out at the start and again when a connection fails or a server says that it is not the primary any more. Each
//! connection goes to one server, so that a mix of reads from secondaries and of writes is refused rather than sent to the wrong
//! one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_client::{
    Address, Connection, Deployment, DeploymentKind, Parts, ReadMode, ReadPreference, Target,
};
use fathom_errors::{Error, Kind};
use parking_lot::Mutex;

use crate::binding::Binding;

/// Many connections fail at once; the servers are asked once for all of them.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// The time limit for finding the servers, where the connection string's own is longer: a run that cannot begin says so within 5 s.
/// Later connections have the connection string's own limit, since a server that is there may stand still for seconds.
const MAX_DISCOVERY_TIME: Duration = Duration::from_secs(4);

/// The servers behind a connection string.
#[derive(Clone, Debug)]
pub struct Servers {
    known: Arc<Mutex<Known>>,
    /// Held by the thread that asks the servers for their roles.
    asking: Arc<Mutex<()>>,
    /// The time limit for a connection after the discovery.
    connect_timeout: Duration,
    /// Reads alone may go elsewhere than to the primary.
    reads: Option<ReadPreference>,
}

#[derive(Debug)]
struct Known {
    deployment: Deployment,
    asked: Instant,
}

impl Servers {
    /// Finds out what is there; `writes` tells whether anything but reads will be sent.
    ///
    /// # Errors
    /// Where no server answers or lets us in, in one sentence; and a mix that needs two servers for one connection.
    pub fn discover(binding: &Binding, writes: bool) -> Result<Servers, Error> {
        let mut target = binding.target.clone();
        let connect_timeout = target.connect_timeout;
        target.connect_timeout = connect_timeout.min(MAX_DISCOVERY_TIME);
        let preference = ReadPreference::of(&target)?;
        let deployment = Deployment::discover(&target)?;
        let elsewhere = preference.mode != ReadMode::Primary;
        let is_set = matches!(deployment.kind(), DeploymentKind::ReplicaSet { .. });
        if elsewhere && is_set && writes {
            let what =
                "a read preference other than primary goes with runs that only read: writes need the primary";
            return Err(Error::new(Kind::Unsupported, what)
                .advise("run reads and writes as two commands, side by side"));
        }
        let reads = Some(preference).filter(|_| elsewhere && !writes);
        let known = Arc::new(Mutex::new(Known { deployment, asked: Instant::now() }));
        let servers = Servers { known, asking: Arc::default(), connect_timeout, reads };
        servers.addresses()?;
        Ok(servers)
    }

    /// Who may be connected to now. Never empty.
    fn addresses(&self) -> Result<Vec<Address>, Error> {
        let known = self.known.lock();
        match &self.reads {
            Some(preference) => known.deployment.readable(preference),
            None => known.deployment.writable(),
        }
    }

    /// A connection to the server whose turn it is.
    ///
    /// # Errors
    /// Where it cannot be made; the next one is tried with what the servers say then.
    pub fn connect(&self, number: usize) -> Result<Connection, Error> {
        self.try_connect(number).inspect_err(|_| self.ask_again())
    }

    /// Makes the connections of event loops as [`Servers::connect`] does, taken apart.
    pub fn opener(&self) -> impl Fn(usize) -> Result<Parts, Error> + Send + Sync + use<> {
        let servers = self.clone();
        move |number| Ok(servers.connect(number)?.into_parts()?)
    }

    /// What connections are made with after the discovery.
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

    /// Asks the servers for their roles. Only one thread does so at a time, and none waits for it: one server that does not answer
    /// takes long.
    fn ask_again(&self) {
        let Some(_asking) = self.asking.try_lock() else { return };
        let known = self.known.lock();
        if known.asked.elapsed() < ASK_AGAIN {
            return;
        }
        let mut deployment = known.deployment.clone();
        drop(known);
        let found = deployment.rediscover();
        let mut known = self.known.lock();
        // Where no server answers, what was known remains, and the next failure asks again.
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
            let (binding, _) = Binding::of(&properties).unwrap();
            let servers = Servers::discover(&binding, true).unwrap();
            assert_eq!(servers.target().connect_timeout, Duration::from_secs(expected_s), "{option}");
            servers.connect(0).unwrap();
        }
    }
}

//! Whom to connect to and how: what a connection string says, in the words of its options.

use std::fmt;
use std::time::Duration;

use fathom_errors::Result;
use fathom_wire::Compressor;
use fathom_wire::scram::Mechanism;

use crate::seed_list::SeedList;
use crate::tls::ClientTls;
use crate::{Address, NameService};

/// What to connect to. Made from a connection string (`"mongodb://...".parse()`) or from [`Target::at`].
#[derive(Clone)]
pub struct Target {
    /// The servers to try, in this order; none before [`Target::resolve`] if there is a seed list.
    pub addresses: Vec<Address>,
    /// `mongodb+srv://`: the name under which the name service lists the servers.
    pub seed_list: Option<SeedList>,
    /// The database in the path, `defaultauthdb`.
    pub database: Option<String>,
    /// Who to be.
    pub credential: Option<Credential>,
    /// `tls` and what belongs to it; plain text without.
    pub tls: Option<ClientTls>,
    /// `compressors`, the preferred one first.
    pub compressors: Vec<Compressor>,
    /// `replicaSet`: only members of that set will do, and of several addresses only the primary's.
    pub replica_set: Option<String>,
    /// `directConnection=true`: this one server only, whatever else belongs to it.
    pub direct_connection: bool,
    /// `appName`.
    pub app_name: Option<String>,
    /// `connectTimeoutMS`: for the connection and for each message until it is ready.
    pub connect_timeout: Duration,
    /// `socketTimeoutMS`: how long a reply may take; for ever without.
    pub socket_timeout: Option<Duration>,
    /// Options that do not concern a connection, with their values: for whoever needs them, or to be warned about.
    pub other_options: Vec<(String, String)>,
}

impl Target {
    /// A server without more ado.
    pub fn at(address: Address) -> Target {
        Target {
            addresses: vec![address],
            seed_list: None,
            database: None,
            credential: None,
            tls: None,
            compressors: Vec::new(),
            replica_set: None,
            direct_connection: false,
            app_name: None,
            // The drivers' default.
            connect_timeout: Duration::from_secs(10),
            socket_timeout: None,
            other_options: Vec::new(),
        }
    }

    /// The same target with the servers that the system's name service lists for it; nothing is asked without a seed list.
    /// Must not be called from within an asynchronous runtime.
    pub fn resolve(&self) -> Result<Target> {
        self.resolve_by(&NameService::system())
    }

    /// [`Target::resolve`] by another name service.
    pub fn resolve_by(&self, names: &NameService) -> Result<Target> {
        match &self.seed_list {
            Some(seeds) => seeds.settle(self, names.look_up(seeds, self.connect_timeout)?),
            None => Ok(self.clone()),
        }
    }

    /// The value of an option that does not concern a connection, such as `w`; names are compared without case.
    pub fn other_option(&self, name: &str) -> Option<&str> {
        let (_, value) = self.other_options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The names of the options that a connection makes no use of.
    pub fn unused_options(&self) -> impl Iterator<Item = &str> {
        self.other_options.iter().map(|(name, _)| name.as_str())
    }
}

/// Values of options that we do not know may be secrets: only their names are shown.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("addresses", &self.addresses)
            .field("seed_list", &self.seed_list)
            .field("database", &self.database)
            .field("credential", &self.credential)
            .field("tls", &self.tls)
            .field("compressors", &self.compressors)
            .field("replica_set", &self.replica_set)
            .field("direct_connection", &self.direct_connection)
            .field("app_name", &self.app_name)
            .field("connect_timeout", &self.connect_timeout)
            .field("socket_timeout", &self.socket_timeout)
            .field("other_options", &self.unused_options().collect::<Vec<_>>())
            .finish()
    }
}

/// The connection string without its secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.seed_list {
            Some(seeds) => write!(f, "mongodb+srv://{}", seeds.host())?,
            None => f.write_str("mongodb://")?,
        }
        for (at, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
        }
        self.database.iter().try_for_each(|database| write!(f, "/{database}"))
    }
}

/// A user, the password, and where the user is known.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// `authSource`: the database that holds the user.
    pub source: String,
    /// `authMechanism`; the strongest that the server has for the user if `None`.
    pub mechanism: Option<Mechanism>,
}

/// The password stays out of logs.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("user", &self.user)
            .field("source", &self.source)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

//! Whom to connect to and how: what a connection string says, in the words of its options.

use std::fmt;
use std::time::Duration;

use fathom_wire::Compressor;
use fathom_wire::scram::Mechanism;

use crate::Address;
use crate::tls::ClientTls;

/// What to connect to. Made from a connection string (`"mongodb://...".parse()`) or from [`Target::at`].
#[derive(Clone)]
pub struct Target {
    /// The servers to try, in this order.
    pub addresses: Vec<Address>,
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
            database: None,
            credential: None,
            tls: None,
            compressors: Vec::new(),
            replica_set: None,
            app_name: None,
            // The drivers' default.
            connect_timeout: Duration::from_secs(10),
            socket_timeout: None,
            other_options: Vec::new(),
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
            .field("database", &self.database)
            .field("credential", &self.credential)
            .field("tls", &self.tls)
            .field("compressors", &self.compressors)
            .field("replica_set", &self.replica_set)
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
        f.write_str("mongodb://")?;
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

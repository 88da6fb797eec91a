//! Connects to the servers: by the cluster's host name, at their own ports, as the user that the key file authenticates.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bson::{Document, RawDocument};
use fathom_client::{Address, Connection, Credential, Role, Target};
use fathom_errors::{Error, Kind, Result};
use fathom_wire::scram::Mechanism;

use crate::layout::Node;
use crate::topology::Topology;

/// The time limit for a server's reply to hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit for a command that waits for other members.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The way to connect to the servers of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    host: String,
    plain: Target,
    /// The internal user of the members, authenticated by the key file.
    member: Option<Credential>,
}

impl Contact {
    /// The contact for a cluster; takes its key file, if clients must log in.
    pub(crate) fn new(topology: &Topology, key_file: Option<&Path>) -> Result<Contact> {
        let mut plain = Target::at(Address::new(topology.host.clone(), 0));
        plain.tls = topology.tls.client();
        plain.app_name = Some("fathom cluster".to_owned());
        plain.connect_timeout = HELLO_TIMEOUT;
        plain.socket_timeout = Some(COMMAND_TIMEOUT);
        let member = match key_file {
            None => None,
            Some(path) => {
                let text =
                    fs::read_to_string(path).map_err(|cause| Error::io("read the key file", path, cause))?;
                Some(Credential {
                    user: "__system".to_owned(),
                    password: text.chars().filter(|one| !one.is_whitespace()).collect(),
                    source: "local".to_owned(),
                    mechanism: Some(Mechanism::Sha256),
                })
            }
        };
        Ok(Contact { host: topology.host.clone(), plain, member })
    }

    /// A server's reply to hello, without logging in.
    pub(crate) fn hello(&self, node: &Node) -> fathom_client::Result<Hello> {
        let connection = Connection::open(&self.address(node), &self.plain)?;
        Ok(Hello::from_reply(connection.hello()))
    }

    /// The replies of servers to hello, all asked at once; `None` for those that do not answer.
    pub(crate) fn hellos(&self, nodes: &[&Node]) -> Vec<Option<Hello>> {
        thread::scope(|scope| {
            let asked: Vec<_> = nodes.iter().map(|node| scope.spawn(|| self.hello(node).ok())).collect();
            asked.into_iter().map(|one| one.join().ok().flatten()).collect()
        })
    }

    /// A connection for commands: as a member of the cluster, or without a user if none is known yet.
    pub(crate) fn connect(&self, node: &Node) -> fathom_client::Result<Connection> {
        let address = self.address(node);
        if let Some(member) = &self.member {
            let target = Target { credential: Some(member.clone()), ..self.plain.clone() };
            match Connection::open(&address, &target) {
                Err(fathom_client::Error::Server(_)) => {}
                other => return other,
            }
        }
        Connection::open(&address, &self.plain)
    }

    /// Runs a command on `database` of a server.
    pub(crate) fn run(
        &self,
        node: &Node,
        database: &str,
        command: &Document,
    ) -> fathom_client::Result<Document> {
        let reply = self.connect(node)?.run(database, command)?;
        let unreadable = |cause| Error::new(Kind::Malformed, "a reply cannot be read").because(cause);
        Ok(Document::try_from(&*reply).map_err(unreadable)?)
    }

    /// As `run`, on the database `admin`.
    pub(crate) fn admin(&self, node: &Node, command: &Document) -> fathom_client::Result<Document> {
        self.run(node, "admin", command)
    }

    fn address(&self, node: &Node) -> Address {
        Address::new(self.host.clone(), node.own_port)
    }
}

/// The relevant fields of a reply to hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) role: Role,
    pub(crate) set: Option<String>,
    /// Whether it has its intended role: primary, secondary (hidden or not), arbiter.
    pub(crate) has_settled: bool,
}

impl Hello {
    fn from_reply(reply: &RawDocument) -> Hello {
        let role = Role::from_hello(reply);
        let is_secondary = reply.get_bool("secondary").unwrap_or(false);
        let has_settled = is_secondary || matches!(role, Role::Primary | Role::Secondary | Role::Arbiter);
        Hello { role, set: reply.get_str("setName").ok().map(str::to_owned), has_settled }
    }
}

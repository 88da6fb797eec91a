//! A shard's connection to the config servers, which is reopened after a failure.

use bson::{Bson, Document, doc};
use fathom_client::{AddressList, Connection, Deployment, Error, Target};
use fathom_query::{Code, Failure};
use fathom_sharding::{Chunk, CollectionEntry, RoutingTable};
use parking_lot::Mutex;
use std::time::Duration;

use crate::Result;

/// The time limit for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of rereads of a collection whose chunks are changing, and the pause before each.
const MAX_REREADS: u32 = 20;
const REREAD_PAUSE: Duration = Duration::from_millis(25);

/// The servers that store the cluster's metadata.
#[derive(Debug)]
pub(crate) struct ConfigServers {
    hosts: AddressList,
    connection: Mutex<Option<Connection>>,
}

/// The cluster and the shard that a server belongs to.
#[derive(Debug)]
pub(crate) struct ShardIdentity {
    pub(crate) shard: String,
    pub(crate) cluster: bson::oid::ObjectId,
    pub(crate) config: ConfigServers,
}

/// Connects to that server of a list which accepts writes.
pub(crate) fn connect(hosts: &AddressList) -> Result<Connection, Error> {
    let mut target = Target { connect_timeout: Duration::from_secs(5), ..hosts.target() };
    target.socket_timeout = Some(ANSWER_TIMEOUT);
    if hosts.set.is_none() {
        return Connection::connect(&target);
    }
    let deployment = Deployment::discover(&target)?;
    let address = deployment.writable()?.into_iter().next();
    let address =
        address.ok_or_else(|| fathom_errors::Error::new(fathom_errors::Kind::NotFound, "no primary"))?;
    Connection::open(&address, deployment.target())
}

/// The client's error for a server that cannot be reached.
pub(crate) fn unreachable(whom: &str, error: &Error) -> Failure {
    match error {
        Error::Server(failure) => failure.clone(),
        Error::Network(error) => {
            Failure::new(Code::HostUnreachable, format!("{whom} cannot be reached: {error}"))
        }
    }
}

/// Reads again if the result mixes two moments: a chunk was moved or split between one document and the next.
fn read_until_consistent<T>(mut read: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..MAX_REREADS {
        match read() {
            Err(failure) if failure.code() == Code::ConflictingOperationInProgress => {
                std::thread::sleep(REREAD_PAUSE);
            }
            result => return result,
        }
    }
    read()
}

impl ConfigServers {
    pub(crate) fn new(hosts: AddressList) -> ConfigServers {
        ConfigServers { hosts, connection: Mutex::default() }
    }

    pub(crate) fn hosts(&self) -> &AddressList {
        &self.hosts
    }

    /// Runs a task on the connection; once more on a new connection if the old one was broken and `again` allows it.
    fn run<T>(&self, again: bool, work: impl Fn(&mut Connection) -> Result<T, Error>) -> Result<T> {
        let mut held = self.connection.lock();
        let mut attempt = 0;
        loop {
            let fresh = held.is_none();
            let mut connection = match held.take() {
                Some(connection) => connection,
                None => connect(&self.hosts).map_err(|error| unreachable("the config servers", &error))?,
            };
            attempt += 1;
            match work(&mut connection) {
                Ok(value) => {
                    *held = Some(connection);
                    return Ok(value);
                }
                Err(error) => {
                    let moved = error.failure().is_some_and(|failure| {
                        [Code::NotWritablePrimary, Code::PrimarySteppedDown, Code::NotPrimaryOrSecondary]
                            .contains(&failure.code())
                    });
                    if !error.is_network() && !moved {
                        *held = Some(connection);
                    }
                    if attempt < 3 && (moved || (error.is_network() && again && (!fresh || attempt < 2))) {
                        continue;
                    }
                    return Err(unreachable("the config servers", &error));
                }
            }
        }
    }

    fn find(&self, collection: &str, filter: &Document) -> Result<Vec<Document>> {
        self.run(true, |connection| {
            let command = doc! { "find": collection, "filter": filter.clone() };
            let found = connection.cursor("config", &command)?;
            found
                .map(|document| {
                    let document = document?;
                    Document::try_from(&*document).map_err(|error| {
                        let what = format!("a document of the config servers is not BSON: {error}");
                        fathom_errors::Error::new(fathom_errors::Kind::Malformed, what).into()
                    })
                })
                .collect()
        })
    }

    /// The owners of a collection's chunks, or `None` if it is not sharded.
    pub(crate) fn table(&self, namespace: &str) -> Result<Option<RoutingTable>> {
        read_until_consistent(|| {
            let found = self.find("collections", &doc! { "_id": namespace })?;
            let Some(entry) = found.first().map(CollectionEntry::parse).transpose()?.flatten() else {
                return Ok(None);
            };
            let epoch = entry.epoch;
            let documents = self.find("chunks", &doc! { "ns": namespace })?;
            let chunks = documents.iter().map(|chunk| Chunk::parse(chunk, epoch)).collect::<Result<_>>()?;
            RoutingTable::new(entry, chunks).map(Some)
        })
    }

    /// A document of `config.databases`.
    pub(crate) fn database(&self, name: &str) -> Result<Option<Document>> {
        Ok(self.find("databases", &doc! { "_id": name })?.into_iter().next())
    }

    /// A document of `config.chunks`, found by the first key of the chunk.
    pub(crate) fn chunk(&self, namespace: &str, min: &Document) -> Result<Option<Document>> {
        Ok(self.find("chunks", &doc! { "ns": namespace, "min": min.clone() })?.into_iter().next())
    }

    /// Changes one document with majority write concern; returns the number of matches. After an error the change may or may not have been made.
    pub(crate) fn update(
        &self,
        collection: &str,
        filter: Document,
        change: Document,
        upsert: bool,
    ) -> Result<i64> {
        let update = doc! { "q": filter, "u": change, "upsert": upsert };
        let command = doc! {
            "update": collection, "updates": [update], "writeConcern": { "w": "majority" },
        };
        self.run(false, |connection| {
            let reply = connection.run("config", &command)?;
            let failed = reply.get_array("writeErrors").ok().and_then(|errors| errors.into_iter().next());
            if let Some(error) =
                failed.and_then(std::result::Result::ok).and_then(|error| error.as_document())
            {
                let code = Code(error.get_i32("code").unwrap_or(Code::UnknownError.0));
                let what = error.get_str("errmsg").unwrap_or_default().to_owned();
                return Err(Failure::new(code, what).into());
            }
            Ok(match reply.get("n").ok().flatten().and_then(|count| Bson::try_from(count).ok()) {
                Some(Bson::Int32(count)) => i64::from(count),
                Some(Bson::Int64(count)) => count,
                _ => 0,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::{assert_eq, test};

    /// The result and the number of reads, if the first `conflicts` reads meet a change.
    fn read_with(conflicts: u32, then: Result<&'static str>) -> (Result<&'static str>, u32) {
        let mut reads = 0;
        let result = read_until_consistent(|| {
            reads += 1;
            if reads <= conflicts {
                return Err(Failure::new(Code::ConflictingOperationInProgress, "between two moments"));
            }
            then.clone()
        });
        (result, reads)
    }

    #[test]
    fn what_is_being_changed_is_read_again_within_limits() {
        assert_eq!(read_with(0, Ok("table")), (Ok("table"), 1));
        assert_eq!(read_with(3, Ok("table")), (Ok("table"), 4));
        let (result, reads) = read_with(u32::MAX, Ok("table"));
        assert_eq!((result.unwrap_err().code(), reads), (Code::ConflictingOperationInProgress, 21));
        let other = Failure::new(Code::HostUnreachable, "gone");
        assert_eq!(read_with(1, Err(other.clone())), (Err(other), 2));
    }
}

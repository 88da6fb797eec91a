//! Managed services that run MongoDB, or a server that speaks its protocol, on hosts that their users cannot access.
//!
//! They are recognised by their host names, as drivers and MongoDB's own tools do: in the connection string, or in the members'
//! names in hello (<https://jira.mongodb.org/browse/DRIVERS-2583>, mongodb-js/devtools-shared:packages/mongodb-build-info). A
//! custom name in front of a service (a tunnel, a private alias) is not recognised before hello names the members.

/// The operator of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedService {
    /// MongoDB's own service: mongod, with the same engine as elsewhere.
    Atlas,
    /// Amazon's server, which speaks the protocol.
    DocumentDb,
    /// Microsoft's server, which speaks the protocol.
    CosmosDb,
}

/// The suffixes of the services' host names, in lower case.
const HOSTS: [(&str, ManagedService); 7] = [
    (".mongodb.net", ManagedService::Atlas),
    (".mongodb-dev.net", ManagedService::Atlas),
    (".mongodb-qa.net", ManagedService::Atlas),
    (".mongodb-stage.net", ManagedService::Atlas),
    (".docdb.amazonaws.com", ManagedService::DocumentDb),
    (".docdb-elastic.amazonaws.com", ManagedService::DocumentDb),
    (".cosmos.azure.com", ManagedService::CosmosDb),
];

impl ManagedService {
    /// The service that a host belongs to.
    pub fn from_host(host: &str) -> Option<ManagedService> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        HOSTS.into_iter().find(|(end, _)| host.ends_with(end)).map(|(_, service)| service)
    }

    pub fn name(self) -> &'static str {
        match self {
            ManagedService::Atlas => "MongoDB Atlas",
            ManagedService::DocumentDb => "Amazon DocumentDB",
            ManagedService::CosmosDb => "Azure Cosmos DB",
        }
    }

    /// The sentence that names the layers that cannot be observed there, and the consequence.
    pub fn blind_sentence(self) -> String {
        let name = self.name();
        match self {
            ManagedService::Atlas => format!(
                "This is {name}: its hosts, devices, kernels and control groups cannot be seen, so a wait for pages or the journal is found, but \
                 not whether the device, a cap or a neighbour makes it; the service's own metrics have IOPS and disk latency. Free and Flex \
                 clusters refuse serverStatus, and nothing inside them can be named"
            ),
            ManagedService::DocumentDb | ManagedService::CosmosDb => format!(
                "This is {name}, which is not mongod: neither its hosts and devices nor its engine can be seen. It has no WiredTiger, so cache, \
                 eviction, checkpoints, tickets and the journal are not counted; what is left are operations and their latency, as far as \
                 serverStatus has them"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_known_by_the_ends_of_their_hosts_names() {
        for (host, service) in [
            ("cluster0-shard-00-01.abc12.mongodb.net", Some(ManagedService::Atlas)),
            ("Cluster0.ABC12.MongoDB.net.", Some(ManagedService::Atlas)),
            ("db.cluster-x.eu-central-1.docdb.amazonaws.com", Some(ManagedService::DocumentDb)),
            ("db-1.eu-central-1.docdb-elastic.amazonaws.com", Some(ManagedService::DocumentDb)),
            ("acct.mongo.cosmos.azure.com", Some(ManagedService::CosmosDb)),
            ("c.mongocluster.cosmos.azure.com", Some(ManagedService::CosmosDb)),
            ("mongodb.net", None),
            ("mongodb.net.example.com", None),
            ("evilmongodb.net", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(ManagedService::from_host(host), service, "{host}");
        }
    }

    #[test]
    fn each_says_what_cannot_be_seen() {
        for service in [ManagedService::Atlas, ManagedService::DocumentDb, ManagedService::CosmosDb] {
            let sentence = service.blind_sentence();
            assert!(sentence.starts_with(&format!("This is {}", service.name())), "{sentence}");
            assert!(sentence.contains("hosts") && sentence.contains("devices"), "{sentence}");
        }
    }
}

//! Builds the document of `replSetInitiate`, the shard's host string for `addShard`, and connection strings.

use bson::{Document, doc};

use crate::layout::{Node, Purpose};
use crate::tls_arguments;
use crate::topology::{ClusterShape, ReplicaSet, Topology};
use crate::version::Version;

/// The first version in which a delayed member is configured by `secondaryDelaySecs`.
const SECONDARY_DELAY: Version = Version::release(5, 0);

/// The document for `replSetInitiate`. The nodes of the set are in the order of its members.
pub(crate) fn initiate(set: &ReplicaSet, nodes: &[&Node], host: &str, version: Version) -> Document {
    let mut config = doc! { "_id": &set.name, "version": 1 };
    if nodes.iter().any(|node| node.purpose == Purpose::Config) {
        config.insert("configsvr", true);
    }
    let members = set.members.iter().zip(nodes).enumerate();
    let members: Vec<Document> = members
        .map(|(at, (member, node))| {
            let mut one = doc! { "_id": i32::try_from(at).unwrap_or(i32::MAX), "host": format!("{host}:{}", node.port) };
            if member.arbiter {
                one.insert("arbiterOnly", true);
            }
            if let Some(priority) = member.priority {
                one.insert("priority", priority);
            }
            if let Some(votes) = member.votes {
                one.insert("votes", i32::from(votes));
            }
            if member.hidden {
                one.insert("hidden", true);
            }
            if let Some(seconds) = member.delay_secs {
                let name = if version < SECONDARY_DELAY { "slaveDelay" } else { "secondaryDelaySecs" };
                one.insert(name, i64::try_from(seconds).unwrap_or(i64::MAX));
            }
            if !member.tags.is_empty() {
                let tags: Document = member.tags.iter().map(|(name, value)| (name.clone(), value.into())).collect();
                one.insert("tags", tags);
            }
            one
        })
        .collect();
    config.insert("members", members);
    config
}

/// The text `set/host:port,host:port`, as `addShard` and `--configdb` take it, without arbiters.
pub(crate) fn seed_list(set: &str, nodes: &[Node], host: &str) -> String {
    let of_set =
        nodes.iter().filter(|node| node.set.as_deref() == Some(set) && node.purpose != Purpose::Arbiter);
    let hosts: Vec<String> = of_set.map(|node| format!("{host}:{}", node.port)).collect();
    format!("{set}/{}", hosts.join(","))
}

/// The connection string for clients; empty without a permanent router. If users must log in, it has `<password>` in place of the password.
pub fn connection_string(topology: &Topology, nodes: &[Node]) -> String {
    let wanted = |node: &&Node| match topology.shape {
        ClusterShape::Single(_) => true,
        ClusterShape::ReplicaSet(_) => node.purpose == Purpose::Data,
        ClusterShape::Sharded { .. } => node.purpose == Purpose::Router && !node.temporary,
    };
    let option = match &topology.shape {
        ClusterShape::ReplicaSet(set) => Some(format!("replicaSet={}", set.name)),
        _ => None,
    };
    address(topology, &nodes.iter().filter(wanted).collect::<Vec<_>>(), option)
}

/// The connection strings of some of the servers, each of its own server alone; that of the cluster for all of them.
pub fn connection_strings(topology: &Topology, nodes: &[Node], chosen: &[usize]) -> Vec<String> {
    let strings: Vec<String> = if chosen.len() == nodes.len() {
        vec![connection_string(topology, nodes)]
    } else {
        let servers = chosen.iter().filter_map(|at| nodes.get(*at)).filter(|node| !node.temporary);
        let direct = |node: &Node| node.set.is_some().then(|| "directConnection=true".to_owned());
        servers.map(|node| address(topology, &[node], direct(node))).collect()
    };
    strings.into_iter().filter(|text| !text.is_empty()).collect()
}

fn address(topology: &Topology, servers: &[&Node], option: Option<String>) -> String {
    if servers.is_empty() {
        return String::new();
    }
    let hosts: Vec<String> = servers.iter().map(|node| format!("{}:{}", topology.host, node.port)).collect();
    let mut options: Vec<String> = option.into_iter().collect();
    options.extend(topology.tls.client_options());
    let user = topology.auth.as_ref().and_then(|auth| Some((auth.user.as_ref()?, auth)));
    let login = user.map(|(user, auth)| {
        options.push(format!("authSource={}", tls_arguments::escaped(&auth.database)));
        format!("{}:<password>@", tls_arguments::escaped(user))
    });
    let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    format!("mongodb://{}{}/{options}", login.unwrap_or_default(), hosts.join(","))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::layout::layout;
    use crate::topology::{Auth, MemberOptions, ServerOptions};

    fn set() -> ReplicaSet {
        let mut set = ReplicaSet::plain("rs", 3, 1);
        set.members[0].priority = Some(10.0);
        let late = MemberOptions {
            priority: Some(0.0),
            votes: Some(0),
            hidden: true,
            delay_secs: Some(60),
            tags: [("dc".to_owned(), "east".to_owned())].into(),
            ..MemberOptions::default()
        };
        set.members[2] = late;
        set
    }

    #[test]
    fn every_property_of_a_member_reaches_the_set() {
        let topology = Topology { shape: ClusterShape::ReplicaSet(set()), ..Topology::default() };
        let nodes = layout(&topology, Path::new("/c")).unwrap();
        let nodes: Vec<&Node> = nodes.iter().collect();
        let expected = |delay: &str| {
            doc! { "_id": "rs", "version": 1, "members": [
                { "_id": 0, "host": "h:27017", "priority": 10.0 },
                { "_id": 1, "host": "h:27018" },
                { "_id": 2, "host": "h:27019", "priority": 0.0, "votes": 0, "hidden": true, delay: 60_i64,
                  "tags": { "dc": "east" } },
                { "_id": 3, "host": "h:27020", "arbiterOnly": true },
            ] }
        };
        assert_eq!(initiate(&set(), &nodes, "h", Version::release(4, 4)), expected("slaveDelay"));
        assert_eq!(initiate(&set(), &nodes, "h", Version::release(5, 0)), expected("secondaryDelaySecs"));
    }

    #[test]
    fn connection_strings_lead_to_who_takes_clients() {
        let mut topology = Topology { shape: ClusterShape::ReplicaSet(set()), ..Topology::default() };
        let nodes = layout(&topology, Path::new("/c")).unwrap();
        let hosts = "localhost:27017,localhost:27018,localhost:27019";
        assert_eq!(connection_string(&topology, &nodes), format!("mongodb://{hosts}/?replicaSet=rs"));
        assert_eq!(seed_list("rs", &nodes, "localhost"), format!("rs/{hosts}"));
        let auth = Auth {
            user: Some("a@b".to_owned()),
            database: "admin".to_owned(),
            roles: Vec::new(),
            key_file: None,
        };
        topology.auth = Some(auth);
        assert_eq!(
            connection_string(&topology, &nodes),
            format!("mongodb://a%40b:<password>@{hosts}/?replicaSet=rs&authSource=admin")
        );
        let shape = ClusterShape::Sharded {
            shards: vec![ReplicaSet::plain("a", 1, 0)],
            config: ReplicaSet::plain("c", 1, 0),
            routers: vec![ServerOptions::default(); 2],
        };
        let topology = Topology { shape, ..Topology::default() };
        let nodes = layout(&topology, Path::new("/c")).unwrap();
        assert_eq!(connection_string(&topology, &nodes), "mongodb://localhost:27017,localhost:27018/");
    }

    #[test]
    fn chosen_servers_have_a_connection_string_each() {
        let set = Topology { shape: ClusterShape::ReplicaSet(set()), ..Topology::default() };
        let nodes = layout(&set, Path::new("/c")).unwrap();
        let one = |port: u16| format!("mongodb://localhost:{port}/?directConnection=true");
        assert_eq!(connection_strings(&set, &nodes, &[1, 3]), [one(27018), one(27020)]);
        assert_eq!(connection_strings(&set, &nodes, &[]), [""; 0]);
        assert_eq!(connection_strings(&set, &nodes, &[0, 1, 2, 3]), [connection_string(&set, &nodes)]);
        let shape = ClusterShape::Sharded {
            shards: vec![ReplicaSet::plain("a", 1, 0)],
            config: ReplicaSet::plain("c", 1, 0),
            routers: Vec::new(),
        };
        let sharded = Topology { shape, ..Topology::default() };
        let nodes = layout(&sharded, Path::new("/c")).unwrap();
        // The router is there only while the cluster is made.
        assert_eq!(connection_strings(&sharded, &nodes, &[0, 1]), [one(27018)]);
        assert_eq!(connection_strings(&sharded, &nodes, &[0, 1, 2]), [""; 0]);
    }
}

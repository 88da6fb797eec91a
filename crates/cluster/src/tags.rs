//! Selects servers by mlaunch's tags; several tags select the servers that have all of them.
//!
//! An unknown tag, and a number that no server has, are refused: if a typing error selected all servers, the wrong ones would be
//! killed.

use std::collections::BTreeSet;

use fathom_client::Role;
use fathom_errors::{Error, Result};

use crate::layout::{Node, Purpose};

/// Tags that may precede a number.
const NUMBERED: [&str; 4] = ["mongos", "shard", "secondary", "config"];
/// Tags that exist in every cluster, whether or not a server has them now.
const ALWAYS: [&str; 12] = [
    "all",
    "running",
    "down",
    "paused",
    "mongod",
    "mongos",
    "config",
    "primary",
    "secondary",
    "arbiter",
    "single",
    "shard",
];

/// The present state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerCondition {
    /// Whether its process runs.
    pub runs: bool,
    /// Whether it is paused (SIGSTOP).
    pub paused: bool,
    /// The role that it reports; `None` if it does not answer.
    pub role: Option<Role>,
}

impl ServerCondition {
    /// A server that does not run.
    pub const DOWN: ServerCondition = ServerCondition { runs: false, paused: false, role: None };
}

/// The tags of a server, as `list --tags` shows them.
pub fn tags_of(node: &Node, live: ServerCondition) -> BTreeSet<String> {
    let mut tags: BTreeSet<String> = ["all".to_owned(), node.port.to_string()].into();
    let mut add = |tag: &str| tags.insert(tag.to_owned());
    add(if live.runs { "running" } else { "down" });
    if live.paused {
        add("paused");
    }
    add(if node.is_mongod() { "mongod" } else { "mongos" });
    match node.purpose {
        Purpose::Single => add("single"),
        Purpose::Config => add("config"),
        Purpose::Arbiter => add("arbiter"),
        _ => false,
    };
    // mlaunch does not show which config server is primary, so `secondary` applies to shards only.
    match live.role.filter(|_| node.purpose == Purpose::Data) {
        Some(Role::Primary) => add("primary"),
        Some(Role::Secondary) => add("secondary"),
        _ => false,
    };
    if node.in_shard {
        add("shard");
    }
    tags.extend(node.set.clone());
    tags
}

/// One condition: a tag, or the Nth server of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TagCondition {
    Tag(String),
    Nth(String, usize),
}

/// The servers that tags select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagSelection(Vec<TagCondition>);

impl TagSelection {
    /// Reads tags as the user typed them; an empty list means all servers.
    pub fn read(words: &[String]) -> Result<TagSelection> {
        let mut wanted = Vec::new();
        for word in words {
            // As in mlaunch, one or two digits are an index, more are a port.
            let number = word.parse::<usize>().ok().filter(|_| word.len() <= 2);
            match (number, wanted.pop()) {
                (Some(number), Some(TagCondition::Tag(tag)))
                    if NUMBERED.contains(&tag.as_str()) && number > 0 =>
                {
                    wanted.push(TagCondition::Nth(tag, number));
                }
                (Some(_), _) => {
                    let what = format!("the number {word} counts nothing");
                    return Err(Error::usage(what)
                        .advise("write it behind mongos, shard, secondary or config, or give a whole port"));
                }
                (None, before) => {
                    wanted.extend(before);
                    wanted.push(TagCondition::Tag(word.clone()));
                }
            }
        }
        Ok(TagSelection(wanted))
    }

    /// Whether it depends on the roles that servers report.
    pub fn needs_roles(&self) -> bool {
        let of_role = |tag: &str| matches!(tag, "primary" | "secondary");
        self.0.iter().any(|wanted| match wanted {
            TagCondition::Tag(tag) | TagCondition::Nth(tag, _) => of_role(tag),
        })
    }

    /// The indexes of the selected servers.
    pub fn choose(&self, nodes: &[Node], live: &[ServerCondition]) -> Result<Vec<usize>> {
        let tagged: Vec<BTreeSet<String>> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| tags_of(node, live.get(at).copied().unwrap_or(ServerCondition::DOWN)))
            .collect();
        let mut chosen: Vec<usize> = (0..nodes.len()).collect();
        for wanted in &self.0 {
            let has: Vec<usize> = match wanted {
                TagCondition::Tag(tag) => {
                    let has: Vec<usize> = places(&tagged, tag);
                    if has.is_empty() && !ALWAYS.contains(&tag.as_str()) {
                        return Err(unknown(tag, &tagged));
                    }
                    has
                }
                TagCondition::Nth(tag, number) => nth(tag, *number, nodes, &tagged)?,
            };
            chosen.retain(|at| has.contains(at));
        }
        Ok(chosen)
    }
}

fn places(tagged: &[BTreeSet<String>], tag: &str) -> Vec<usize> {
    tagged.iter().enumerate().filter(|(_, tags)| tags.contains(tag)).map(|(at, _)| at).collect()
}

/// The Nth server of a kind; the Nth shard; the Nth secondary of each set.
fn nth(tag: &str, number: usize, nodes: &[Node], tagged: &[BTreeSet<String>]) -> Result<Vec<usize>> {
    let all = places(tagged, tag);
    let set = |at: &usize| nodes.get(*at).and_then(|node| node.set.as_deref()).unwrap_or_default();
    let mut sets: Vec<&str> = all.iter().map(set).collect();
    sets.dedup();
    let found: Vec<usize> = match tag {
        "shard" => {
            let wanted = sets.get(number - 1).copied();
            all.iter().copied().filter(|at| Some(set(at)) == wanted).collect()
        }
        "secondary" => {
            let of_set = |wanted: &&str| all.iter().copied().filter(|at| set(at) == *wanted).nth(number - 1);
            sets.iter().filter_map(of_set).collect()
        }
        _ => all.get(number - 1).copied().into_iter().collect(),
    };
    let count = if tag == "shard" { sets.len() } else { all.len() };
    if found.is_empty() {
        let what = format!("there is no {tag} {number}: this cluster has {count} now");
        return Err(Error::usage(what));
    }
    Ok(found)
}

fn unknown(tag: &str, tagged: &[BTreeSet<String>]) -> Error {
    let mut tags: BTreeSet<&str> = tagged.iter().flatten().map(String::as_str).collect();
    tags.extend(ALWAYS);
    let tags: Vec<&str> = tags.into_iter().collect();
    Error::usage(format!("'{tag}' is not a tag of this cluster"))
        .advise(format!("tags are {}", tags.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::layout::layout;
    use crate::topology::{CONFIG_SET, ClusterShape, ReplicaSet, ServerOptions, Topology};

    /// Two shards of three members and an arbiter, two config servers, two routers: ports 1000 to 1011.
    fn cluster() -> (Vec<Node>, Vec<ServerCondition>) {
        let shape = ClusterShape::Sharded {
            shards: vec![ReplicaSet::plain("a", 3, 1), ReplicaSet::plain("b", 3, 1)],
            config: ReplicaSet::plain(CONFIG_SET, 2, 0),
            routers: vec![ServerOptions::default(); 2],
        };
        let nodes =
            layout(&Topology { shape, first_port: 1000, ..Topology::default() }, Path::new("/c")).unwrap();
        let role = |node: &Node| match (node.port, node.purpose) {
            (1003 | 1006, _) => Role::Primary,
            (_, Purpose::Arbiter) => Role::Arbiter,
            (_, Purpose::Router) => Role::Router,
            _ => Role::Secondary,
        };
        let live = |node: &Node| ServerCondition { runs: true, paused: false, role: Some(role(node)) };
        let mut live: Vec<ServerCondition> = nodes.iter().map(live).collect();
        live[11] = ServerCondition::DOWN;
        (nodes, live)
    }

    fn ports(words: &str) -> Result<Vec<u16>> {
        let (nodes, live) = cluster();
        let words: Vec<String> = words.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(TagSelection::read(&words)?.choose(&nodes, &live)?.into_iter().map(|at| nodes[at].port).collect())
    }

    #[test]
    fn tags_are_an_intersection() {
        assert_eq!(ports("").unwrap().len(), 12);
        assert_eq!(ports("all down").unwrap(), [1011]);
        assert_eq!(ports("primary").unwrap(), [1003, 1006]);
        assert_eq!(ports("a secondary").unwrap(), [1002, 1004]);
        assert_eq!(ports("arbiter b").unwrap(), [1009]);
        assert_eq!(ports("mongos running").unwrap(), [1000, 1001]);
        assert_eq!(ports("1004").unwrap(), [1004]);
        assert_eq!(ports("1004 primary").unwrap(), Vec::<u16>::new());
        assert_eq!(ports("single").unwrap(), Vec::<u16>::new());
    }

    #[test]
    fn numbers_count_from_one_and_config_servers_are_not_off_by_one() {
        assert_eq!(ports("config 1").unwrap(), [1010]);
        assert_eq!(ports("config 2").unwrap(), [1011]);
        assert_eq!(ports("mongos 2").unwrap(), [1001]);
        assert_eq!(ports("shard 2").unwrap(), [1006, 1007, 1008, 1009]);
        assert_eq!(ports("shard 2 secondary").unwrap(), [1007, 1008]);
        assert_eq!(ports("secondary 2").unwrap(), [1004, 1008]);
        assert_eq!(ports("shard 1 secondary 2").unwrap(), [1004]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for (words, part) in [
            ("seconday", "not a tag of this cluster"),
            ("1234", "not a tag of this cluster"),
            ("shard 3", "there is no shard 3: this cluster has 2"),
            ("config 3", "this cluster has 2"),
            ("primary 1", "counts nothing"),
            ("3", "counts nothing"),
            ("shard 0", "counts nothing"),
        ] {
            assert!(ports(words).unwrap_err().to_string().contains(part), "{words}");
        }
    }
}

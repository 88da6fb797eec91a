//! The fields that a filter holds to one value: what a document inserted by an upsert begins with, and what tells a router the shard.

use bson::Bson;

use super::tree::{Comparison, Field, Node, Test};

/// Paths and values, in the filter's order.
pub(super) fn of(root: &Node) -> Vec<(String, Bson)> {
    let mut found = Vec::new();
    match root {
        Node::And(nodes) => nodes.iter().for_each(|node| add(node, &mut found)),
        node => add(node, &mut found),
    }
    found
}

fn add(node: &Node, found: &mut Vec<(String, Bson)>) {
    if let Node::Field(Field { path, test: Test::Compare(Comparison::Equal, constant) }) = node
        && let Ok(value) = Bson::try_from(constant.as_raw_bson_ref())
    {
        found.push((path.clone().into_owned(), value));
    }
}

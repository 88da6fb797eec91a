//! Table of the commands that mongos has and this router lacks, each with the reason.

use fathom_wire::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::instance::RouterOperation;
use crate::request::Request;

const NO_USERS: &str = "this router knows no users: keep it on loopback";
const NO_ZONES: &str = "this router has no zones";
const NO_ORDER: &str = "this router runs no JavaScript";

/// Table of the refused commands, each with the reason.
static REFUSED: &[(&str, &str)] = &[
    ("addShardToZone", NO_ZONES),
    ("authenticate", NO_USERS),
    ("clearJumboFlag", "no chunk is ever marked as too large here"),
    ("compact", "it is a matter of each shard: connect to it"),
    ("configureFailPoint", "it is a matter of each shard: connect to it"),
    ("convertToCapped", "a collection is capped from its creation or never"),
    ("createRole", NO_USERS),
    ("createUser", NO_USERS),
    ("dropAllUsersFromDatabase", NO_USERS),
    ("dropUser", NO_USERS),
    ("filemd5", "there are no GridFS sums"),
    ("fsync", "it is a matter of each shard: connect to it"),
    ("getLastError", "give each write a write concern instead"),
    ("mapReduce", NO_ORDER),
    ("mergeChunks", "this router does not merge chunks"),
    ("movePrimary", "this router does not move what is not sharded"),
    ("refineCollectionShardKey", "a shard key stays as it is"),
    ("removeShardFromZone", NO_ZONES),
    ("saslContinue", NO_USERS),
    ("saslStart", NO_USERS),
    ("splitVector", "it is a matter of each shard: connect to it"),
    ("updateUser", NO_USERS),
    ("updateZoneKeyRange", NO_ZONES),
    ("usersInfo", NO_USERS),
];

pub(super) fn run(_: RouterOperation<'_>, request: &Request<'_>, _: &mut Reply<'_>) -> Result<()> {
    let name = request.command.name;
    let reason = REFUSED.iter().find(|one| one.0 == name).map_or("it is not here", |one| one.1);
    Err(Failure::new(Code::CommandNotSupported, format!("{name} is not in this router: {reason}")))
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    REFUSED.iter().map(|one| one.0)
}

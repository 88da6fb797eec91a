//! Table: every command, in alphabetical order.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::command::{Command, Run};
use super::{
    aggregate, collection_statistics, count, create, currentop, distinct, drop, everywhere, explain,
    find_and_modify, find_documents, get_more, hello, indexes, information, list_databases, primary, refused,
    server_status, sessions, sharding, writes,
};
use crate::request::Kind;

/// Name with other spellings, how it is sent, whether only against `admin`, function, help.
type Row = (&'static [&'static str], Kind, bool, Run, &'static str);

static ROWS: &[Row] = &[
    (
        &["abortTransaction"],
        Kind::Admin,
        true,
        sessions::no_transaction,
        "refused: there are no transactions",
    ),
    (&["addShard", "addshard"], Kind::Admin, true, sharding::add_shard, "adds a shard to the cluster"),
    (&["aggregate"], Kind::Read, false, aggregate::run, "runs a pipeline"),
    (&["balancerStart"], Kind::Admin, true, sharding::balancer_start, "lets the balancer move chunks"),
    (
        &["balancerStatus"],
        Kind::Admin,
        true,
        sharding::balancer_status,
        "whether the balancer may work, and does",
    ),
    (&["balancerStop"], Kind::Admin, true, sharding::balancer_stop, "has the balancer rest"),
    (&["buildInfo", "buildinfo"], Kind::Admin, false, information::build_info, "the version of the router"),
    (&["collMod"], Kind::Write, false, indexes::change, "changes a collection on all its shards"),
    (
        &["collStats", "collstats"],
        Kind::Read,
        false,
        collection_statistics::collection,
        "sizes of a collection",
    ),
    (
        &["commitTransaction"],
        Kind::Admin,
        true,
        sessions::no_transaction,
        "refused: there are no transactions",
    ),
    (&["connPoolStats"], Kind::Admin, false, information::pools, "connections to the shards"),
    (&["connectionStatus"], Kind::Admin, false, information::connection, "who this connection is"),
    (&["count"], Kind::Read, false, count::run, "counts documents"),
    (&["create"], Kind::Write, false, create::run, "makes a collection"),
    (&["createIndexes"], Kind::Write, false, indexes::create, "makes indexes on all shards of a collection"),
    (&["currentOp"], Kind::Read, true, currentop::current, "what runs on the shards"),
    (
        &["dataSize", "datasize"],
        Kind::Read,
        false,
        everywhere::data_size,
        "the size of a collection's documents",
    ),
    (&["dbStats", "dbstats"], Kind::Read, false, collection_statistics::database, "sizes of a database"),
    (&["delete"], Kind::Write, false, writes::delete, "deletes documents"),
    (&["distinct"], Kind::Read, false, distinct::run, "the different values of a field"),
    (&["drop"], Kind::Write, false, drop::collection, "drops a collection"),
    (&["dropDatabase"], Kind::Write, false, drop::database, "drops a database"),
    (&["dropIndexes", "deleteIndexes"], Kind::Write, false, indexes::change, "drops indexes on all shards"),
    (
        &["enableSharding", "enablesharding"],
        Kind::Admin,
        true,
        sharding::enable,
        "lets collections of a database be sharded",
    ),
    (&["endSessions"], Kind::Admin, false, sessions::noted, "ends sessions"),
    (&["explain"], Kind::Read, false, explain::run, "how the shards would answer"),
    (&["find"], Kind::Read, false, find_documents::run, "runs a query"),
    (
        &["findAndModify", "findandmodify"],
        Kind::Write,
        false,
        find_and_modify::run,
        "changes one document and returns it",
    ),
    (
        &["flushRouterConfig", "flushrouterconfig"],
        Kind::Admin,
        true,
        sharding::flush,
        "forgets where collections live",
    ),
    (&["getCmdLineOpts"], Kind::Admin, true, information::command_line, "what the router was started with"),
    (&["getLog"], Kind::Admin, true, information::log, "the last lines of the log"),
    (&["getMore"], Kind::Read, false, get_more::run, "the next batch of a cursor"),
    (&["getParameter"], Kind::Admin, true, information::parameter, "values of parameters"),
    (&["getShardMap"], Kind::Admin, true, sharding::shard_map, "all hosts of the cluster"),
    (&["getShardVersion"], Kind::Admin, true, sharding::shard_version, "the version of a sharded collection"),
    (&["hello", "isMaster", "ismaster"], Kind::Admin, false, hello::run, "who the router is"),
    (&["insert"], Kind::Write, false, writes::insert, "inserts documents"),
    (&["isdbgrid"], Kind::Admin, false, information::is_router, "that it is a router"),
    (&["killCursors"], Kind::Read, false, get_more::kill, "ends cursors"),
    (&["killOp"], Kind::Admin, true, currentop::kill, "ends an operation of a shard"),
    (&["listCollections"], Kind::Read, false, primary::list_collections, "the collections of a database"),
    (&["listCommands"], Kind::Admin, false, information::commands, "these commands"),
    (&["listDatabases"], Kind::Read, true, list_databases::run, "the databases of all shards"),
    (&["listIndexes"], Kind::Read, false, primary::list_indexes, "the indexes of a collection"),
    (&["listShards"], Kind::Admin, true, sharding::list_shards, "the shards"),
    (&["logRotate"], Kind::Admin, true, information::rotate_log, "begins a new log file"),
    (&["moveChunk", "movechunk"], Kind::Admin, true, sharding::move_chunk, "moves a chunk to another shard"),
    (&["ping"], Kind::Admin, false, information::ping, "answers"),
    (&["profile"], Kind::Admin, false, primary::only_on_shards, "refused: a matter of each shard"),
    (&["refreshSessions"], Kind::Admin, false, sessions::noted, "keeps sessions"),
    (
        &["removeShard", "removeshard"],
        Kind::Admin,
        true,
        sharding::remove_shard,
        "drains a shard and removes it",
    ),
    (&["renameCollection"], Kind::Write, true, primary::rename, "renames a collection that is not sharded"),
    (&["serverStatus"], Kind::Admin, false, server_status::run, "counters of the router"),
    (&["setParameter"], Kind::Admin, true, information::set_parameter, "changes logLevel or quiet"),
    (
        &["shardCollection", "shardcollection"],
        Kind::Admin,
        true,
        sharding::shard_collection,
        "splits a collection over the shards",
    ),
    (&["shutdown"], Kind::Admin, true, information::shutdown, "stops the router"),
    (&["split"], Kind::Admin, true, sharding::split, "splits a chunk"),
    (&["startSession"], Kind::Admin, false, sessions::start, "a new session"),
    (&["top"], Kind::Admin, true, primary::only_on_shards, "refused: a matter of each shard"),
    (&["update"], Kind::Write, false, writes::update, "updates documents"),
    (&["validate"], Kind::Read, false, everywhere::validate, "checks a collection on all its shards"),
    (&["whatsmyuri"], Kind::Admin, false, information::own_address, "the client's own address"),
];

/// All commands, those that are refused by name among them.
pub(crate) static COMMANDS: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let rows = ROWS.iter().filter_map(|(names, kind, admin_only, run, help)| {
        let (name, aliases) = names.split_first()?;
        let (kind, admin_only, run) = (*kind, *admin_only, *run);
        Some(Command { name, aliases, kind, admin_only, secret: false, help, run, row: 0 })
    });
    let refused = refused::names().map(|name| Command {
        name,
        aliases: &[],
        kind: Kind::Admin,
        admin_only: false,
        secret: true,
        help: "is refused, with the reason",
        run: refused::run,
        row: 0,
    });
    let mut all: Vec<Command> = rows.chain(refused).collect();
    all.sort_by_key(|command| command.name.to_ascii_lowercase());
    all.iter_mut().enumerate().for_each(|(row, command)| command.row = row);
    all
});

/// The command of a name or alias.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    static BY_NAME: LazyLock<HashMap<&'static str, &'static Command>> = LazyLock::new(|| {
        let all = COMMANDS.iter().flat_map(|command| {
            std::iter::once(command.name)
                .chain(command.aliases.iter().copied())
                .map(move |name| (name, command))
        });
        all.collect()
    });
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_nobody_elses() {
        let names: Vec<String> = COMMANDS.iter().map(|command| command.name.to_ascii_lowercase()).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
        for command in COMMANDS.iter() {
            for name in command.aliases.iter().chain([&command.name]) {
                assert_eq!(find(name).map(|found| found.name), Some(command.name), "{name}");
            }
        }
    }
}

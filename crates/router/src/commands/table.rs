//! The table of all commands, in alphabetical order.

use std::sync::LazyLock;

use fathom_service::CommandTable;

use super::{
    CommandFunction, aggregate, collections, explain, find_documents, get_more, information, matches,
    operations, refused, server_status, sharding, statistics, writes,
};
use crate::Result;
use crate::request::{Command, CommandRegistry, SendKind};

/// The names, how it is sent, whether it runs only against `admin`, the function, the help text.
type CommandRow = (&'static [&'static str], SendKind, bool, CommandFunction, &'static str);

static ROWS: &[CommandRow] = &[
    (
        &["abortTransaction"],
        SendKind::Admin,
        true,
        operations::no_transaction,
        "refused: there are no transactions",
    ),
    (&["addShard", "addshard"], SendKind::Admin, true, sharding::add_shard, "adds a shard to the cluster"),
    (&["aggregate"], SendKind::Read, false, aggregate::run, "runs a pipeline"),
    (&["balancerStart"], SendKind::Admin, true, sharding::balancer_start, "lets the balancer move chunks"),
    (
        &["balancerStatus"],
        SendKind::Admin,
        true,
        sharding::balancer_status,
        "whether the balancer may work, and does",
    ),
    (&["balancerStop"], SendKind::Admin, true, sharding::balancer_stop, "has the balancer rest"),
    (
        &["buildInfo", "buildinfo"],
        SendKind::Admin,
        false,
        information::build_info,
        "the version of the router",
    ),
    (&["collMod"], SendKind::Write, false, collections::change, "changes a collection on all its shards"),
    (&["collStats", "collstats"], SendKind::Read, false, statistics::collection, "sizes of a collection"),
    (
        &["commitTransaction"],
        SendKind::Admin,
        true,
        operations::no_transaction,
        "refused: there are no transactions",
    ),
    (&["connPoolStats"], SendKind::Admin, false, information::pools, "connections to the shards"),
    (&["connectionStatus"], SendKind::Admin, false, information::connection, "who this connection is"),
    (&["count"], SendKind::Read, false, matches::count, "counts documents"),
    (&["create"], SendKind::Write, false, collections::create, "makes a collection"),
    (
        &["createIndexes"],
        SendKind::Write,
        false,
        collections::create_indexes,
        "makes indexes on all shards of a collection",
    ),
    (&["currentOp"], SendKind::Read, true, operations::current, "what runs on the shards"),
    (
        &["dataSize", "datasize"],
        SendKind::Read,
        false,
        statistics::data_size,
        "the size of a collection's documents",
    ),
    (&["dbStats", "dbstats"], SendKind::Read, false, statistics::database, "sizes of a database"),
    (&["delete"], SendKind::Write, false, writes::delete, "deletes documents"),
    (&["distinct"], SendKind::Read, false, matches::distinct, "the different values of a field"),
    (&["drop"], SendKind::Write, false, collections::drop_collection, "drops a collection"),
    (&["dropDatabase"], SendKind::Write, false, collections::drop_database, "drops a database"),
    (
        &["dropIndexes", "deleteIndexes"],
        SendKind::Write,
        false,
        collections::change,
        "drops indexes on all shards",
    ),
    (
        &["enableSharding", "enablesharding"],
        SendKind::Admin,
        true,
        sharding::enable,
        "lets collections of a database be sharded",
    ),
    (&["endSessions"], SendKind::Admin, false, operations::noted, "ends sessions"),
    (&["explain"], SendKind::Read, false, explain::run, "how the shards would answer"),
    (&["find"], SendKind::Read, false, find_documents::run, "runs a query"),
    (
        &["findAndModify", "findandmodify"],
        SendKind::Write,
        false,
        writes::find_and_modify,
        "changes one document and returns it",
    ),
    (
        &["flushRouterConfig", "flushrouterconfig"],
        SendKind::Admin,
        true,
        sharding::flush,
        "forgets where collections live",
    ),
    (
        &["getCmdLineOpts"],
        SendKind::Admin,
        true,
        information::command_line,
        "what the router was started with",
    ),
    (&["getLog"], SendKind::Admin, true, information::log, "the last lines of the log"),
    (&["getMore"], SendKind::Read, false, get_more::run, "the next batch of a cursor"),
    (&["getParameter"], SendKind::Admin, true, information::parameter, "values of parameters"),
    (&["getShardMap"], SendKind::Admin, true, sharding::shard_map, "all hosts of the cluster"),
    (
        &["getShardVersion"],
        SendKind::Admin,
        true,
        sharding::shard_version,
        "the version of a sharded collection",
    ),
    (&["hello", "isMaster", "ismaster"], SendKind::Admin, false, information::hello, "who the router is"),
    (&["insert"], SendKind::Write, false, writes::insert, "inserts documents"),
    (&["isdbgrid"], SendKind::Admin, false, information::is_router, "that it is a router"),
    (&["killCursors"], SendKind::Read, false, get_more::kill, "ends cursors"),
    (&["killOp"], SendKind::Admin, true, operations::kill, "ends an operation of a shard"),
    (
        &["listCollections"],
        SendKind::Read,
        false,
        collections::list_collections,
        "the collections of a database",
    ),
    (&["listCommands"], SendKind::Admin, false, information::commands, "these commands"),
    (&["listDatabases"], SendKind::Read, true, collections::list_databases, "the databases of all shards"),
    (&["listIndexes"], SendKind::Read, false, collections::list_indexes, "the indexes of a collection"),
    (&["listShards"], SendKind::Admin, true, sharding::list_shards, "the shards"),
    (&["logRotate"], SendKind::Admin, true, information::rotate_log, "begins a new log file"),
    (
        &["moveChunk", "movechunk"],
        SendKind::Admin,
        true,
        sharding::move_chunk,
        "moves a chunk to another shard",
    ),
    (&["ping"], SendKind::Admin, false, information::ping, "answers"),
    (&["profile"], SendKind::Admin, false, collections::only_on_shards, "refused: a matter of each shard"),
    (&["refreshSessions"], SendKind::Admin, false, operations::noted, "keeps sessions"),
    (
        &["removeShard", "removeshard"],
        SendKind::Admin,
        true,
        sharding::remove_shard,
        "drains a shard and removes it",
    ),
    (
        &["renameCollection"],
        SendKind::Write,
        true,
        collections::rename,
        "renames a collection that is not sharded",
    ),
    (&["serverStatus"], SendKind::Admin, false, server_status::run, "counters of the router"),
    (&["setParameter"], SendKind::Admin, true, information::set_parameter, "changes logLevel or quiet"),
    (
        &["shardCollection", "shardcollection"],
        SendKind::Admin,
        true,
        sharding::shard_collection,
        "splits a collection over the shards",
    ),
    (&["shutdown"], SendKind::Admin, true, information::shutdown, "stops the router"),
    (&["split"], SendKind::Admin, true, sharding::split, "splits a chunk"),
    (&["startSession"], SendKind::Admin, false, operations::start, "a new session"),
    (&["top"], SendKind::Admin, true, collections::only_on_shards, "refused: a matter of each shard"),
    (&["update"], SendKind::Write, false, writes::update, "updates documents"),
    (&["validate"], SendKind::Read, false, statistics::validate, "checks a collection on all its shards"),
    (&["whatsmyuri"], SendKind::Admin, false, information::own_address, "the client's own address"),
];

/// The rows of this table, and the commands that are refused by name.
static TABLE: LazyLock<CommandTable<SendKind, (), CommandFunction>> = LazyLock::new(|| {
    let rows = ROWS.iter().filter_map(|(names, kind, admin_only, run, help)| {
        let (name, aliases) = names.split_first()?;
        let mut command = Command::new(name, aliases, *kind, (), help);
        command.admin_only = *admin_only;
        Some((command, *run))
    });
    let refused = refused::names().map(|name| {
        let mut command = Command::new(name, &[], SendKind::Admin, (), "is refused, with the reason");
        command.secret = true;
        (command, refused::run as CommandFunction)
    });
    let mut all: Vec<(Command, CommandFunction)> = rows.chain(refused).collect();
    all.sort_by_key(|(command, _)| command.name.to_ascii_lowercase());
    CommandTable::new(all)
});

pub(crate) fn registry() -> &'static CommandRegistry {
    TABLE.registry()
}

/// The function of a command.
pub(crate) fn function_of(command: &Command) -> Result<CommandFunction> {
    TABLE.function(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_nobody_elses() {
        let names: Vec<String> =
            registry().all().iter().map(|command| command.name.to_ascii_lowercase()).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
        for command in registry().all() {
            for name in command.aliases.iter().chain([&command.name]) {
                assert_eq!(registry().find(name).map(|found| found.name), Some(command.name), "{name}");
            }
        }
    }
}

//! Table: every command, in alphabetical order.

use std::sync::LazyLock;

use fathom_service::CommandTable;

use super::{
    Run, aggregate, collections, explain, find_documents, get_more, information, matches, operations,
    refused, server_status, sharding, statistics, writes,
};
use crate::Result;
use crate::request::{Command, CommandRegistry, Kind};

/// Name with other spellings, how it is sent, whether only against `admin`, function, help.
type Row = (&'static [&'static str], Kind, bool, Run, &'static str);

static ROWS: &[Row] = &[
    (
        &["abortTransaction"],
        Kind::Admin,
        true,
        operations::no_transaction,
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
    (&["collMod"], Kind::Write, false, collections::change, "changes a collection on all its shards"),
    (&["collStats", "collstats"], Kind::Read, false, statistics::collection, "sizes of a collection"),
    (
        &["commitTransaction"],
        Kind::Admin,
        true,
        operations::no_transaction,
        "refused: there are no transactions",
    ),
    (&["connPoolStats"], Kind::Admin, false, information::pools, "connections to the shards"),
    (&["connectionStatus"], Kind::Admin, false, information::connection, "who this connection is"),
    (&["count"], Kind::Read, false, matches::count, "counts documents"),
    (&["create"], Kind::Write, false, collections::create, "makes a collection"),
    (
        &["createIndexes"],
        Kind::Write,
        false,
        collections::create_indexes,
        "makes indexes on all shards of a collection",
    ),
    (&["currentOp"], Kind::Read, true, operations::current, "what runs on the shards"),
    (
        &["dataSize", "datasize"],
        Kind::Read,
        false,
        statistics::data_size,
        "the size of a collection's documents",
    ),
    (&["dbStats", "dbstats"], Kind::Read, false, statistics::database, "sizes of a database"),
    (&["delete"], Kind::Write, false, writes::delete, "deletes documents"),
    (&["distinct"], Kind::Read, false, matches::distinct, "the different values of a field"),
    (&["drop"], Kind::Write, false, collections::drop_collection, "drops a collection"),
    (&["dropDatabase"], Kind::Write, false, collections::drop_database, "drops a database"),
    (
        &["dropIndexes", "deleteIndexes"],
        Kind::Write,
        false,
        collections::change,
        "drops indexes on all shards",
    ),
    (
        &["enableSharding", "enablesharding"],
        Kind::Admin,
        true,
        sharding::enable,
        "lets collections of a database be sharded",
    ),
    (&["endSessions"], Kind::Admin, false, operations::noted, "ends sessions"),
    (&["explain"], Kind::Read, false, explain::run, "how the shards would answer"),
    (&["find"], Kind::Read, false, find_documents::run, "runs a query"),
    (
        &["findAndModify", "findandmodify"],
        Kind::Write,
        false,
        writes::find_and_modify,
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
    (&["hello", "isMaster", "ismaster"], Kind::Admin, false, information::hello, "who the router is"),
    (&["insert"], Kind::Write, false, writes::insert, "inserts documents"),
    (&["isdbgrid"], Kind::Admin, false, information::is_router, "that it is a router"),
    (&["killCursors"], Kind::Read, false, get_more::kill, "ends cursors"),
    (&["killOp"], Kind::Admin, true, operations::kill, "ends an operation of a shard"),
    (&["listCollections"], Kind::Read, false, collections::list_collections, "the collections of a database"),
    (&["listCommands"], Kind::Admin, false, information::commands, "these commands"),
    (&["listDatabases"], Kind::Read, true, collections::list_databases, "the databases of all shards"),
    (&["listIndexes"], Kind::Read, false, collections::list_indexes, "the indexes of a collection"),
    (&["listShards"], Kind::Admin, true, sharding::list_shards, "the shards"),
    (&["logRotate"], Kind::Admin, true, information::rotate_log, "begins a new log file"),
    (&["moveChunk", "movechunk"], Kind::Admin, true, sharding::move_chunk, "moves a chunk to another shard"),
    (&["ping"], Kind::Admin, false, information::ping, "answers"),
    (&["profile"], Kind::Admin, false, collections::only_on_shards, "refused: a matter of each shard"),
    (&["refreshSessions"], Kind::Admin, false, operations::noted, "keeps sessions"),
    (
        &["removeShard", "removeshard"],
        Kind::Admin,
        true,
        sharding::remove_shard,
        "drains a shard and removes it",
    ),
    (
        &["renameCollection"],
        Kind::Write,
        true,
        collections::rename,
        "renames a collection that is not sharded",
    ),
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
    (&["startSession"], Kind::Admin, false, operations::start, "a new session"),
    (&["top"], Kind::Admin, true, collections::only_on_shards, "refused: a matter of each shard"),
    (&["update"], Kind::Write, false, writes::update, "updates documents"),
    (&["validate"], Kind::Read, false, statistics::validate, "checks a collection on all its shards"),
    (&["whatsmyuri"], Kind::Admin, false, information::own_address, "the client's own address"),
];

/// The rows, and those that are refused by name.
static TABLE: LazyLock<CommandTable<Kind, (), Run>> = LazyLock::new(|| {
    let rows = ROWS.iter().filter_map(|(names, kind, admin_only, run, help)| {
        let (name, aliases) = names.split_first()?;
        let mut command = Command::new(name, aliases, *kind, (), help);
        command.admin_only = *admin_only;
        Some((command, *run))
    });
    let refused = refused::names().map(|name| {
        let mut command = Command::new(name, &[], Kind::Admin, (), "is refused, with the reason");
        command.secret = true;
        (command, refused::run as Run)
    });
    let mut all: Vec<(Command, Run)> = rows.chain(refused).collect();
    all.sort_by_key(|(command, _)| command.name.to_ascii_lowercase());
    CommandTable::new(all)
});

/// All commands.
pub(crate) fn registry() -> &'static CommandRegistry {
    TABLE.registry()
}

/// The function of a command.
pub(crate) fn function_of(command: &Command) -> Result<Run> {
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

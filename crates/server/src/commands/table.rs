//! Table: every command, in alphabetical order.

use std::sync::LazyLock;

use fathom_service::CommandTable;

use super::CommandFunction;
use crate::Result;
use crate::request::{Command, CommandAccess, CommandRegistry, CommandRules, OperationClass};

/// A row: the command and its function.
macro_rules! row {
    ($run:expr, $kind:ident, $access:ident, $help:literal, [$($field:literal),*], $name:literal $(| $alias:literal)* $(, $flag:ident)*) => {{
        let rules = CommandRules { access: CommandAccess::$access, fields: &[$($field),*], any_fields: false };
        #[allow(unused_mut, reason = "not every row has flags")]
        let mut command = Command::new($name, &[$($alias),*], OperationClass::$kind, rules, $help);
        $(flag!(command, $flag);)*
        (command, $run)
    }};
}

macro_rules! flag {
    ($command:ident, any_fields) => {
        $command.rules.any_fields = true
    };
    ($command:ident, $flag:ident) => {
        $command.$flag = true
    };
}

macro_rules! command {
    ($name:literal $(| $alias:literal)*, $kind:ident, $access:ident, $fields:tt, $run:path, $help:literal $(, $flag:ident)*) => {
        row!(CommandFunction::Plain($run), $kind, $access, $help, $fields, $name $(| $alias)* $(, $flag)*)
    };
}

/// A command that carries a login from one message to the next.
macro_rules! login {
    ($name:literal $(| $alias:literal)*, $access:ident, $fields:tt, $run:path, $help:literal $(, $flag:ident)*) => {
        row!(CommandFunction::Login($run), Command, $access, $help, $fields, $name $(| $alias)* $(, $flag)*)
    };
}

/// A command that is refused by name, regardless of its fields.
macro_rules! refused {
    ($name:literal $(| $alias:literal)*) => {
        command!(
            $name $(| $alias)*, Command, Anybody, [], super::refused::run, "is refused, with the reason", any_fields
        )
    };
}

static TABLE: LazyLock<CommandTable<OperationClass, CommandRules, CommandFunction>> = LazyLock::new(|| {
    CommandTable::new(vec![
        command!(
            "_addShard",
            Command,
            Manage,
            ["shardIdentity"],
            super::sharding::add,
            "internal: becomes a shard",
            admin_only
        ),
        command!(
            "_flushDatabaseCacheUpdates",
            Command,
            Manage,
            ["syncFromConfig"],
            super::sharding::flush_database,
            "internal: forgets where a database lives",
            admin_only
        ),
        command!(
            "_flushRoutingTableCacheUpdates",
            Command,
            Manage,
            ["syncFromConfig"],
            super::sharding::flush,
            "internal: forgets who has a collection's chunks",
            admin_only
        ),
        command!(
            "_isSelf",
            Command,
            Nobody,
            [],
            super::repl_set_members::is_self,
            "which server this is; between members",
            admin_only
        ),
        command!(
            "_mergeAuthzCollections",
            Command,
            UserAdmin,
            ["tempUsersCollection", "tempRolesCollection", "drop", "db"],
            super::users::merge,
            "takes over users that mongorestore put into a collection",
            admin_only
        ),
        command!(
            "_recvChunkAbort",
            Command,
            Manage,
            ["min", "max"],
            super::sharding::abort,
            "internal: a chunk does not come",
            admin_only
        ),
        command!(
            "_recvChunkCommit",
            Command,
            Manage,
            ["min", "max"],
            super::sharding::received,
            "internal: a chunk has come",
            admin_only
        ),
        command!(
            "_recvChunkStart",
            Command,
            Manage,
            ["min", "max"],
            super::sharding::receive,
            "internal: a chunk is coming",
            admin_only
        ),
        command!(
            "_shardsvrShardCollection",
            Command,
            Manage,
            ["entry", "mustBeEmpty"],
            super::sharding::commit,
            "internal: a collection is sharded from now on",
            admin_only
        ),
        command!(
            "abortTransaction",
            Command,
            Nobody,
            ["recoveryToken"],
            super::sessions::no_transaction,
            "refused: there are no transactions",
            admin_only
        ),
        command!(
            "aggregate",
            Read,
            Read,
            [
                "pipeline",
                "cursor",
                "explain",
                "allowDiskUse",
                "bypassDocumentValidation",
                "hint",
                "collation",
                "let"
            ],
            super::aggregate::run,
            "runs a pipeline"
        ),
        command!(
            "appendOplogNote",
            Command,
            Manage,
            ["data"],
            super::repl_set_members::append_note,
            "writes an entry that changes nothing",
            admin_only
        ),
        refused!("applyOps"),
        command!(
            "authenticate",
            Command,
            Nobody,
            ["mechanism", "user", "nonce", "key", "digestPassword"],
            super::login::refuse,
            "refused: there is SCRAM only",
            secret
        ),
        refused!("balancerStart"),
        refused!("balancerStatus"),
        refused!("balancerStop"),
        command!(
            "buildInfo" | "buildinfo",
            Command,
            Nobody,
            [],
            super::information::build_info,
            "version and engines of the server"
        ),
        command!(
            "cleanupOrphaned",
            Command,
            Manage,
            ["startingFromKey", "secondaryThrottle"],
            super::sharding::clean_up,
            "deletes documents that are another shard's",
            admin_only
        ),
        command!(
            "cloneCollectionAsCapped",
            Command,
            Write,
            ["toCollection", "size"],
            super::definition::convert_to_capped,
            "refused: a collection is capped from its creation or never"
        ),
        command!(
            "collMod",
            Command,
            DatabaseAdmin,
            ["index", "validator", "validationLevel", "validationAction", "viewOn", "pipeline"],
            super::definition::change,
            "changes a collection's validator or TTL index, or a view"
        ),
        command!(
            "collStats" | "collstats",
            Command,
            Read,
            ["scale"],
            super::statistics::collection,
            "sizes and engine counters of a collection"
        ),
        command!(
            "commitTransaction",
            Command,
            Nobody,
            ["recoveryToken", "commitTimestamp", "durableTimestamp"],
            super::sessions::no_transaction,
            "refused: there are no transactions",
            admin_only
        ),
        command!(
            "compact",
            Command,
            DatabaseAdmin,
            ["force"],
            super::administration::compact,
            "gives space of a collection back to the file system"
        ),
        command!(
            "configureFailPoint",
            Command,
            Manage,
            ["mode", "data"],
            super::parameters::configure_fail_point,
            "fails commands on demand, for tests",
            admin_only
        ),
        command!(
            "connectionStatus",
            Command,
            Nobody,
            ["showPrivileges"],
            super::login::connection_status,
            "who this connection is"
        ),
        command!(
            "connPoolStats",
            Command,
            Monitor,
            [],
            super::information::pools,
            "connections to other servers"
        ),
        command!(
            "convertToCapped",
            Command,
            Write,
            ["size"],
            super::definition::convert_to_capped,
            "refused: a collection is capped from its creation or never"
        ),
        command!(
            "coordinateCommitTransaction",
            Command,
            Manage,
            ["participants"],
            super::sessions::no_shards,
            "refused: there are no shards",
            admin_only
        ),
        command!(
            "count",
            Read,
            Read,
            ["query", "limit", "skip", "hint", "collation", "fields"],
            super::matches::count,
            "counts documents"
        ),
        command!(
            "create",
            Command,
            Write,
            [
                "capped",
                "autoIndexId",
                "idIndex",
                "size",
                "max",
                "flags",
                "storageEngine",
                "validator",
                "validationLevel",
                "validationAction",
                "indexOptionDefaults",
                "viewOn",
                "pipeline",
                "collation",
                "temp"
            ],
            super::definition::create,
            "creates a collection or view"
        ),
        command!(
            "createIndexes",
            Command,
            Write,
            ["indexes", "commitQuorum", "ignoreUnknownIndexOptions"],
            super::indexes::create,
            "builds indexes"
        ),
        command!(
            "createRole",
            Command,
            UserAdmin,
            ["privileges", "roles", "authenticationRestrictions"],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "createUser",
            Command,
            UserAdmin,
            ["pwd", "customData", "roles", "digestPassword", "mechanisms", "authenticationRestrictions"],
            super::users::create,
            "makes a user",
            secret
        ),
        command!(
            "currentOp",
            Command,
            Monitor,
            ["$all", "$ownOps"],
            super::operations::current,
            "what runs at the moment",
            admin_only,
            any_fields
        ),
        command!(
            "dataSize" | "datasize",
            Command,
            Read,
            ["keyPattern", "min", "max", "estimate"],
            super::statistics::data_size,
            "bytes and documents of a collection"
        ),
        command!(
            "dbStats" | "dbstats",
            Command,
            Read,
            ["scale", "freeStorage"],
            super::statistics::database,
            "sizes of a database"
        ),
        command!(
            "delete",
            Write,
            Write,
            ["deletes", "ordered", "let", "bypassDocumentValidation"],
            super::writes::delete,
            "deletes documents"
        ),
        command!(
            "distinct",
            Read,
            Read,
            ["key", "query", "collation", "hint"],
            super::matches::distinct,
            "the different values of a field"
        ),
        command!(
            "drop",
            Command,
            Write,
            [],
            super::namespaces::drop_collection,
            "drops a collection or view"
        ),
        command!(
            "dropAllRolesFromDatabase",
            Command,
            UserAdmin,
            [],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "dropAllUsersFromDatabase",
            Command,
            UserAdmin,
            [],
            super::users::drop_all,
            "removes all users of a database"
        ),
        command!(
            "dropDatabase",
            Command,
            DatabaseAdmin,
            [],
            super::namespaces::drop_database,
            "drops all collections of a database"
        ),
        command!(
            "dropIndexes" | "deleteIndexes",
            Command,
            Write,
            ["index"],
            super::indexes::drop,
            "drops indexes"
        ),
        command!(
            "dropRole",
            Command,
            UserAdmin,
            [],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!("dropUser", Command, UserAdmin, [], super::users::drop_one, "removes a user"),
        command!("endSessions", Command, Anybody, [], super::sessions::end, "ends sessions"),
        command!("explain", Read, Read, ["verbosity"], super::explain::run, "how a command would be run"),
        refused!("features"),
        command!(
            "find",
            Read,
            Read,
            [
                "filter",
                "sort",
                "projection",
                "hint",
                "skip",
                "limit",
                "batchSize",
                "singleBatch",
                "max",
                "min",
                "returnKey",
                "showRecordId",
                "tailable",
                "awaitData",
                "noCursorTimeout",
                "oplogReplay",
                "allowPartialResults",
                "allowDiskUse",
                "collation",
                "let",
                "ntoreturn",
                "snapshot",
                "term",
                "readOnce"
            ],
            super::find::run,
            "queries for documents"
        ),
        command!(
            "findAndModify" | "findandmodify",
            Write,
            Write,
            [
                "query",
                "sort",
                "remove",
                "update",
                "new",
                "fields",
                "upsert",
                "bypassDocumentValidation",
                "collation",
                "arrayFilters",
                "hint",
                "let"
            ],
            super::find_and_modify::run,
            "updates or removes one document and answers with it"
        ),
        command!(
            "fsync",
            Command,
            Manage,
            ["async", "lock"],
            super::administration::fsync,
            "makes a checkpoint, and locks against writes if asked to",
            admin_only
        ),
        command!(
            "fsyncUnlock",
            Command,
            Manage,
            [],
            super::administration::unlock,
            "ends the lock of fsync",
            admin_only
        ),
        command!(
            "getCmdLineOpts",
            Command,
            Monitor,
            [],
            super::information::command_line,
            "how the server was started",
            admin_only
        ),
        command!(
            "getDiagnosticData",
            Command,
            Monitor,
            [],
            super::statistics::diagnostic_data,
            "serverStatus and the machine in one sample",
            admin_only
        ),
        refused!("getLastError" | "getlasterror"),
        command!(
            "getLog",
            Command,
            Monitor,
            [],
            super::information::log,
            "the last lines of the log",
            admin_only
        ),
        command!(
            "getMore",
            Read,
            Anybody,
            ["collection", "batchSize", "term", "lastKnownCommittedOpTime"],
            super::cursors::get_more,
            "the next batch of a cursor"
        ),
        command!(
            "getParameter",
            Command,
            Monitor,
            [],
            super::parameters::get,
            "parameters of the server",
            admin_only,
            any_fields
        ),
        command!(
            "getShardVersion",
            Command,
            Manage,
            ["fullMetadata"],
            super::sharding::version,
            "what the shard knows of a sharded collection",
            admin_only
        ),
        command!(
            "grantPrivilegesToRole",
            Command,
            UserAdmin,
            ["privileges"],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "grantRolesToRole",
            Command,
            UserAdmin,
            ["roles"],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "grantRolesToUser",
            Command,
            UserAdmin,
            ["roles"],
            super::users::grant,
            "gives a user more roles"
        ),
        login!(
            "hello" | "isMaster" | "ismaster",
            Nobody,
            [
                "helloOk",
                "client",
                "compression",
                "saslSupportedMechs",
                "speculativeAuthenticate",
                "hostInfo",
                "topologyVersion",
                "maxAwaitTimeMS",
                "loadBalanced",
                "backpressure",
                "internalClient",
                "forShell"
            ],
            super::information::hello,
            "who this server is and what it takes",
            secret
        ),
        command!(
            "hostInfo",
            Command,
            Monitor,
            [],
            super::information::host_info,
            "the machine that the server runs on"
        ),
        command!(
            "insert",
            Write,
            Write,
            ["documents", "ordered", "bypassDocumentValidation"],
            super::writes::insert,
            "inserts documents"
        ),
        command!(
            "killAllSessions",
            Command,
            Manage,
            [],
            super::sessions::kill_all,
            "kills what runs in all sessions"
        ),
        command!(
            "killAllSessionsByPattern",
            Command,
            Manage,
            [],
            super::sessions::kill_by_pattern,
            "kills what runs in some sessions"
        ),
        command!("killCursors", Command, Anybody, ["cursors"], super::cursors::kill, "closes cursors"),
        command!(
            "killOp",
            Command,
            Manage,
            ["op"],
            super::operations::kill,
            "stops an operation",
            admin_only
        ),
        command!(
            "killSessions",
            Command,
            Anybody,
            [],
            super::sessions::kill,
            "kills what runs in one's own sessions"
        ),
        command!(
            "listCollections",
            Command,
            Read,
            ["filter", "nameOnly", "cursor", "authorizedCollections"],
            super::namespaces::list_collections,
            "the collections and views of a database"
        ),
        command!(
            "listCommands",
            Command,
            Nobody,
            [],
            super::information::list_commands,
            "the commands of the server"
        ),
        command!(
            "listDatabases",
            Command,
            Anybody,
            ["filter", "nameOnly", "authorizedDatabases"],
            super::namespaces::list_databases,
            "the databases and their sizes",
            admin_only
        ),
        command!(
            "listIndexes",
            Command,
            Read,
            ["cursor"],
            super::indexes::list,
            "the indexes of a collection"
        ),
        command!("logout", Command, Nobody, [], super::login::log_out, "ceases to be a user"),
        command!(
            "logRotate",
            Command,
            Manage,
            [],
            super::administration::rotate_log,
            "begins a new log file",
            admin_only
        ),
        command!(
            "moveChunk",
            Command,
            Manage,
            ["fromShard", "toShard", "toHost", "min", "max", "epoch", "chunkVersion", "now", "waitForDelete"],
            super::sharding::move_chunk,
            "internal: gives a chunk to another shard",
            admin_only
        ),
        command!("ping", Command, Nobody, [], super::information::ping, "whether the server answers"),
        command!(
            "profile",
            Command,
            DatabaseAdmin,
            ["slowms", "sampleRate", "filter"],
            super::operations::profile,
            "which operations are logged and kept"
        ),
        command!(
            "refreshSessions",
            Command,
            Anybody,
            [],
            super::sessions::refresh,
            "keeps sessions from timing out"
        ),
        command!(
            "reIndex",
            Command,
            DatabaseAdmin,
            [],
            super::administration::re_index,
            "rebuilds all indexes of a collection"
        ),
        command!(
            "renameCollection",
            Command,
            Write,
            ["to", "dropTarget", "stayTemp"],
            super::namespaces::rename,
            "gives a collection another name",
            admin_only
        ),
        command!(
            "replSetAbortPrimaryCatchUp",
            Command,
            Manage,
            [],
            super::repl_set_members::abort_catch_up,
            "ends a new primary's catching up",
            admin_only
        ),
        command!(
            "replSetFreeze",
            Command,
            Manage,
            [],
            super::repl_set_members::freeze,
            "does not seek election for some seconds",
            admin_only
        ),
        command!(
            "replSetGetConfig",
            Command,
            Monitor,
            ["commitmentStatus"],
            super::repl_set_config::get,
            "who is in the set",
            admin_only
        ),
        command!(
            "replSetGetRBID",
            Command,
            Monitor,
            [],
            super::repl_set_members::rollback_id,
            "how often this member has rolled back",
            admin_only
        ),
        command!(
            "replSetGetStatus",
            Command,
            Monitor,
            ["initialSync"],
            super::repl_set_members::status,
            "how the members of the set stand",
            admin_only
        ),
        command!(
            "replSetHeartbeat",
            Command,
            Manage,
            [
                "configVersion",
                "configTerm",
                "hbv",
                "from",
                "fromId",
                "term",
                "checkEmpty",
                "pv",
                "v",
                "primaryId"
            ],
            super::repl_set_members::heartbeat,
            "asks a member how it is; between members",
            admin_only
        ),
        command!(
            "replSetInitiate",
            Command,
            Manage,
            [],
            super::repl_set_config::initiate,
            "makes a replica set",
            admin_only
        ),
        command!(
            "replSetMaintenance",
            Command,
            Manage,
            [],
            super::repl_set_members::maintenance,
            "begins or ends maintenance",
            admin_only
        ),
        command!(
            "replSetReconfig",
            Command,
            Manage,
            ["force"],
            super::repl_set_config::reconfigure,
            "changes who is in the set",
            admin_only
        ),
        command!(
            "replSetRequestVotes",
            Command,
            Manage,
            [
                "setName",
                "dryRun",
                "term",
                "candidateIndex",
                "configVersion",
                "configTerm",
                "lastCommittedOp",
                "lastAppliedOpTime"
            ],
            super::repl_set_members::request_votes,
            "asks for a vote; between members",
            admin_only
        ),
        command!(
            "replSetStepDown",
            Command,
            Manage,
            ["secondaryCatchUpPeriodSecs", "force"],
            super::repl_set_members::step_down,
            "gives up being primary",
            admin_only
        ),
        command!(
            "replSetStepUp",
            Command,
            Manage,
            ["skipDryRun"],
            super::repl_set_members::step_up,
            "seeks election now",
            admin_only
        ),
        command!(
            "replSetSyncFrom",
            Command,
            Manage,
            [],
            super::repl_set_members::sync_from,
            "follows a member that is named",
            admin_only
        ),
        command!(
            "replSetUpdatePosition",
            Command,
            Manage,
            ["optimes"],
            super::repl_set_members::update_position,
            "how far members are; between members",
            admin_only
        ),
        command!(
            "revokePrivilegesFromRole",
            Command,
            UserAdmin,
            ["privileges"],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "revokeRolesFromRole",
            Command,
            UserAdmin,
            ["roles"],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "revokeRolesFromUser",
            Command,
            UserAdmin,
            ["roles"],
            super::users::revoke,
            "takes roles from a user"
        ),
        command!(
            "rolesInfo",
            Command,
            Anybody,
            ["showPrivileges", "showBuiltinRoles", "showAuthenticationRestrictions"],
            super::users_info::roles,
            "the built-in roles"
        ),
        login!(
            "saslContinue",
            Nobody,
            ["conversationId", "payload"],
            super::login::go_on,
            "continues a login",
            secret
        ),
        login!(
            "saslStart",
            Nobody,
            ["mechanism", "payload", "autoAuthorize", "options"],
            super::login::start,
            "begins a login",
            secret
        ),
        command!(
            "serverStatus",
            Command,
            Monitor,
            [],
            super::statistics::server,
            "what the server counts of itself",
            any_fields
        ),
        command!(
            "setFeatureCompatibilityVersion",
            Command,
            Manage,
            [],
            super::parameters::set_compatibility_version,
            "confirms the feature compatibility version",
            admin_only
        ),
        command!(
            "setParameter",
            Command,
            Manage,
            [],
            super::parameters::set,
            "changes parameters of the server",
            admin_only,
            any_fields
        ),
        command!(
            "shardingState",
            Command,
            Manage,
            [],
            super::sharding::state,
            "which shard of which cluster the server is",
            admin_only
        ),
        command!(
            "shutdown",
            Command,
            Manage,
            ["force", "timeoutSecs"],
            super::administration::shutdown,
            "stops the server",
            admin_only
        ),
        command!("startSession", Command, Anybody, [], super::sessions::start, "makes a session"),
        command!(
            "top",
            Command,
            Monitor,
            [],
            super::statistics::top,
            "the use of each collection",
            admin_only
        ),
        command!(
            "update",
            Write,
            Write,
            ["updates", "ordered", "bypassDocumentValidation", "let"],
            super::writes::update,
            "updates documents"
        ),
        command!(
            "updateRole",
            Command,
            UserAdmin,
            ["privileges", "roles", "authenticationRestrictions"],
            super::users_info::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "updateUser",
            Command,
            UserAdmin,
            ["pwd", "customData", "roles", "digestPassword", "mechanisms", "authenticationRestrictions"],
            super::users::update,
            "changes a user",
            secret
        ),
        command!(
            "usersInfo",
            Command,
            UserAdmin,
            [
                "showCredentials",
                "showCustomData",
                "showPrivileges",
                "showAuthenticationRestrictions",
                "filter"
            ],
            super::users_info::users,
            "the users there are"
        ),
        command!(
            "validate",
            Command,
            DatabaseAdmin,
            ["full", "scandata", "background", "enforceFastCount"],
            super::administration::validate,
            "checks a collection and its indexes"
        ),
        command!("whatsmyuri", Command, Nobody, [], super::login::own_address, "the client's own address"),
    ])
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

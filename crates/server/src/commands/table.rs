//! Table: every command, in alphabetical order.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Command, Kind, Run};
use crate::auth::Access;

macro_rules! command {
    ($name:literal $(| $alias:literal)*, $kind:ident, $access:ident, [$($field:literal),*], $run:path, $help:literal $(, $flag:ident)*) => {{
        #[allow(unused_mut, reason = "not every row has flags")]
        let mut command = Command {
            name: $name,
            aliases: &[$($alias),*],
            kind: Kind::$kind,
            admin_only: false,
            access: Access::$access,
            secret: false,
            fields: &[$($field),*],
            help: $help,
            run: Run::Plain($run),
            row: 0,
        };
        $(command.$flag = true;)*
        command
    }};
}

macro_rules! login {
    ($name:literal $(| $alias:literal)*, $access:ident, [$($field:literal),*], $run:path, $help:literal $(, $flag:ident)*) => {{
        #[allow(unused_mut, reason = "not every row has flags")]
        let mut command = Command {
            name: $name,
            aliases: &[$($alias),*],
            kind: Kind::Command,
            admin_only: false,
            access: Access::$access,
            secret: false,
            fields: &[$($field),*],
            help: $help,
            run: Run::Login($run),
            row: 0,
        };
        $(command.$flag = true;)*
        command
    }};
}

/// All commands.
pub(crate) static COMMANDS: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let mut all = vec![
        command!(
            "cloneCollectionAsCapped",
            Command,
            Write,
            ["toCollection", "size"],
            super::convert_to_capped::run,
            "refused: a collection is capped from its creation or never"
        ),
        command!(
            "collMod",
            Command,
            DatabaseAdmin,
            ["index", "validator", "validationLevel", "validationAction", "viewOn", "pipeline"],
            super::coll_mod::run,
            "changes a collection's validator or TTL index, or a view"
        ),
        command!(
            "compact",
            Command,
            DatabaseAdmin,
            ["force"],
            super::compact::run,
            "gives space of a collection back to the file system"
        ),
        command!(
            "convertToCapped",
            Command,
            Write,
            ["size"],
            super::convert_to_capped::run,
            "refused: a collection is capped from its creation or never"
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
            super::create::run,
            "creates a collection or view"
        ),
        command!(
            "createIndexes",
            Command,
            Write,
            ["indexes", "commitQuorum", "ignoreUnknownIndexOptions"],
            super::create_indexes::run,
            "builds indexes"
        ),
        command!(
            "delete",
            Write,
            Write,
            ["deletes", "ordered", "let", "bypassDocumentValidation"],
            super::delete::run,
            "deletes documents"
        ),
        command!("drop", Command, Write, [], super::drop::run, "drops a collection or view"),
        command!(
            "dropDatabase",
            Command,
            DatabaseAdmin,
            [],
            super::drop::database,
            "drops all collections of a database"
        ),
        command!(
            "dropIndexes" | "deleteIndexes",
            Command,
            Write,
            ["index"],
            super::drop_indexes::run,
            "drops indexes"
        ),
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
            "getMore",
            Read,
            Anybody,
            ["collection", "batchSize", "term", "lastKnownCommittedOpTime"],
            super::get_more::run,
            "the next batch of a cursor"
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
            super::hello::run,
            "who this server is and what it takes",
            secret
        ),
        command!(
            "insert",
            Write,
            Write,
            ["documents", "ordered", "bypassDocumentValidation"],
            super::insert::run,
            "inserts documents"
        ),
        command!("killCursors", Command, Anybody, ["cursors"], super::get_more::kill, "closes cursors"),
        command!(
            "listCollections",
            Command,
            Read,
            ["filter", "nameOnly", "cursor", "authorizedCollections"],
            super::list_collections::run,
            "the collections and views of a database"
        ),
        command!(
            "listDatabases",
            Command,
            Anybody,
            ["filter", "nameOnly", "authorizedDatabases"],
            super::list_databases::run,
            "the databases and their sizes",
            admin_only
        ),
        command!(
            "listIndexes",
            Command,
            Read,
            ["cursor"],
            super::list_indexes::run,
            "the indexes of a collection"
        ),
        command!("ping", Command, Nobody, [], super::ping::run, "whether the server answers"),
        command!(
            "reIndex",
            Command,
            DatabaseAdmin,
            [],
            super::compact::re_index,
            "builds all indexes of a collection anew"
        ),
        command!(
            "renameCollection",
            Command,
            Write,
            ["to", "dropTarget", "stayTemp"],
            super::rename_collection::run,
            "gives a collection another name",
            admin_only
        ),
        command!(
            "update",
            Write,
            Write,
            ["updates", "ordered", "bypassDocumentValidation", "let"],
            super::update::run,
            "updates documents"
        ),
        command!(
            "validate",
            Command,
            DatabaseAdmin,
            ["full", "scandata", "background", "enforceFastCount"],
            super::validate::run,
            "checks a collection and its indexes"
        ),
    ];
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

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
            "abortTransaction",
            Command,
            Nobody,
            ["recoveryToken"],
            super::sessions::no_transaction,
            "refused: there are no transactions",
            admin_only
        ),
        command!(
            "authenticate",
            Command,
            Nobody,
            ["mechanism", "user", "nonce", "key", "digestPassword"],
            super::sasl::refuse,
            "refused: there is SCRAM only",
            secret
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
            "configureFailPoint",
            Command,
            Manage,
            ["mode", "data"],
            super::configure_fail_point::run,
            "fails commands on demand, for tests",
            admin_only
        ),
        command!(
            "connectionStatus",
            Command,
            Nobody,
            ["showPrivileges"],
            super::connection_status::run,
            "who this connection is"
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
            "createRole",
            Command,
            UserAdmin,
            ["privileges", "roles", "authenticationRestrictions"],
            super::roles::refuse,
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
            "delete",
            Write,
            Write,
            ["deletes", "ordered", "let", "bypassDocumentValidation"],
            super::delete::run,
            "deletes documents"
        ),
        command!(
            "dropAllRolesFromDatabase",
            Command,
            UserAdmin,
            [],
            super::roles::refuse,
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
            "dropRole",
            Command,
            UserAdmin,
            [],
            super::roles::refuse,
            "refused: there are the built-in roles only"
        ),
        command!("dropUser", Command, UserAdmin, [], super::users::drop_one, "removes a user"),
        command!("endSessions", Command, Anybody, [], super::sessions::end, "ends sessions"),
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
        command!(
            "grantPrivilegesToRole",
            Command,
            UserAdmin,
            ["privileges"],
            super::roles::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "grantRolesToRole",
            Command,
            UserAdmin,
            ["roles"],
            super::roles::refuse,
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
        command!("killCursors", Command, Anybody, ["cursors"], super::get_more::kill, "closes cursors"),
        command!(
            "killSessions",
            Command,
            Anybody,
            [],
            super::sessions::kill,
            "kills what runs in one's own sessions"
        ),
        command!("logout", Command, Nobody, [], super::sasl::log_out, "ceases to be a user"),
        command!("ping", Command, Nobody, [], super::ping::run, "whether the server answers"),
        command!(
            "refreshSessions",
            Command,
            Anybody,
            [],
            super::sessions::refresh,
            "keeps sessions from timing out"
        ),
        command!(
            "revokePrivilegesFromRole",
            Command,
            UserAdmin,
            ["privileges"],
            super::roles::refuse,
            "refused: there are the built-in roles only"
        ),
        command!(
            "revokeRolesFromRole",
            Command,
            UserAdmin,
            ["roles"],
            super::roles::refuse,
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
            super::roles::info,
            "the built-in roles"
        ),
        login!(
            "saslContinue",
            Nobody,
            ["conversationId", "payload"],
            super::sasl::go_on,
            "goes on with a login",
            secret
        ),
        login!(
            "saslStart",
            Nobody,
            ["mechanism", "payload", "autoAuthorize", "options"],
            super::sasl::start,
            "begins a login",
            secret
        ),
        command!("startSession", Command, Anybody, [], super::sessions::start, "makes a session"),
        command!(
            "update",
            Write,
            Write,
            ["updates", "ordered", "bypassDocumentValidation", "let"],
            super::update::run,
            "updates documents"
        ),
        command!(
            "updateRole",
            Command,
            UserAdmin,
            ["privileges", "roles", "authenticationRestrictions"],
            super::roles::refuse,
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
            super::users_info::run,
            "the users there are"
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

//! The privilege that a command requires, as in mongod: an action on the resource that it names, and more if the command touches more. A
//! pipeline touches further collections: `$lookup` reads some, `$out` and `$merge` write some.

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::parse;
use crate::request::{CommandAccess, CommandRegistry, Request};
use crate::users::{ActionSet, PrivilegeResource, set};

/// Actions that are required on a resource.
pub(crate) type RequiredPrivilege<'a> = (ActionSet, PrivilegeResource<'a>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PrivilegeNeed<'a> {
    Nothing,
    /// A login, with any rights.
    Login,
    One(ActionSet, PrivilegeResource<'a>),
    Each(Vec<RequiredPrivilege<'a>>),
    /// All privileges of one of these lists.
    Any(Vec<Vec<RequiredPrivilege<'a>>>),
}

/// A command, or the one that `explain` contains.
struct RequestedCommand<'a> {
    name: &'static str,
    access: CommandAccess,
    database: &'a str,
    target: RawBsonRef<'a>,
    body: &'a RawDocument,
    /// The statements of an update.
    updates: Vec<&'a RawDocument>,
}

/// The privilege that a request requires; `explain` requires that of the command in it.
pub(crate) fn need_of<'a>(commands: &'static CommandRegistry, request: &Request<'a>) -> PrivilegeNeed<'a> {
    let is_update = request.command.name == "update";
    let mut asked = RequestedCommand {
        name: request.command.name,
        access: request.command.rules.access,
        database: request.database,
        target: request.target,
        body: request.body(),
        updates: if is_update { request.documents("updates").unwrap_or_default() } else { Vec::new() },
    };
    if request.command.name == "explain" {
        let RawBsonRef::Document(inner) = request.target else { return PrivilegeNeed::Login };
        let first = inner.iter().next().and_then(Result::ok);
        let Some((name, target)) = first else { return PrivilegeNeed::Login };
        let Some(command) = commands.find(name.as_str()) else { return PrivilegeNeed::Login };
        (asked.name, asked.access, asked.target, asked.body) =
            (command.name, command.rules.access, target, inner);
        if let Some(RawBsonRef::Array(updates)) = parse::field(inner, "updates") {
            asked.updates = updates.into_iter().flatten().filter_map(|one| one.as_document()).collect();
        }
    }
    asked.need()
}

impl<'a> RequestedCommand<'a> {
    fn need(&self) -> PrivilegeNeed<'a> {
        let here = self.here();
        let cluster = PrivilegeResource::Cluster;
        match self.name {
            "aggregate" => of_aggregate(self.database, self.target, self.body),
            "insert" => PrivilegeNeed::One(set![insert] | self.bypass(), here),
            "update" => {
                let upserts =
                    self.updates.iter().any(|update| parse::boolean(*update, "upsert").unwrap_or(false));
                PrivilegeNeed::One(set![update] | self.bypass() | upserting(upserts), here)
            }
            "findAndModify" => PrivilegeNeed::One(self.find_and_modify(), here),
            "create" => self.creation(),
            "collMod" => match self.view(set![collMod]) {
                Some(view) => view,
                None => PrivilegeNeed::One(set![collMod], here),
            },
            "cloneCollectionAsCapped" => {
                let to = self.string("toCollection");
                PrivilegeNeed::Each(vec![
                    (set![find], here),
                    (
                        set![insert createIndex convertToCapped],
                        PrivilegeResource::Collection(self.database, to),
                    ),
                ])
            }
            "renameCollection" => self.renaming(),
            "profile" if parse::integer_of(self.target) == Some(-1) && !self.changes_profiler() => {
                let profile = PrivilegeResource::Collection(self.database, "system.profile");
                PrivilegeNeed::Any(vec![
                    vec![(set![find], profile)],
                    vec![(set![enableProfiler], self.whole())],
                ])
            }
            // The reply shows the databases that the user may read.
            "listDatabases" => PrivilegeNeed::Login,
            "currentOp" if parse::boolean(self.body, "$ownOps").unwrap_or(false) => PrivilegeNeed::Login,
            "getDiagnosticData" => PrivilegeNeed::Each(vec![
                (set![replSetGetStatus serverStatus], cluster),
                (set![collStats], PrivilegeResource::Collection("local", "oplog.rs")),
            ]),
            "getShardVersion" => PrivilegeNeed::One(set![getShardVersion], split(self.target_name())),
            "usersInfo" => self.users_info(),
            // Named roles are checked when their names are known.
            "rolesInfo" if parse::integer_of(self.target).is_none() => PrivilegeNeed::Login,
            "rolesInfo" => PrivilegeNeed::One(set![viewRole], self.whole()),
            "_mergeAuthzCollections" => self.merging_users(),
            "createUser" => self.granting(vec![(set![createUser] | self.restricting(), self.whole())]),
            "grantRolesToUser" => self.granting(Vec::new()),
            "revokeRolesFromUser" => PrivilegeNeed::Each(self.roles(set![revokeRole])),
            "updateUser" => self.user_update(),
            name => match of_collection(name) {
                Some(action) => PrivilegeNeed::One(action, here),
                None => match (of_database(name), of_cluster(name)) {
                    (Some(actions), _) => PrivilegeNeed::One(actions, self.whole()),
                    (None, Some(actions)) => PrivilegeNeed::One(actions, cluster),
                    (None, None) => self.of_access(),
                },
            },
        }
    }

    /// The need of a command that names no resource: of a client's command its login, of a member's the right of members.
    fn of_access(&self) -> PrivilegeNeed<'a> {
        match self.access {
            CommandAccess::Nobody => PrivilegeNeed::Nothing,
            CommandAccess::Anybody => PrivilegeNeed::Login,
            _ => PrivilegeNeed::One(set![internal], PrivilegeResource::Cluster),
        }
    }

    /// The collection that the command names.
    fn here(&self) -> PrivilegeResource<'a> {
        PrivilegeResource::Collection(self.database, self.target_name())
    }

    fn whole(&self) -> PrivilegeResource<'a> {
        PrivilegeResource::Collection(self.database, "")
    }

    fn target_name(&self) -> &'a str {
        match self.target {
            RawBsonRef::String(name) => name,
            _ => "",
        }
    }

    fn string(&self, name: &str) -> &'a str {
        parse::string(self.body, name).ok().flatten().unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        parse::boolean(self.body, name).unwrap_or(false)
    }

    /// The action for a write that is not checked by the collection's validator.
    fn bypass(&self) -> ActionSet {
        if self.flag("bypassDocumentValidation") {
            set![bypassDocumentValidation]
        } else {
            ActionSet::default()
        }
    }

    fn find_and_modify(&self) -> ActionSet {
        if self.flag("remove") {
            return set![find remove];
        }
        set![find update] | self.bypass() | upserting(self.flag("upsert"))
    }

    /// `createCollection` or `insert` suffices for a collection.
    fn creation(&self) -> PrivilegeNeed<'a> {
        if let Some(view) = self.view(set![createCollection]) {
            return view;
        }
        let capped = if self.flag("capped") { set![convertToCapped] } else { ActionSet::default() };
        let either = [set![createCollection], set![insert]];
        PrivilegeNeed::Any(either.map(|action| vec![(action | capped, self.here())]).to_vec())
    }

    /// A view shows its source, so a user who makes or changes one must be allowed to read that.
    fn view(&self, action: ActionSet) -> Option<PrivilegeNeed<'a>> {
        let on = parse::string(self.body, "viewOn").ok().flatten()?;
        let mut needs =
            vec![(action, self.here()), (set![find], PrivilegeResource::Collection(self.database, on))];
        if let Some(RawBsonRef::Array(stages)) = parse::field(self.body, "pipeline") {
            of_stages(self.database, on, stages, &mut needs);
        }
        Some(PrivilegeNeed::Each(needs))
    }

    fn renaming(&self) -> PrivilegeNeed<'a> {
        let (from, to) = (split(self.target_name()), split(self.string("to")));
        let more = if self.flag("dropTarget") { set![dropCollection] } else { ActionSet::default() };
        let mut ways = vec![vec![(set![find dropCollection], from), (set![insert createIndex] | more, to)]];
        if let (PrivilegeResource::Collection(source, old), PrivilegeResource::Collection(target, new)) =
            (from, to)
            && source == target
            && ![old, new].iter().any(|name| name.starts_with("system."))
        {
            ways.push(vec![(set![renameCollectionSameDB], PrivilegeResource::Collection(source, ""))]);
        }
        PrivilegeNeed::Any(ways)
    }

    fn changes_profiler(&self) -> bool {
        ["slowms", "sampleRate"].iter().any(|name| parse::field(self.body, name).is_some())
    }

    /// Other cases of named users are checked when the names are known.
    fn users_info(&self) -> PrivilegeNeed<'a> {
        match self.target {
            RawBsonRef::Document(which) if parse::field(which, "forAllDBs").is_some() => {
                PrivilegeNeed::One(set![viewUser], PrivilegeResource::Cluster)
            }
            RawBsonRef::String(_) | RawBsonRef::Document(_) | RawBsonRef::Array(_) => PrivilegeNeed::Login,
            _ => PrivilegeNeed::One(set![viewUser], self.whole()),
        }
    }

    /// The last step of a mongorestore that restores users: users and roles of all databases, read from temporary collections.
    fn merging_users(&self) -> PrivilegeNeed<'a> {
        let dropping = if self.flag("drop") { set![dropRole dropUser] } else { ActionSet::default() };
        let actions = set![createRole createUser grantRole revokeRole] | dropping;
        let from = ["tempUsersCollection", "tempRolesCollection"].map(|name| self.string(name));
        let reads = from.into_iter().filter(|name| !name.is_empty()).map(|name| (set![find], split(name)));
        let all = (actions, PrivilegeResource::Collection("", ""));
        PrivilegeNeed::Each(std::iter::once(all).chain(reads).collect())
    }

    /// The action for a login that is restricted to addresses.
    fn restricting(&self) -> ActionSet {
        let restricted = parse::field(self.body, "authenticationRestrictions").is_some();
        if restricted { set![setAuthenticationRestriction] } else { ActionSet::default() }
    }

    /// An action on the database of each role that the command names.
    fn roles(&self, action: ActionSet) -> Vec<RequiredPrivilege<'a>> {
        let Some(RawBsonRef::Array(roles)) = parse::field(self.body, "roles") else { return Vec::new() };
        let database = |role: RawBsonRef<'a>| match role {
            RawBsonRef::Document(role) => parse::string(role, "db").ok().flatten().unwrap_or(self.database),
            _ => self.database,
        };
        let databases = roles.into_iter().flatten().map(database);
        databases.map(|of| (action, PrivilegeResource::Collection(of, ""))).collect()
    }

    /// A role may be granted by who may grant the roles of its database.
    fn granting(&self, mut needs: Vec<RequiredPrivilege<'a>>) -> PrivilegeNeed<'a> {
        needs.extend(self.roles(set![grantRole]));
        PrivilegeNeed::Each(needs)
    }

    /// New roles replace old ones of any database.
    fn user_update(&self) -> PrivilegeNeed<'a> {
        let has = |name: &str| parse::field(self.body, name).is_some();
        let mut needs = Vec::new();
        if has("pwd") || has("mechanisms") {
            needs.push((set![changePassword], self.whole()));
        }
        if has("customData") {
            needs.push((set![changeCustomData], self.whole()));
        }
        needs.push((self.restricting(), self.whole()));
        if has("roles") {
            needs.push((set![revokeRole], PrivilegeResource::Collection("", "")));
        }
        self.granting(needs)
    }
}

fn upserting(upserts: bool) -> ActionSet {
    if upserts { set![insert] } else { ActionSet::default() }
}

/// The resource of a full name, `database.collection`.
fn split(name: &str) -> PrivilegeResource<'_> {
    let (database, collection) = name.split_once('.').unwrap_or((name, ""));
    PrivilegeResource::Collection(database, collection)
}

/// The action of a command on the collection that it names.
fn of_collection(name: &str) -> Option<ActionSet> {
    Some(match name {
        "find" | "count" | "distinct" | "dataSize" => set![find],
        "delete" => set![remove],
        "collStats" => set![collStats],
        "compact" => set![compact],
        "convertToCapped" => set![convertToCapped],
        "createIndexes" => set![createIndex],
        "drop" => set![dropCollection],
        "dropIndexes" => set![dropIndex],
        "listIndexes" => set![listIndexes],
        "reIndex" => set![reIndex],
        "validate" => set![validate],
        _ => return None,
    })
}

/// The action of a command on the database in which it runs.
fn of_database(name: &str) -> Option<ActionSet> {
    Some(match name {
        "dbStats" => set![dbStats],
        "dropDatabase" => set![dropDatabase],
        "listCollections" => set![listCollections],
        "profile" => set![enableProfiler],
        "dropUser" | "dropAllUsersFromDatabase" => set![dropUser],
        "createRole" => set![createRole],
        "dropRole" | "dropAllRolesFromDatabase" => set![dropRole],
        "grantRolesToRole" | "grantPrivilegesToRole" => set![grantRole],
        "revokeRolesFromRole" | "revokePrivilegesFromRole" => set![revokeRole],
        "updateRole" => set![grantRole revokeRole],
        _ => return None,
    })
}

/// The action of a command on the server as a whole.
fn of_cluster(name: &str) -> Option<ActionSet> {
    Some(match name {
        "appendOplogNote" => set![appendOplogNote],
        "cleanupOrphaned" => set![cleanupOrphaned],
        // In mongod it needs a server that was started for tests; here it needs who may set parameters.
        "configureFailPoint" | "setParameter" => set![setParameter],
        "connPoolStats" => set![connPoolStats],
        "currentOp" => set![inprog],
        "fsync" => set![fsync],
        "fsyncUnlock" => set![unlock],
        "getCmdLineOpts" => set![getCmdLineOpts],
        "getLog" => set![getLog],
        "getParameter" => set![getParameter],
        "hostInfo" => set![hostInfo],
        "killAllSessions" | "killAllSessionsByPattern" => set![killAnySession],
        "killOp" => set![killop],
        "logRotate" => set![logRotate],
        "replSetGetConfig" => set![replSetGetConfig],
        "replSetGetStatus" => set![replSetGetStatus],
        "replSetInitiate" | "replSetReconfig" => set![replSetConfigure],
        "replSetAbortPrimaryCatchUp"
        | "replSetFreeze"
        | "replSetMaintenance"
        | "replSetStepDown"
        | "replSetStepUp"
        | "replSetSyncFrom" => set![replSetStateChange],
        "serverStatus" => set![serverStatus],
        "setFeatureCompatibilityVersion" => set![setFeatureCompatibilityVersion],
        "shardingState" => set![shardingState],
        "shutdown" => set![shutdown],
        "top" => set![top],
        _ => return None,
    })
}

/// The parts of an aggregate, also of an explained one: its database, its first field, its body.
fn of_aggregate<'a>(database: &'a str, target: RawBsonRef<'a>, body: &'a RawDocument) -> PrivilegeNeed<'a> {
    let target = match target {
        RawBsonRef::String(name) => name,
        _ => "",
    };
    let Some(RawBsonRef::Array(stages)) = parse::field(body, "pipeline") else {
        return PrivilegeNeed::One(set![find], PrivilegeResource::Collection(database, target));
    };
    let mut needs = Vec::new();
    let first = stages.into_iter().next().and_then(Result::ok);
    let first_name = first.and_then(stage_of).map_or("", |(name, _)| name);
    let own = !matches!(
        first_name,
        "$currentOp" | "$listLocalSessions" | "$listSessions" | "$documents" | "$collStats" | "$indexStats"
    );
    if own {
        needs.push((set![find], PrivilegeResource::Collection(database, target)));
    }
    of_stages(database, target, stages, &mut needs);
    if parse::boolean(body, "bypassDocumentValidation").unwrap_or(false) {
        let writes = |needed: ActionSet| needed.without(set![insert update]) != needed;
        let written = needs.iter_mut().filter(|(needed, _)| writes(*needed));
        written.for_each(|(needed, _)| *needed = *needed | set![bypassDocumentValidation]);
    }
    if needs.is_empty() { PrivilegeNeed::Login } else { PrivilegeNeed::Each(needs) }
}

/// Adds what the stages of a pipeline over `collection` need.
fn of_stages<'a>(
    database: &'a str,
    collection: &'a str,
    stages: &'a RawArray,
    needs: &mut Vec<RequiredPrivilege<'a>>,
) {
    for stage in stages.into_iter().flatten() {
        if let Some((name, value)) = stage_of(stage) {
            of_stage(database, collection, name, value, needs);
        }
    }
}

fn of_stage<'a>(
    database: &'a str,
    collection: &'a str,
    name: &str,
    value: RawBsonRef<'a>,
    needs: &mut Vec<RequiredPrivilege<'a>>,
) {
    let inner = match value {
        RawBsonRef::Document(inner) => inner,
        _ => parse::empty(),
    };
    match name {
        "$lookup" | "$graphLookup" => {
            let from = parse::field(inner, "from").and_then(|from| namespace_of(database, from));
            needs.extend(from.map(|resource| (set![find], resource)));
            nested(database, collection, inner, needs);
        }
        "$unionWith" => {
            let with = match value {
                RawBsonRef::Document(inner) => parse::field(inner, "coll"),
                other => Some(other),
            };
            needs.extend(with.and_then(|with| namespace_of(database, with)).map(|at| (set![find], at)));
            nested(database, collection, inner, needs);
        }
        "$facet" => {
            for (_, branch) in inner.iter().flatten() {
                if let RawBsonRef::Array(stages) = branch {
                    of_stages(database, collection, stages, needs);
                }
            }
        }
        "$out" => {
            needs.extend(namespace_of(database, value).map(|resource| (set![insert remove], resource)));
        }
        "$merge" => {
            let into = match value {
                RawBsonRef::Document(inner) => parse::field(inner, "into"),
                other => Some(other),
            };
            let actions = merging(inner);
            needs.extend(into.and_then(|into| namespace_of(database, into)).map(|at| (actions, at)));
        }
        "$collStats" => needs.push((set![collStats], PrivilegeResource::Collection(database, collection))),
        "$indexStats" => needs.push((set![indexStats], PrivilegeResource::Collection(database, collection))),
        "$planCacheStats" => {
            needs.push((set![planCacheRead], PrivilegeResource::Collection(database, collection)));
        }
        "$currentOp" | "$listLocalSessions" | "$listSessions"
            if parse::boolean(inner, "allUsers").unwrap_or(true) =>
        {
            let action = if name == "$currentOp" { set![inprog] } else { set![listSessions] };
            needs.push((action, PrivilegeResource::Cluster));
        }
        _ => {}
    }
}

/// The actions of a `$merge`: it inserts unless the stage says otherwise, and updates unless a document that exists makes it fail.
fn merging(stage: &RawDocument) -> ActionSet {
    let text = |name: &str| parse::string(stage, name).ok().flatten().unwrap_or_default();
    let inserts = upserting(!matches!(text("whenNotMatched"), "fail" | "discard"));
    let updates = if text("whenMatched") == "fail" { ActionSet::default() } else { set![update] };
    inserts | updates
}

fn nested<'a>(
    database: &'a str,
    collection: &'a str,
    stage: &'a RawDocument,
    needs: &mut Vec<RequiredPrivilege<'a>>,
) {
    if let Some(RawBsonRef::Array(stages)) = parse::field(stage, "pipeline") {
        of_stages(database, collection, stages, needs);
    }
}

/// A stage's name and argument.
fn stage_of(stage: RawBsonRef<'_>) -> Option<(&str, RawBsonRef<'_>)> {
    let RawBsonRef::Document(stage) = stage else { return None };
    let (name, value) = stage.iter().next()?.ok()?;
    Some((name.as_str(), value))
}

/// `"collection"` or `{db, coll}`.
fn namespace_of<'a>(database: &'a str, value: RawBsonRef<'a>) -> Option<PrivilegeResource<'a>> {
    match value {
        RawBsonRef::String(name) => Some(PrivilegeResource::Collection(database, name)),
        RawBsonRef::Document(inner) => {
            let name = parse::string(inner, "coll").ok().flatten()?;
            let database = parse::string(inner, "db").ok().flatten().unwrap_or(database);
            Some(PrivilegeResource::Collection(database, name))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;

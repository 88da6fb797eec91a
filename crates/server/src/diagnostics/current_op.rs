//! What every connection does at the moment: the documents of `currentOp` and `$currentOp`, and the end of one by `killOp`.

use bson::{DateTime, Document, doc};
use fathom_query::Code;

use super::usage::Use;
use crate::client::{Activity, Client};
use crate::commands;
use crate::instance::Instance;

/// What `currentOp` is to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Connections that do nothing, too.
    pub(crate) idle: bool,
    /// What others do, too; without logins everybody is the same user.
    pub(crate) all_users: bool,
}

/// One document for each connection that runs a command, as `asking` may see them.
pub(crate) fn current_operations(instance: &Instance, asking: &Client, shown: Shown) -> Vec<Document> {
    let users = asking.users();
    let host = super::build::host(instance);
    let mut documents = Vec::new();
    for client in instance.clients.all() {
        let activity = client.activity();
        let wanted = (shown.idle || activity.since.is_some())
            && (shown.all_users || !instance.config.auth || client.users() == users);
        if wanted {
            documents.push(describe(&client, &activity, &host));
        }
    }
    documents
}

/// Asks the operation of this number to stop; false if no connection runs it.
pub(crate) fn kill_operation(instance: &Instance, asking: &Client, operation: u64, all_users: bool) -> bool {
    let users = asking.users();
    let may = |client: &Client| all_users || !instance.config.auth || client.users() == users;
    let clients = instance.clients.all();
    clients.iter().any(|client| may(client) && client.interrupt(operation, Code::Interrupted))
}

fn describe(client: &Client, activity: &Activity, host: &str) -> Document {
    let mut document = doc! {
        "type": "op",
        "host": host,
        "desc": format!("conn{}", client.id),
        "connectionId": i32::try_from(client.id).unwrap_or(i32::MAX),
        "client": &client.remote,
    };
    if let Some(name) = client.app_name() {
        document.insert("appName", name);
    }
    if let Some(metadata) = client.metadata() {
        document.insert("clientMetadata", metadata);
    }
    let users: Vec<Document> =
        client.users().into_iter().map(|(user, db)| doc! { "user": user, "db": db }).collect();
    if !users.is_empty() {
        document.insert("effectiveUsers", users);
    }
    document.insert("active", activity.since.is_some());
    document.insert("currentOpTime", crate::log::time_text(DateTime::now()));
    if let Some(since) = activity.since {
        let elapsed = since.elapsed();
        let micros = i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX);
        document.insert("opid", i64::try_from(activity.operation).unwrap_or(i64::MAX));
        document.insert("secs_running", micros / 1_000_000);
        document.insert("microsecs_running", micros);
        describe_command(&mut document, activity);
    }
    document
}

fn describe_command(document: &mut Document, activity: &Activity) {
    let (name, target) = match activity.command.iter().next() {
        Some((name, target)) => (name.as_str(), target.as_str()),
        None => ("", None),
    };
    let command = commands::find(name);
    let operation = Use::of(command.map_or("", |command| command.name)).name();
    let collection = match (operation, activity.command.get_str("collection")) {
        ("getmore", Ok(collection)) => collection,
        _ => target.unwrap_or("$cmd"),
    };
    document.insert("op", operation);
    document.insert("ns", format!("{}.{collection}", activity.database));
    let secret = command.is_none_or(|command| command.secret);
    document.insert(
        "command",
        if secret {
            doc! { name: 1 }
        } else {
            activity.command.clone()
        },
    );
    document.insert("numYields", 0);
    document.insert("waitingForLock", false);
}

//! Authentication and authorization: logins by SCRAM, and the rights that a command needs from the roles of its user. The users are in `users`.
//!
//! Without `--auth` and `--keyFile` every client may run every command; users can be created all the same. The only
//! roles are MongoDB's built-in ones; X.509, LDAP and Kerberos are not supported.
//!
//! A command is refused in mongod's words, with the command as the shell would print it but without secrets.

mod login;
mod needs;
mod user_changes;

use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use crate::Result;
use crate::client::Client;
use crate::operation_context::OperationContext;
use crate::request::Request;
use crate::users::{ActionSet, PrivilegeResource, PrivilegeSet, Users, set};

use needs::{PrivilegeNeed, RequiredPrivilege};

pub(crate) use login::{Conversation, speculate, start, step, write_mechanisms};

/// Refuses a command that the client may not run (13).
pub(crate) fn authorize(op: &OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    if !op.instance.users.is_enabled() {
        return Ok(());
    }
    let need = needs::need_of(op.instance.commands, request);
    if need == PrivilegeNeed::Nothing {
        return Ok(());
    }
    let mut granted = op.client.granted();
    granted.refresh(&op.instance.users, op.client);
    if !granted.is_known() {
        return if is_first_user(op, request) { Ok(()) } else { Err(needs_login(request)) };
    }
    let each = |needs: Vec<RequiredPrivilege<'_>>| {
        needs.into_iter().all(|(actions, resource)| granted.allows(actions, resource))
    };
    let allowed = match need {
        PrivilegeNeed::Nothing | PrivilegeNeed::Login => true,
        PrivilegeNeed::One(actions, resource) => granted.allows(actions, resource),
        PrivilegeNeed::Each(needs) => each(needs),
        PrivilegeNeed::Any(ways) => ways.into_iter().any(each),
    };
    if allowed { Ok(()) } else { Err(not_authorized(request)) }
}

/// Whether the user of this connection has these actions on `resource`; always true without `--auth`. For commands that learn
/// only while running which resources they touch.
pub(crate) fn may(op: &OperationContext<'_>, actions: ActionSet, resource: PrivilegeResource<'_>) -> bool {
    with_granted(op, |granted| granted.allows(actions, resource))
}

/// Whether `listDatabases` shows a database to the user of this connection, as in mongod: all of them, or those that he may touch.
pub(crate) fn may_see_database(op: &OperationContext<'_>, database: &str) -> bool {
    with_granted(op, |granted| {
        granted.allows(set![listDatabases], PrivilegeResource::Cluster) || granted.touches(database)
    })
}

fn with_granted(op: &OperationContext<'_>, look: impl FnOnce(&PrivilegeSet) -> bool) -> bool {
    if !op.instance.users.is_enabled() {
        return true;
    }
    let mut granted = op.client.granted();
    granted.refresh(&op.instance.users, op.client);
    look(&granted)
}

/// The localhost exception: while no users exist, a client on this machine may create the first one, in `admin`.
fn is_first_user(op: &OperationContext<'_>, request: &Request<'_>) -> bool {
    request.command.name == "createUser"
        && request.database == "admin"
        && op.instance.users.is_empty()
        && login::is_local(&op.client.remote)
}

impl PrivilegeSet {
    /// Computes the privileges again if a user has changed since. Users that were dropped are logged out.
    fn refresh(&mut self, users: &Users, client: &Client) {
        let generation = users.generation();
        if self.generation == generation {
            return;
        }
        let mut here = client.users();
        let before = here.len();
        here.retain(|(name, database)| users.get(database, name).is_some());
        self.privileges = here
            .iter()
            .filter_map(|(name, database)| users.get(database, name))
            .flat_map(|user| user.roles.iter().flat_map(|role| role.privileges()).collect::<Vec<_>>())
            .collect();
        self.known = !here.is_empty();
        if here.len() != before {
            client.keep_users(here);
        }
        self.generation = generation;
    }
}

/// The number of bytes of a command that a refusal repeats.
const MAX_SHOWN_BYTES: usize = 2000;
/// Fields whose values are secrets.
const SECRETS: &[&str] = &["pwd", "payload", "speculativeAuthenticate", "key", "digest"];

/// No user has logged in.
#[cold]
fn needs_login(request: &Request<'_>) -> Failure {
    Failure::new(Code::Unauthorized, format!("command {} requires authentication", request.command.name))
}

/// The user that logged in may not do this.
#[cold]
fn not_authorized(request: &Request<'_>) -> Failure {
    let mut text = String::new();
    write_document(&mut text, request.body());
    if text.len() >= MAX_SHOWN_BYTES {
        text.push_str("...");
    }
    Failure::new(
        Code::Unauthorized,
        format!("not authorized on {} to execute command {text}", request.database),
    )
}

fn write_document(text: &mut String, document: &RawDocument) {
    text.push('{');
    for (place, (name, value)) in document.iter().flatten().enumerate() {
        if text.len() >= MAX_SHOWN_BYTES {
            return;
        }
        text.push_str(if place == 0 { " " } else { ", " });
        text.push_str(name.as_str());
        text.push_str(": ");
        if SECRETS.contains(&name.as_str()) {
            text.push_str("\"xxx\"");
        } else {
            write_value(text, value);
        }
    }
    text.push_str(" }");
}

fn write_value(text: &mut String, value: RawBsonRef<'_>) {
    if text.len() >= MAX_SHOWN_BYTES {
        return;
    }
    match value {
        RawBsonRef::Document(inner) => write_document(text, inner),
        RawBsonRef::Array(items) => {
            text.push('[');
            for (place, item) in items.into_iter().flatten().enumerate() {
                text.push_str(if place == 0 { " " } else { ", " });
                write_value(text, item);
            }
            text.push_str(" ]");
        }
        RawBsonRef::String(inner) => {
            let shown: String = inner.chars().take(MAX_SHOWN_BYTES).collect();
            text.push_str(&format!("{shown:?}"));
        }
        RawBsonRef::Double(number) => text.push_str(&format!("{number:?}")),
        RawBsonRef::Int32(number) => text.push_str(&number.to_string()),
        RawBsonRef::Int64(number) => text.push_str(&number.to_string()),
        RawBsonRef::Boolean(truth) => text.push_str(if truth { "true" } else { "false" }),
        RawBsonRef::Null => text.push_str("null"),
        RawBsonRef::ObjectId(id) => text.push_str(&format!("ObjectId('{id}')")),
        RawBsonRef::Binary(binary) => match binary.bytes.try_into() {
            Ok(bytes) if binary.subtype == bson::spec::BinarySubtype::Uuid => {
                text.push_str(&format!("UUID(\"{}\")", bson::Uuid::from_bytes(bytes)));
            }
            _ => {
                text.push_str(&format!("BinData({}, {} bytes)", u8::from(binary.subtype), binary.bytes.len()))
            }
        },
        other => text.push_str(crate::parse::type_name(other)),
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn secrets_are_not_repeated_and_long_commands_are_cut() {
        let mut text = String::new();
        let command = rawdoc! { "createUser": "u", "pwd": "hidden", "roles": [{ "role": "r" }], "x": 1.5 };
        write_document(&mut text, &command);
        assert_eq!(text, r#"{ createUser: "u", pwd: "xxx", roles: [ { role: "r" } ], x: 1.5 }"#);
        let mut text = String::new();
        write_document(&mut text, &rawdoc! { "a": "y".repeat(100_000), "b": 1 });
        assert!(text.len() < 2 * MAX_SHOWN_BYTES, "{}", text.len());
    }
}

//! Who may do what: users, logins by SCRAM, and the rights that roles give.
//!
//! Without `--auth` and `--keyFile` everybody may do everything, and users can be made all the same. There are MongoDB's
//! built-in roles and no others; no X.509, LDAP or Kerberos.

mod access;
mod granted;
mod key_file;
mod login;
mod needs;
mod pipelines;
mod privilege;
mod refusal;
mod rights;
mod roles;
mod user;
mod user_changes;
mod users;

pub(crate) use access::Access;
pub(crate) use granted::Granted;
pub(crate) use login::{Conversation, speculate, start, step, write_mechanisms};
pub(crate) use privilege::Place;
pub(crate) use rights::Rights;
pub(crate) use roles::{Role, built_in};
pub(crate) use user::{User, roles_array};
pub(crate) use users::{SCHEMA_VERSION, Users};

use crate::Result;
use crate::operation::Operation;
use crate::request::Request;
use needs::Need;

/// Refuses a command that the client may not run (13).
pub(crate) fn authorize(op: &Operation<'_>, request: &Request<'_>) -> Result<()> {
    if !op.instance.users.is_enabled() {
        return Ok(());
    }
    let need = needs::need_of(request);
    if need == Need::Nothing {
        return Ok(());
    }
    let mut granted = op.client.granted();
    granted.refresh(&op.instance.users, op.client);
    if !granted.is_known() {
        return if is_first_user(op, request) { Ok(()) } else { Err(refusal::needs_login(request)) };
    }
    let allowed = match need {
        Need::Nothing | Need::Login => true,
        Need::One(rights, place) => granted.allows(rights, place),
        Need::Each(needs) => needs.into_iter().all(|(rights, place)| granted.allows(rights, place)),
    };
    if allowed { Ok(()) } else { Err(refusal::not_authorized(request)) }
}

/// Whether the user of this connection has any of `rights` at `place`; always so without `--auth`. For commands that find out
/// on their way what they touch.
pub(crate) fn may(op: &Operation<'_>, rights: Rights, place: Place<'_>) -> bool {
    if !op.instance.users.is_enabled() {
        return true;
    }
    let mut granted = op.client.granted();
    granted.refresh(&op.instance.users, op.client);
    granted.allows(rights, place)
}

/// Whether `listDatabases` shows a database to the user of this connection.
pub(crate) fn may_see_database(op: &Operation<'_>, database: &str) -> bool {
    may(op, Rights::DATABASES, Place::Cluster)
        || may(op, Rights::FIND | Rights::LIST, Place::Collection(database, ""))
}

/// The localhost exception: while there are no users, who comes from this machine may make the first one, in `admin`.
fn is_first_user(op: &Operation<'_>, request: &Request<'_>) -> bool {
    request.command.name == "createUser"
        && request.database == "admin"
        && op.instance.users.is_empty()
        && login::is_local(&op.client.remote)
}

//! `listCommands`: every command that this server has, without those that it refuses.

use super::{COMMANDS, Reply};
use crate::Result;
use crate::auth::Access;
use crate::operation::Operation;
use crate::request::Request;

/// Writes them.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(_op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut commands = reply.begin_document("commands");
    for command in COMMANDS.iter().filter(|command| !super::refused::is_refused(command.name)) {
        let mut about = commands.begin_document(command.name);
        about.string("help", command.help);
        about.bool("requiresAuth", command.access != Access::Nobody);
        about.bool("secondaryOk", true);
        about.bool("adminOnly", command.admin_only);
    }
    Ok(())
}

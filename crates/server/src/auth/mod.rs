//! Who may do what: users, logins by SCRAM, and the rights that roles give.

use fathom_errors::{Error, Kind};

use crate::Result;
use crate::commands::Reply;
use crate::config::Config;
use crate::dispatch::Request;
use crate::operation::Operation;

/// Who may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Whoever is connected, logged in or not.
    Nobody,
    /// Whoever is logged in.
    Anybody,
    /// Who may read the command's database.
    Read,
    /// Who may write it.
    Write,
    /// Who may administer the database (indexes, drops, profile).
    DatabaseAdmin,
    /// Who may administer the users of the database.
    UserAdmin,
    /// Who may watch the server.
    Monitor,
    /// Who may manage the server.
    Manage,
}

/// A login that is under way.
#[derive(Debug)]
pub(crate) struct Conversation {}

/// The users of the server. There are none yet: a server that is asked to check them does not start (#3).
#[derive(Debug)]
pub(crate) struct Users {}

impl Users {
    /// The users; they live in `admin.system.users`.
    pub(crate) fn new(config: &Config) -> Result<Users, Error> {
        if config.auth || config.key_file.is_some() {
            return Err(Error::new(Kind::Unsupported, "this server cannot check who its clients are yet")
                .advise("start it without --auth and --keyFile, on loopback"));
        }
        Ok(Users {})
    }
}

/// Refuses a command that the client may not run (13).
pub(crate) fn authorize(_op: &Operation<'_>, _request: &Request<'_>) -> Result<()> {
    Ok(())
}

/// Writes `saslSupportedMechs` for `database.user`.
pub(crate) fn write_mechanisms(_op: &Operation<'_>, _user: &str, reply: &mut Reply<'_>) -> Result<()> {
    reply.begin_array("saslSupportedMechs").end();
    Ok(())
}

/// Begins a login within hello; a failure is left for the real login to report.
pub(crate) fn speculate(
    _op: &Operation<'_>,
    _login: &bson::RawDocument,
    _conversation: &mut Option<Conversation>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    Ok(())
}

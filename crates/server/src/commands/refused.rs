//! Table: commands of mongod that this server does not support, each with the reason and the code of its refusal.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::request::Request;

const NOT_A_ROUTER: &str = "this server is not a router of a cluster";

/// Table: commands that are refused: name, code and reason.
static REFUSED: &[(&str, Code, &str)] = &[
    ("applyOps", Code::CommandNotSupported, "this server applies no entries of an oplog that a client sends"),
    ("balancerStart", Code::CommandNotFound, NOT_A_ROUTER),
    ("balancerStatus", Code::CommandNotFound, NOT_A_ROUTER),
    ("balancerStop", Code::CommandNotFound, NOT_A_ROUTER),
    (
        "features",
        Code::CommandNotSupported,
        "this server runs no JavaScript, which is all that 'features' told of",
    ),
    (
        "getLastError",
        Code::CommandNotSupported,
        "this server keeps no last error of a connection; give each write a write concern instead",
    ),
];

pub(super) fn run(
    _op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let name = request.command.name;
    let reason = REFUSED.iter().find(|one| one.0 == name);
    Err(match reason {
        Some((_, Code::CommandNotFound, reason)) => {
            Failure::new(Code::CommandNotFound, format!("no such command: '{name}': {reason}"))
        }
        Some((_, code, reason)) => Failure::new(*code, *reason),
        None => Failure::new(Code::CommandNotSupported, format!("this server has no '{name}'")),
    })
}

/// Whether a command is in the table.
pub(super) fn is_refused(name: &str) -> bool {
    REFUSED.iter().any(|one| one.0 == name)
}

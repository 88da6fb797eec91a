//! `getCmdLineOpts`: how the server was started, as typed and as understood.

use bson::{Bson, Document};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Writes it.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let config = &op.instance.config;
    let mut argv = reply.begin_array("argv");
    config.argv.iter().for_each(|word| argv.string(word));
    argv.end();
    let parsed: Document = config.parsed.clone().into_iter().collect();
    reply.bson("parsed", &Bson::Document(parsed));
    Ok(())
}

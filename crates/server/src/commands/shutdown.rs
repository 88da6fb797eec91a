//! `shutdown`: the server stops, with a last checkpoint. Without logins only a client on the same machine may ask.

use std::net::SocketAddr;

use bson::doc;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

/// Asks the server to stop; the reply still goes out.
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let local = op.client.remote.parse::<SocketAddr>().is_ok_and(|remote| remote.ip().is_loopback());
    if !op.instance.config.auth && !local {
        let what = "shutdown must run from localhost when running db without auth";
        return Err(Failure::new(Code::Unauthorized, what));
    }
    let context = format!("conn{}", op.client.id);
    op.instance.log.info(
        "COMMAND",
        23136,
        &context,
        "Shutdown was requested",
        doc! { "remote": &op.client.remote },
    );
    op.instance.stop();
    Ok(())
}

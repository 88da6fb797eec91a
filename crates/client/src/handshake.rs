//! The first exchange: who we are, what the server is, and what both sides agree on.
//!
//! `hello` first, and `isMaster` where that is not known (before 4.4.2). A server before 3.6 does not understand OP_MSG
//! and is refused.

use std::time::Instant;

use bson::{Document, RawDocumentBuf, doc};
use fathom_errors::Kind;
use fathom_wire::{Code, Compressor};

use crate::authentication::Authentication;
use crate::{Connection, Error, Result, Target};

/// The oldest wire version that has OP_MSG: MongoDB 3.6.
const WIRE_VERSION_MIN: i32 = 6;

/// Shakes hands on a new connection, agrees on compression and proves who we are.
pub(crate) fn shake_hands(connection: &mut Connection, target: &Target) -> Result<RawDocumentBuf> {
    let mut authentication = target.credential.as_ref().map(Authentication::start).transpose()?;
    let mut command = doc! { "hello": 1, "helloOk": true, "client": client(target) };
    if !target.compressors.is_empty() {
        command.insert("compression", names(&target.compressors));
    }
    if let (Some(authentication), Some(credential)) = (&authentication, &target.credential) {
        if credential.mechanism.is_none() {
            command.insert("saslSupportedMechs", format!("{}.{}", credential.source, credential.user));
        }
        command.insert("speculativeAuthenticate", authentication.speculation());
    }
    let mut began = Instant::now();
    let hello = match connection.run("admin", &command) {
        Err(Error::Server(failure)) if failure.code() == Code::CommandNotFound => {
            let mut older = doc! { "isMaster": 1 };
            older.extend(command.into_iter().skip(1));
            began = Instant::now();
            connection.run("admin", &older)?
        }
        other => other?,
    };
    connection.set_hello_round_trip(began.elapsed());
    let version = hello.get_i32("maxWireVersion").unwrap_or(0);
    if version < WIRE_VERSION_MIN {
        let what = format!(
            "the server speaks wire version {version}, and {WIRE_VERSION_MIN} (MongoDB 3.6) is the least"
        );
        return Err(fathom_errors::Error::new(Kind::Unsupported, what).into());
    }
    check_replica_set(&hello, target)?;
    connection.set_compressor(agreed(&hello, target));
    if let Some(authentication) = &mut authentication {
        authentication.complete(connection, &hello)?;
    }
    Ok(hello)
}

/// What drivers say of themselves (mongodb/specifications:source/mongodb-handshake/handshake.md).
fn client(target: &Target) -> Document {
    let mut client = doc! {
        "driver": { "name": "fathom", "version": env!("CARGO_PKG_VERSION") },
        "os": { "type": "Linux", "architecture": std::env::consts::ARCH },
    };
    if let Some(name) = &target.app_name {
        client.insert("application", doc! { "name": name });
    }
    client
}

fn names(compressors: &[Compressor]) -> Vec<&'static str> {
    compressors.iter().map(|compressor| compressor.name()).collect()
}

/// The first of our compressors that the server has too.
fn agreed(hello: &RawDocumentBuf, target: &Target) -> Option<Compressor> {
    let theirs = hello.get_array("compression").ok()?;
    let has = |compressor: &Compressor| {
        theirs.into_iter().flatten().any(|name| name.as_str() == Some(compressor.name()))
    };
    target.compressors.iter().copied().find(has)
}

fn check_replica_set(hello: &RawDocumentBuf, target: &Target) -> Result<()> {
    let Some(wanted) = &target.replica_set else { return Ok(()) };
    let what = match hello.get_str("setName") {
        Ok(name) if name == wanted => return Ok(()),
        Ok(other) => format!("the server belongs to the replica set '{other}' and not to '{wanted}'"),
        Err(_) => format!("the server belongs to no replica set, and '{wanted}' is wanted"),
    };
    Err(fathom_errors::Error::new(Kind::NotFound, what).into())
}

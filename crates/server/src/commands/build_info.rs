//! `buildInfo`: which version clients are to reckon with, and which engines there are.
//!
//! `version` is the claimed one; `fathom` says who really answers.

use super::Reply;
use crate::Result;
use crate::config::{EngineName, version};
use crate::operation::Operation;
use crate::request::Request;

/// Writes it.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn run(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let claimed = &op.instance.config.claimed_version;
    reply.string("version", claimed);
    reply.string("gitVersion", concat!("fathom-", env!("CARGO_PKG_VERSION")));
    reply.begin_array("modules").end();
    reply.string("allocator", "system");
    reply.string("javascriptEngine", "none");
    reply.string("sysInfo", "deprecated");
    let mut numbers = reply.begin_array("versionArray");
    version::numbers(claimed).into_iter().for_each(|number| numbers.i32(number));
    numbers.end();
    let mut openssl = reply.begin_document("openssl");
    openssl.string("running", "disabled");
    openssl.string("compiled", "disabled");
    openssl.end();
    let mut environment = reply.begin_document("buildEnvironment");
    environment.string("target_arch", std::env::consts::ARCH);
    environment.string("target_os", std::env::consts::OS);
    environment.end();
    reply.i32("bits", 64);
    reply.bool("debug", cfg!(debug_assertions));
    reply.i32("maxBsonObjectSize", super::hello::max_document_bytes());
    let mut engines = reply.begin_array("storageEngines");
    [EngineName::Ephemeral, EngineName::RocksDb, EngineName::WiredTiger]
        .iter()
        .for_each(|engine| engines.string(engine.as_str()));
    engines.end();
    let mut ours = reply.begin_document("fathom");
    ours.string("version", env!("CARGO_PKG_VERSION"));
    ours.string("engineVersion", &op.instance.engine.version());
    ours.end();
    Ok(())
}

//! `fsync`: a checkpoint now; with `lock` it also keeps clients' writes waiting, until `fsyncUnlock`, so that the files can
//! be copied. Background work that writes counts goes on: the journal holds it, and recovery takes it in.

use std::time::Duration;

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// How long between two looks at whether writes that had begun are done.
const LOOK: Duration = Duration::from_millis(2);

/// Makes a checkpoint.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !parse::boolean(request.fields, "lock")? {
        op.instance.checkpoint()?;
        reply.i32("numFiles", 1);
        return Ok(());
    }
    let locks = op.instance.write_gate.shut();
    if let Err(failure) = wait_for_writers(op).and_then(|()| Ok(op.instance.checkpoint()?)) {
        op.instance.write_gate.open();
        return Err(failure);
    }
    reply.string("info", "now locked against writes, use db.fsyncUnlock() to unlock");
    reply.i64("lockCount", locks);
    Ok(())
}

fn wait_for_writers(op: &Operation<'_>) -> Result<()> {
    while op.instance.write_tickets.counts().out > 0 {
        op.check_interrupt()?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Lets writes go on.
pub(super) fn unlock(op: &mut Operation<'_>, _request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(left) = op.instance.write_gate.open() else {
        return Err(Failure::new(Code::IllegalOperation, "fsyncUnlock called when not locked"));
    };
    reply.string("info", "fsyncUnlock completed");
    reply.i64("lockCount", left);
    Ok(())
}

//! `getDiagnosticData`: one sample of what mongod's FTDC collects: `serverStatus`, and the machine in `systemMetrics`.
//!
//! mongod samples once a second and answers with the newest sample; here the sample is made for the asker. The parts that only a
//! member of a set has (`replSetGetStatus`, `local.oplog.rs.stats`) are not there.

mod system;

use bson::{DateTime, RawDocument};
use fathom_wire::DocumentWriter;

use super::server_status;
use crate::Result;
use crate::instance::Instance;

/// Writes `data`.
pub(crate) fn write(instance: &Instance, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let mut data = writer.begin_document("data");
    data.date_time("start", DateTime::now());
    timed(&mut data, "serverStatus", |part| {
        let everything: &RawDocument = crate::parse::empty();
        server_status::write(instance, everything, part)?;
        part.f64("ok", 1.0);
        Ok(())
    })?;
    timed(&mut data, "systemMetrics", |part| {
        system::write(part);
        Ok(())
    })?;
    data.date_time("end", DateTime::now());
    Ok(())
}

/// One part of the sample between its beginning and its end.
fn timed(
    writer: &mut DocumentWriter<'_>,
    name: &str,
    write: impl FnOnce(&mut DocumentWriter<'_>) -> Result<()>,
) -> Result<()> {
    let mut part = writer.begin_document(name);
    part.date_time("start", DateTime::now());
    write(&mut part)?;
    part.date_time("end", DateTime::now());
    Ok(())
}

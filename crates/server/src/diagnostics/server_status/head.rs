//! The head of `serverStatus`, and what the kernel says of the process: `extra_info`, `mem`.

use bson::DateTime;
use fathom_wire::DocumentWriter;

use super::Context;
use crate::Result;
use crate::diagnostics::build::{counter, host, number, signed};

const MEBIBYTE: u64 = 1 << 20;

/// Who answers, since when.
#[expect(clippy::cast_precision_loss, reason = "seconds that a process lives are exact as a double")]
pub(super) fn head(context: &Context<'_>, writer: &mut DocumentWriter<'_>) {
    let instance = context.instance;
    let uptime = instance.started.elapsed();
    writer.string("host", &host(instance));
    writer.string("version", &instance.config.claimed_version);
    // Tools look at this to tell a mongod from a mongos.
    writer.string("process", "mongod");
    writer.i64("pid", i64::from(std::process::id()));
    writer.f64("uptime", uptime.as_secs() as f64);
    writer.i64("uptimeMillis", i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX));
    writer.i64("uptimeEstimate", signed(uptime.as_secs()));
    writer.date_time("localTime", DateTime::now());
}

/// `extra_info`: page faults and CPU time.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn extra_info(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let process = context.process();
    let mut section = writer.begin_document(name);
    section.string("note", "fields vary by platform");
    counter(&mut section, "user_time_us", process.user_micros);
    counter(&mut section, "system_time_us", process.system_micros);
    counter(&mut section, "page_reclaims", process.minor_faults);
    counter(&mut section, "page_faults", process.major_faults);
    Ok(())
}

/// `mem`, in MiB. Nothing is mapped: the engines read and write files.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn memory(context: &Context<'_>, name: &str, writer: &mut DocumentWriter<'_>) -> Result<()> {
    let process = context.process();
    let mut section = writer.begin_document(name);
    section.i32("bits", i32::try_from(usize::BITS).unwrap_or(0));
    number(&mut section, "resident", signed(process.resident_bytes / MEBIBYTE));
    number(&mut section, "virtual", signed(process.virtual_bytes / MEBIBYTE));
    section.bool("supported", true);
    section.i32("mapped", 0);
    section.i32("mappedWithJournal", 0);
    Ok(())
}

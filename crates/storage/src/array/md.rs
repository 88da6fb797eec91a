//! Arrays by md, built with mdadm(8).
//!
//! The UUID is chosen and recorded before the array exists, so that a later cleanup knows it among others.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::{Ledger, Thing, Tool};

use super::{Array, ArrayKind, Built, Part, holder};
use crate::kernel;

pub(super) fn build(array: &Array, ledger: &Ledger, parts: &[Part]) -> Result<Built> {
    if !kernel::runs_md(&View::live(), array.personality()) {
        kernel::load(array.personality())?;
    }
    let uuid = kernel::new_uuid()?;
    let members = parts.iter().map(|part| part.member(&uuid)).collect();
    let entry = ledger.will_make(Thing::MdArray { uuid: uuid.clone(), members })?;
    if let Err(error) = create(array, &uuid, &ledger.unique_name(), parts) {
        let _ = entry.undo();
        return Err(error);
    }
    let guard = entry.guard();
    let name = parts.first().and_then(|part| holder(part, "md"));
    let absent = || Error::new(Kind::Io, "mdadm built an array that the kernel does not show");
    let name = name.ok_or_else(absent)?;
    let path = Path::new("/dev").join(&name);
    Built::look(guard, name, path)
}

fn create(array: &Array, uuid: &str, name: &str, parts: &[Part]) -> Result<()> {
    let mut tool = Tool::new("mdadm", "mdadm")?
        .args(["--create", &format!("/dev/md/{name}"), "--run", "--homehost=any", "--metadata=1.2"])
        .arg(format!("--level={}", array.personality()))
        .arg(format!("--chunk={}", array.chunk_kib()))
        .arg(format!("--raid-devices={}", parts.len()))
        .arg(format!("--uuid={uuid}"));
    if array.kind == ArrayKind::MdRaid10 {
        // New files read as zeros, so the mirrors agree already; on lent disks what was never written may differ, and nobody reads
        // it. A first synchronisation would disturb a measurement. A
        // bitmap would cost writes that RAID0 has not, to speed up a resynchronisation that never comes.
        tool = tool.args(["--assume-clean", "--bitmap=none"]);
    }
    tool.args(parts.iter().map(|part| &part.path)).run().map(drop)
}

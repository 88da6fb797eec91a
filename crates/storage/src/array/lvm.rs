//! Striped volumes by LVM: one group of all disks, one volume over the whole of it.
//!
//! LVM sees our loop devices alone (`lvm_tool`). Its volume is called `data`; the group has a name that nobody else
//! gives, by which a later cleanup knows it.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::{Ledger, Thing, lvm_tool};

use super::{Array, Built, holder};
use crate::{LoopDevice, kernel};

/// The name of the only volume.
const VOLUME: &str = "data";

pub(super) fn build(array: &Array, ledger: &Ledger, loops: &[LoopDevice]) -> Result<Built> {
    if !kernel::runs_device_mapper(&View::live()) {
        kernel::load("dm-mod")?;
    }
    let group = ledger.unique_name();
    let members = loops.iter().map(LoopDevice::member).collect();
    let entry = ledger.will_make(Thing::VolumeGroup { name: group.clone(), members })?;
    if let Err(error) = create(array, &group, loops) {
        let _ = entry.undo();
        return Err(error);
    }
    let guard = entry.guard();
    let name = loops.first().and_then(|member| holder(member, "dm-"));
    let absent = || Error::new(Kind::Io, "LVM made a volume that the kernel does not show");
    let name = name.ok_or_else(absent)?;
    // Device mapper doubles the dashes within a name and puts a single one between group and volume.
    let path = Path::new("/dev/mapper").join(format!("{}-{VOLUME}", group.replace('-', "--")));
    Built::look(guard, name, path)
}

fn create(array: &Array, group: &str, loops: &[LoopDevice]) -> Result<()> {
    let devices: Vec<PathBuf> = loops.iter().map(|device| device.path().to_owned()).collect();
    lvm_tool("vgcreate", &devices)?.args(["--yes", group]).args(&devices).run()?;
    lvm_tool("lvcreate", &devices)?
        .args(["--yes", "--extents", "100%FREE", "--name", VOLUME])
        .args(["--stripes", &loops.len().to_string()])
        .args(["--stripesize", &format!("{}k", array.chunk_kib())])
        .arg(group)
        .run()
        .map(drop)
}

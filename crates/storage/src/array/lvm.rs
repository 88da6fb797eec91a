//! Striped volumes by LVM: one group of all disks, one volume over the whole of it.
//!
//! LVM sees the disks of the target alone (`lvm_tool`). Its volume is called `data`; the group has a name that nobody else
//! gives, by which a later cleanup knows it, and the label on each disk a UUID that was chosen before.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::{Ledger, Thing, lvm_tool};

use super::{Array, Built, Part, holder};
use crate::kernel;

/// The name of the only volume.
const VOLUME: &str = "data";

/// How LVM divides the 32 characters of a UUID, which its `--uuid` insists on (pvcreate(8)).
const UUID_PARTS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];

pub(super) fn build(array: &Array, ledger: &Ledger, parts: &[Part]) -> Result<Built> {
    if !kernel::runs_device_mapper(&View::live()) {
        kernel::load("dm-mod")?;
    }
    let group = ledger.unique_name();
    let labels = parts.iter().map(|_| label()).collect::<Result<Vec<String>>>()?;
    let members = parts.iter().zip(&labels).map(|(part, label)| part.member(label)).collect();
    let entry = ledger.will_make(Thing::VolumeGroup { name: group.clone(), members })?;
    if let Err(error) = create(array, &group, parts, &labels) {
        let _ = entry.undo();
        return Err(error);
    }
    let guard = entry.guard();
    let name = parts.first().and_then(|part| holder(part, "dm-"));
    let absent = || Error::new(Kind::Io, "LVM made a volume that the kernel does not show");
    let name = name.ok_or_else(absent)?;
    // Device mapper doubles the dashes within a name and puts a single one between group and volume.
    let path = Path::new("/dev/mapper").join(format!("{}-{VOLUME}", group.replace('-', "--")));
    Built::look(guard, name, path)
}

/// A UUID in LVM's form.
fn label() -> Result<String> {
    let uuid = kernel::new_uuid()?;
    let mut digits = uuid.chars().filter(char::is_ascii_hexdigit);
    let parts = UUID_PARTS.map(|length| digits.by_ref().take(length).collect::<String>());
    Ok(parts.join("-"))
}

fn create(array: &Array, group: &str, parts: &[Part], labels: &[String]) -> Result<()> {
    let devices: Vec<PathBuf> = parts.iter().map(|part| part.path.clone()).collect();
    for (device, label) in devices.iter().zip(labels) {
        let tool = lvm_tool("pvcreate", &devices)?.args(["--yes", "--norestorefile", "--uuid", label]);
        tool.arg(device).run()?;
    }
    lvm_tool("vgcreate", &devices)?.args(["--yes", group]).args(&devices).run()?;
    lvm_tool("lvcreate", &devices)?
        .args(["--yes", "--extents", "100%FREE", "--name", VOLUME])
        .args(["--stripes", &parts.len().to_string()])
        .args(["--stripesize", &format!("{}k", array.chunk_kib())])
        .arg(group)
        .run()
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_form_that_pvcreate_takes() {
        let label = label().unwrap();
        assert_eq!(label.split('-').map(str::len).collect::<Vec<_>>(), UUID_PARTS);
        assert_ne!(label, super::label().unwrap());
    }
}

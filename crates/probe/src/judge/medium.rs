//! The kernel's description of a disk.

use fathom_host::{Device, View};

/// The kind of a disk. The kernel reveals little: a network volume does not rotate, and is often an NVMe device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// NVMe within this machine.
    Nvme,
    /// Neither of the others: flash, or a network volume.
    Other,
    /// A disk that rotates.
    Rotational,
}

impl Medium {
    /// The slowest of several devices; `None` without devices.
    pub fn slowest<'d>(devices: impl IntoIterator<Item = &'d Device>, view: &View) -> Option<Medium> {
        devices.into_iter().map(|device| Medium::from_device(device, view)).max()
    }

    /// In a virtual machine a provider may present a network volume as NVMe, so only on metal it counts as a local disk.
    fn from_device(device: &Device, view: &View) -> Medium {
        if view.number(&format!("{}/rotational", device.queue())) == Some(1) {
            return Medium::Rotational;
        }
        let folder = format!("{}/device", device.sysfs());
        // EBS is NVMe on Amazon's metal too.
        let model = view.value(&format!("{folder}/model")).unwrap_or_default();
        let is_within = is_on_own_bus(view, &folder) && !model.contains("Elastic Block");
        if is_within { Medium::Nvme } else { Medium::Other }
    }
}

/// Whether a device is on the PCI bus of a physical machine. No provider throttles such a drive, unless its model names a
/// provider's volume. `device` is the device's folder in sysfs.
pub(super) fn is_on_own_bus(view: &View, device: &str) -> bool {
    view.value(&format!("{device}/transport")).as_deref() == Some("pcie") && !is_virtual(view)
}

/// Whether the machine is virtual. A machine whose processors list no flags counts as virtual.
fn is_virtual(view: &View) -> bool {
    let flags = view.text("proc/cpuinfo").unwrap_or_default();
    let mut flags = flags.lines().filter(|line| line.starts_with("flags")).peekable();
    flags.peek().is_none() || flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use fathom_host::BlockTree;

    use super::*;

    fn medium(files: &[(&str, &str)]) -> Option<Medium> {
        let folder = tempfile::tempdir().unwrap();
        let disk = [("proc/version", ""), ("sys/block/nvme0n1/dev", "259:0")];
        for (path, text) in disk.iter().chain(files) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let view = View::snapshot(folder.path()).unwrap();
        Medium::slowest(BlockTree::read(&view).iter(), &view)
    }

    #[test]
    fn only_nvme_of_a_real_machine_is_within_it() {
        const PCIE: (&str, &str) = ("sys/block/nvme0n1/device/transport", "pcie\n");
        const METAL: (&str, &str) = ("proc/cpuinfo", "flags : fpu sse\n");
        assert_eq!(medium(&[PCIE, METAL]), Some(Medium::Nvme));
        assert_eq!(medium(&[PCIE]), Some(Medium::Other), "who knows whether the machine is a virtual one");
        assert_eq!(medium(&[PCIE, ("proc/cpuinfo", "flags : fpu hypervisor sse\n")]), Some(Medium::Other));
        let ebs = ("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store\n");
        assert_eq!(medium(&[PCIE, METAL, ebs]), Some(Medium::Other));
        assert_eq!(medium(&[METAL, ("sys/block/nvme0n1/device/transport", "tcp\n")]), Some(Medium::Other));
        assert_eq!(medium(&[("sys/block/nvme0n1/queue/rotational", "1\n")]), Some(Medium::Rotational));
    }
}

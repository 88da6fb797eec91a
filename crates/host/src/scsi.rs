//! SCSI disks: their address, and the iSCSI host that a disk is behind.

use crate::{Device, View};

/// `host:channel:target:lun` of a SCSI disk; `None` for what is none.
fn address(view: &View, device: &Device) -> Option<String> {
    let folder = format!("sys/block/{}/device/scsi_disk", device.disk.as_deref().unwrap_or(&device.name));
    view.list(&folder).into_iter().next()
}

/// The SCSI host's name (`host2`), where that host is an iSCSI initiator.
pub(crate) fn iscsi_host(view: &View, device: &Device) -> Option<String> {
    let address = address(view, device)?;
    let host = format!("host{}", address.split(':').next()?);
    view.list("sys/class/iscsi_host").contains(&host).then_some(host)
}

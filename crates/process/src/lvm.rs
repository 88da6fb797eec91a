//! LVM's programs, told to see nothing but given devices.
//!
//! LVM looks at every disk of a machine, keeps copies of its metadata below `/etc`, waits for udev and starts daemons.
//! None of that is wanted for a volume group that lives for minutes on loop devices of our own: nothing else on the host may be
//! scanned or changed (lvm.conf(5), lvm(8) `--config`). It refuses to run without a list of devices.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};

use crate::Tool;

/// Where udev listens, if it runs. Without it LVM has to make the device nodes itself.
const UDEV: &str = "/run/udev/control";

/// A call of LVM's program `name` (`vgcreate`) that sees `devices` alone.
pub fn lvm_tool(name: &str, devices: &[PathBuf]) -> Result<Tool> {
    if devices.is_empty() {
        return Err(Error::usage(format!("{name} was given no device to see")));
    }
    let config = config(devices, Path::new(UDEV).exists());
    Ok(Tool::new(name, "lvm2")?.arg("--config").arg(config))
}

/// The settings: which devices, no list of known devices, no copies of metadata, no daemons, nobody told.
fn config(devices: &[PathBuf], udev: bool) -> String {
    let accept: String =
        devices.iter().map(|device| format!("\"a|^{}$|\", ", device.to_string_lossy())).collect();
    let udev = u8::from(udev);
    format!(
        "devices {{ filter=[{accept}\"r|.*|\"] global_filter=[{accept}\"r|.*|\"] use_devicesfile=0 hints=\"none\" \
         obtain_device_list_from_udev=0 scan_lvs=0 }} \
         backup {{ backup=0 archive=0 }} \
         activation {{ udev_sync={udev} udev_rules={udev} monitoring=0 }} \
         global {{ use_lvmpolld=0 notify_dbus=0 event_activation=0 }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_devices_given_pass_the_filter() {
        let text = config(&["/dev/loop1".into(), "/dev/loop12".into()], false);
        assert!(text.contains(r#"global_filter=["a|^/dev/loop1$|", "a|^/dev/loop12$|", "r|.*|"]"#), "{text}");
        assert!(text.contains("udev_sync=0"));
        assert!(lvm_tool("vgs", &[]).is_err());
    }
}

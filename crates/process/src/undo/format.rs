//! What we wrote over a whole device: its signatures are erased, so that it is as empty as it was found.
//!
//! It refuses to erase anything where the UUID that we chose for our file system is not on the device any more.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use super::{Undone, mark, patiently};
use crate::{Tool, signatures};

pub(super) fn erase(device: &Path, uuid: &str, same_boot: bool) -> Result<Undone> {
    let mut undone = Undone::Before;
    // More than one where btrfs joined several disks.
    for device in mark::bearers(device, uuid, same_boot)? {
        patiently(|| Tool::new("wipefs", "util-linux")?.arg("--all").arg(&device).run())?;
        if !signatures(&device)?.is_empty() {
            let what = format!("the file system on {} could not be erased", device.display());
            return Err(Error::new(Kind::Busy, what).advise("look with wipefs who writes to it"));
        }
        undone = Undone::Now;
    }
    Ok(undone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_holds_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0_u8; 1 << 20]).unwrap();
        assert_eq!(erase(&path, "1f2e", true).unwrap(), Undone::Before);
        assert_eq!(erase(Path::new("/no/such/device"), "1f2e", true).unwrap(), Undone::Before);
    }
}

//! What we wrote over a whole device: its signatures are erased, so that it is as empty as it was found.
//!
//! It refuses to erase anything where the UUID that we chose for our file system is not on the device any more.

use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::{Undone, patiently};
use crate::{Tool, signatures};

pub(super) fn erase(device: &Path, uuid: &str) -> Result<Undone> {
    let Some(device) = find(device, uuid)? else { return Ok(Undone::Before) };
    patiently(|| Tool::new("wipefs", "util-linux")?.arg("--all").arg(&device).run())?;
    if !signatures(&device)?.is_empty() {
        let what = format!("the file system on {} could not be erased", device.display());
        return Err(Error::new(Kind::Busy, what).advise("look with wipefs who writes to it"));
    }
    Ok(Undone::Now)
}

/// The device that has our file system now. Names are given anew with each boot, so udev's link by UUID is asked too.
fn find(device: &Path, uuid: &str) -> Result<Option<PathBuf>> {
    let by_uuid = Path::new("/dev/disk/by-uuid").join(uuid);
    for candidate in [device, &by_uuid] {
        if !candidate.exists() {
            continue;
        }
        let found = signatures(candidate)?;
        if found.iter().any(|signature| signature.uuid.as_deref() == Some(uuid)) {
            return Ok(Some(candidate.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_holds_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0_u8; 1 << 20]).unwrap();
        assert_eq!(erase(&path, "1f2e").unwrap(), Undone::Before);
        assert_eq!(erase(Path::new("/no/such/device"), "1f2e").unwrap(), Undone::Before);
    }
}

//! Which disks bear a UUID that we chose: how lent disks are known again, by their name of today.
//!
//! A disk whose mark is gone or another is somebody else's now, whatever its name. It refuses to guess by name or size.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Result};

use crate::signatures;

/// `device`, if it bears `mark`. Names are given anew with each boot, so after one all disks of the machine are looked at.
pub(super) fn bearers(device: &Path, mark: &str, same_boot: bool) -> Result<Vec<PathBuf>> {
    if device.exists() && bears(device, mark)? {
        return Ok(vec![device.to_owned()]);
    }
    if same_boot {
        return Ok(Vec::new());
    }
    let folder = "/sys/block";
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let disks = entries.flatten().map(|entry| Path::new("/dev").join(entry.file_name()));
    // A drive without a medium cannot be read, and has nothing of ours.
    Ok(disks.filter(|disk| disk != device && bears(disk, mark).unwrap_or(false)).collect())
}

fn bears(device: &Path, mark: &str) -> Result<bool> {
    let found = signatures(device)?;
    Ok(found.iter().filter_map(|signature| signature.uuid.as_deref()).any(|uuid| is_same(uuid, mark)))
}

/// Whether two UUIDs are one; programs put dashes and colons where they like.
fn is_same(one: &str, other: &str) -> bool {
    let digits = |text: &str| -> Vec<char> {
        text.chars().filter(char::is_ascii_alphanumeric).map(|digit| digit.to_ascii_lowercase()).collect()
    };
    digits(one) == digits(other)
}

#[cfg(test)]
mod tests {
    use fathom_testkit::{Need, OrSkip, test};

    use super::*;
    use crate::Tool;

    #[test]
    fn a_disk_is_known_by_its_mark_and_by_nothing_else() {
        let ours = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        assert!(is_same("0A1B2C3D:4e5f6071:8293a4b5:c6d7e8f9", ours) && !is_same("0a1b2c3d", ours));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, vec![0_u8; 1 << 20]).unwrap();
        assert_eq!(bearers(&path, ours, true).unwrap(), Vec::<PathBuf>::new());
        let tool = Tool::new("mkfs.ext4", "e2fsprogs").or_skip(Need::Program);
        tool.args(["-q", "-F", "-U", ours]).arg(&path).run().unwrap();
        assert_eq!(bearers(&path, ours, true).unwrap(), std::slice::from_ref(&path));
        assert_eq!(bearers(&path, "1f2e", true).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(bearers(Path::new("/no/such/device"), ours, true).unwrap(), Vec::<PathBuf>::new());
    }
}

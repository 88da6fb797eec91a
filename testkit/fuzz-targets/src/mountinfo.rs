//! Fuzzes `/proc/self/mountinfo` of any kernel or of an edited snapshot: no panic, and at most one mount per line.

use std::path::Path;

use fathom_host::Mounts;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mounts = Mounts::parse(text);
    assert!(mounts.iter().count() <= text.lines().count());
    if let Some(mount) = mounts.containing(Path::new("/data/db")) {
        assert!(Path::new("/data/db").starts_with(&mount.mount_point));
        let _ = mount.has_option("noatime");
    }
}

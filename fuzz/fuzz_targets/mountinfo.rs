//! `/proc/self/mountinfo` of any kernel, or of a snapshot somebody edited: never a panic, and one mount a line at most.
#![no_main]

use std::path::Path;

use fathom_host::Mounts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mounts = Mounts::parse(text);
    assert!(mounts.iter().count() <= text.lines().count());
    if let Some(mount) = mounts.containing(Path::new("/data/db")) {
        assert!(Path::new("/data/db").starts_with(&mount.mount_point));
        let _ = mount.has_option("noatime");
    }
});

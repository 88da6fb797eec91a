//! Fuzzes the archive within a bundle from any source: no panic, and an accepted one names only files of a run, in order, within the
//! allowed size, below a plain name.

use std::path::Path;

use fathom_record::bundle::check_archive;

const MOST: u64 = 1 << 20;

pub(crate) fn take_input(archive: &[u8]) {
    let Ok(list) = check_archive(archive, Path::new("bundle"), MOST) else { return };
    assert!(!list.run.contains('/') && !list.run.starts_with('.'));
    assert!(list.bytes().is_some_and(|bytes| bytes <= MOST));
    assert!(list.files.is_sorted_by(|one, two| one.name < two.name));
    let is_inside = |name: &str| !name.starts_with('/') && !name.split('/').any(|part| part.starts_with('.'));
    assert!(list.files.iter().all(|file| is_inside(&file.name)));
}

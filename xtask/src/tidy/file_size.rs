//! Refuses files of more than a mebibyte, which burden every clone for ever. Recordings of real servers may have three.

use super::Complaint;
use super::tree::{MAX_FILE_SIZE, Tree};

/// Recordings of real servers: mongod begins a new file at ten mebibytes.
const RECORDINGS: &str = "tests/fixtures/recordings/";
const MAX_RECORDING_SIZE: u64 = 3 << 20;

fn max_size(path: &str) -> u64 {
    if path.starts_with(RECORDINGS) { MAX_RECORDING_SIZE } else { MAX_FILE_SIZE }
}

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let large = tree.files.iter().filter(|file| file.size > max_size(&file.path));
    large
        .map(|file| {
            let what = format!("the file has {} bytes of {} at most", file.size, max_size(&file.path));
            Complaint::new(&file.path, 1, what, "make it smaller, or make it where it is needed")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_a_mebibyte_is_named() {
        let recording = "tests/fixtures/recordings/a/metrics";
        let mut tree = Tree::from_texts(&[("fits.bin", ""), ("large.bin", ""), (recording, "")]);
        tree.files[2].size = MAX_RECORDING_SIZE;
        tree.files[0].size = MAX_FILE_SIZE;
        tree.files[1].size = MAX_FILE_SIZE + 1;
        let complaints = check(&tree);
        assert_eq!(complaints.len(), 1);
        assert_eq!(complaints[0].path, "large.bin");
    }
}

//! No file of more than a mebibyte: everybody who clones pays for it for ever.

use super::Complaint;
use super::tree::{FILE_SIZE_MAX, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let large = tree.files.iter().filter(|file| file.size > FILE_SIZE_MAX);
    large
        .map(|file| {
            let what = format!("the file has {} bytes of {FILE_SIZE_MAX} at most", file.size);
            Complaint::new(&file.path, 1, what, "make it smaller, or make it where it is needed")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_a_mebibyte_is_named() {
        let mut tree = Tree::of(&[("fits.bin", ""), ("large.bin", "")]);
        tree.files[0].size = FILE_SIZE_MAX;
        tree.files[1].size = FILE_SIZE_MAX + 1;
        let complaints = check(&tree);
        assert_eq!(complaints.len(), 1);
        assert_eq!(complaints[0].path, "large.bin");
    }
}

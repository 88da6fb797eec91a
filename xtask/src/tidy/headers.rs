//! Checks that a source file opens with its purpose.

use super::Complaint;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let silent = tree.rust().filter(|file| {
        let header = file.text.lines().next().and_then(|line| line.strip_prefix("//!"));
        header.is_none_or(|words| words.trim().is_empty())
    });
    let advice = "say on line 1, after //!, why it exists and what it refuses";
    silent
        .map(|file| Complaint::new(&file.path, 1, "the file does not open with its purpose", advice))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_must_open_with_its_purpose() {
        let tree = Tree::from_texts(&[
            ("good.rs", "//! Why.\nfn f() {}\n"),
            ("late.rs", "use std::fmt;\n//! Why.\n"),
            ("bare.rs", "//!\n"),
            ("empty.rs", ""),
            ("notes.md", "no header needed"),
        ]);
        let paths: Vec<_> = check(&tree).into_iter().map(|complaint| complaint.path).collect();
        assert_eq!(paths, ["late.rs", "bare.rs", "empty.rs"]);
    }
}

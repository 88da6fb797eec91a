//! Checks that a source file holds one concept: at most 600 lines, except tables, whose header says `//! Table: ...`.

use super::Complaint;
use super::tree::{Tree, TreeFile};

const MAX_LINES: usize = 600;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let long = tree.rust().map(|file| (file, file.lines().count()));
    let long = long.filter(|(file, lines)| *lines > MAX_LINES && !is_table(file));
    long.map(|(file, lines)| {
        let what = format!("the file has {lines} lines of {MAX_LINES} at most");
        let advice = "split it by what it holds (a table says so in its header: //! Table: ...)";
        Complaint::new(&file.path, MAX_LINES + 1, what, advice)
    })
    .collect()
}

fn is_table(file: &TreeFile) -> bool {
    file.text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.starts_with("//! Table:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_named_unless_they_are_tables() {
        let line = "const A: u8 = 1;\n";
        let fits = format!("//! Why.\n{}", line.repeat(MAX_LINES - 1));
        let long = format!("{fits}{line}");
        let table = format!("//! Why.\n//! Table: of rules.\n{}", line.repeat(MAX_LINES));
        let pretender = format!("{long}//! Table: too late.\n");
        let tree = Tree::from_texts(&[
            ("fits.rs", &fits),
            ("long.rs", &long),
            ("table.rs", &table),
            ("pretender.rs", &pretender),
            ("long.md", &long),
        ]);
        let paths: Vec<_> = check(&tree).into_iter().map(|complaint| complaint.path).collect();
        assert_eq!(paths, ["long.rs", "pretender.rs"]);
    }
}

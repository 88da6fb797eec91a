//! Checks that CHANGELOG.md opens with the unreleased changes, so that every change has a place for its entry.

use super::Complaint;
use super::markdown::sections;
use super::tree::Tree;

const DOCUMENT: &str = "CHANGELOG.md";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(document) = tree.file(DOCUMENT) else {
        return vec![Complaint::new(DOCUMENT, 1, "the file is missing", "write it")];
    };
    let sections = sections(&document.text);
    let Some(first) = sections.iter().find(|section| section.level == 2) else {
        return vec![Complaint::new(DOCUMENT, 1, "there is no release", "add '## Unreleased'")];
    };
    if first.title == "Unreleased" {
        return Vec::new();
    }
    let what = format!("'{}' comes first", first.title);
    vec![Complaint::new(DOCUMENT, first.line, what, "put '## Unreleased' above it")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        check(&Tree::from_texts(&[(DOCUMENT, text)])).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn unreleased_comes_first() {
        assert_eq!(complaints("# Changes\n\n## Unreleased\n\n## 0.1.0\n"), Vec::<String>::new());
        assert_eq!(complaints("# Changes\n\n## 0.1.0\n\n## Unreleased\n"), ["'0.1.0' comes first"]);
        assert_eq!(complaints("# Changes\n"), ["there is no release"]);
        assert_eq!(check(&Tree::default())[0].what, "the file is missing");
    }
}

//! Checks that CHANGELOG.md has a section of unreleased changes and opens with it, so that every change has a place for its entry.

use super::Complaint;
use super::markdown::sections;
use super::tree::Tree;

pub(super) const DOCUMENT: &str = "CHANGELOG.md";
const UNRELEASED: &str = "Unreleased";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(document) = tree.file(DOCUMENT) else {
        return vec![Complaint::new(DOCUMENT, 1, "the file is missing", "write it")];
    };
    let releases = sections(&document.text).into_iter().filter(|section| section.level == 2);
    let releases: Vec<(usize, String)> = releases.map(|one| (one.line, one.title.clone())).collect();
    match releases.iter().position(|(_, title)| title == UNRELEASED) {
        Some(0) => Vec::new(),
        Some(_) => {
            let (line, title) = &releases[0];
            vec![Complaint::stale(DOCUMENT, *line, format!("'{title}' comes before the unreleased changes"))]
        }
        None => vec![Complaint::new(DOCUMENT, 1, "it has no unreleased changes", "add '## Unreleased'")],
    }
}

/// The text with the unreleased changes in front of the releases.
pub(super) fn in_order(text: &str) -> String {
    let releases: Vec<usize> =
        sections(text).iter().filter(|one| one.level == 2).map(|one| one.line).collect();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let title = format!("## {UNRELEASED}");
    let Some(at) = releases.iter().position(|line| lines[line - 1].trim_end() == title) else {
        return text.to_owned();
    };
    let begin = releases[at] - 1;
    let end = releases.get(at + 1).map_or(lines.len(), |line| line - 1);
    let (head, first) = lines.split_at(releases[0] - 1);
    let (before, after) = (&first[..begin - head.len()], &lines[end..]);
    [head, &lines[begin..end], before, after].concat().concat()
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
        let stale = complaints("# Changes\n\n## 0.1.0\n\n## Unreleased\n");
        assert_eq!(stale, ["'0.1.0' comes before the unreleased changes"]);
        assert_eq!(complaints("# Changes\n"), ["it has no unreleased changes"]);
        assert_eq!(check(&Tree::default())[0].what, "the file is missing");
    }

    #[test]
    fn the_unreleased_section_is_moved_with_its_lines() {
        let text = "# Changes\n\n## 0.2.0\n- b\n\n## Unreleased\n- c\n\n## 0.1.0\n- a\n";
        let ordered = "# Changes\n\n## Unreleased\n- c\n\n## 0.2.0\n- b\n\n## 0.1.0\n- a\n";
        assert_eq!(in_order(text), ordered);
        assert_eq!(in_order(ordered), ordered);
        assert_eq!(in_order("# Changes\n"), "# Changes\n");
    }
}

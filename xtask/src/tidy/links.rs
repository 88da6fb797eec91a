//! Links between documents lead somewhere: the file is in the tree, and has the heading.
//!
//! Links to the outside are not followed: a check must not depend on other people's machines.

use super::Complaint;
use super::markdown::{anchor, links, sections};
use super::tree::{SourceFile, Tree};
use super::unreached::normal;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.markdown() {
        for (line, target) in links(&file.text) {
            if let Some(what) = broken(tree, file, &target) {
                complaints.push(Complaint::new(&file.path, line, what, "correct or remove the link"));
            }
        }
    }
    complaints
}

fn broken(tree: &Tree, file: &SourceFile, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if path.is_empty() { file.path.clone() } else { normal(&format!("{folder}/{path}")) };
    let Some(other) = tree.file(&path) else {
        let is_folder = tree.files.iter().any(|other| other.path.starts_with(&format!("{path}/")));
        return (!is_folder).then(|| format!("the link to {target} leads nowhere"));
    };
    let heading = heading.filter(|_| other.is_markdown())?;
    let found = sections(&other.text).iter().any(|section| anchor(&section.title) == heading);
    (!found).then(|| format!("{path} has no heading #{heading}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let tree =
            Tree::of(&[("docs/a.md", text), ("README.md", "# Two words\n"), ("docs/journal/b.md", "")]);
        check(&tree).into_iter().map(|complaint| complaint.what).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "# Here\n[a](../README.md) [b](../README.md#two-words) [c](journal/b.md) [d](journal) [e](#here) \
                    [f](https://example.org/x.md) `[g](gone.md)`\n";
        assert_eq!(complaints(text), Vec::<String>::new());
    }

    #[test]
    fn links_that_do_not_are_named() {
        assert_eq!(complaints("[a](gone.md)\n"), ["the link to gone.md leads nowhere"]);
        assert_eq!(complaints("[a](../README.md#three)\n"), ["README.md has no heading #three"]);
        assert_eq!(complaints("[a]: #there\n"), ["docs/a.md has no heading #there"]);
    }
}

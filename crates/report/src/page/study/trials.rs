//! What each cell was made of, and where its trials' run folders are: below the study's own, so that links to them are relative.
//!
//! A name that leads elsewhere (an address, a path upwards) is text and no link.

use std::collections::BTreeSet;

use fathom_record::study::{Study, StudyCell};
use serde::Serialize;

use crate::runs_page::url_part;
use crate::study::told::cell_name;

/// A cell for the template.
#[derive(Serialize)]
pub(super) struct CellMade<'s> {
    name: String,
    /// What holds for it and not for all.
    facts: Vec<&'s (String, String)>,
    trials: Vec<Trial<'s>>,
}

/// A trial of it.
#[derive(Serialize)]
struct Trial<'s> {
    block: usize,
    folder: Option<&'s str>,
    link: Option<String>,
    broken: Option<&'s str>,
}

/// What holds for all cells, and the cells with the rest.
pub(super) fn made(study: &Study) -> (Vec<&(String, String)>, Vec<CellMade<'_>>) {
    let is_common = |fact: &&(String, String)| study.cells.iter().all(|cell| cell.facts.contains(fact));
    let common: Vec<&(String, String)> =
        study.cells.first().into_iter().flat_map(|cell| &cell.facts).filter(is_common).collect();
    let cells = study.cells.iter().map(|cell| CellMade {
        name: cell_name(study, cell),
        facts: cell.facts.iter().filter(|fact| !common.contains(fact)).collect(),
        trials: trials(cell),
    });
    let cells = cells.collect();
    (common, cells)
}

fn trials(cell: &StudyCell) -> Vec<Trial<'_>> {
    let with_folder = cell.runs.iter().enumerate().filter(|(_, run)| run.is_some()).map(|(block, _)| block);
    let blocks: BTreeSet<usize> = with_folder.chain(cell.broken.iter().map(|(block, _)| *block)).collect();
    let trial = |block: usize| {
        let folder = cell.runs.get(block).and_then(Option::as_deref);
        Trial {
            block: block.saturating_add(1),
            folder,
            link: folder.and_then(link),
            broken: cell.broken.iter().find(|(of, _)| *of == block).map(|(_, why)| why.as_str()),
        }
    };
    blocks.into_iter().map(trial).collect()
}

/// The address of a folder below the page's own; none where the path leads elsewhere.
fn link(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let is_below = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    let encoded: Vec<String> = parts.into_iter().map(url_part).collect();
    is_below.then(|| format!("./{}/", encoded.join("/")))
}

#[cfg(test)]
mod tests {
    use super::link;

    #[test]
    fn only_what_lies_below_is_a_link() {
        assert_eq!(link("trials/1 a").as_deref(), Some("./trials/1%20a/"));
        for elsewhere in ["/etc", "../x", "a/../../b", "", "a//b", "."] {
            assert_eq!(link(elsewhere), None, "{elsewhere}");
        }
        let script = link("javascript:alert(1)").unwrap();
        assert_eq!(script, "./javascript%3Aalert%281%29/", "a folder's name, however odd");
    }
}

//! The folders of a cluster: made only where nothing is, written down first, and gone again if the making fails.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Ledger};

use crate::layout::Node;
use crate::state::STATE_FILE;

/// Folders and files that were made, which go again when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<Guard>);

impl Made {
    /// Makes a folder and those above it that are missing; the topmost of them goes with all that comes into it.
    pub(super) fn folder(&mut self, ledger: &Ledger, path: &Path) -> Result<()> {
        let missing = path.ancestors().take_while(|folder| !folder.exists()).last().map(Path::to_owned);
        let Some(topmost) = missing else { return Ok(()) };
        self.0.push(ledger.create_tree(&topmost)?.guard());
        fs::create_dir_all(path).map_err(|cause| Error::io("create", path, cause))
    }

    /// Lets them stand.
    pub(super) fn keep(self) -> Result<()> {
        self.0.into_iter().try_for_each(Guard::keep)
    }
}

/// Refuses a folder in which something stands where a server would go: an earlier cluster whose state is lost, say.
pub(super) fn check_vacant(nodes: &[Node]) -> Result<()> {
    for path in nodes.iter().filter_map(|node| node.db_path.as_deref()) {
        let is_vacant = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => true,
            Err(cause) => return Err(Error::io("look into", path, cause)),
        };
        if !is_vacant {
            let what = format!(
                "{} holds data, and belongs to no cluster that {STATE_FILE} knows of",
                path.display()
            );
            return Err(Error::new(Kind::NotOurs, what).advise("choose another --dir, or move it elsewhere"));
        }
    }
    Ok(())
}

/// The folders that a cluster needs.
pub(super) fn needed(nodes: &[Node]) -> Vec<PathBuf> {
    let logs = nodes.iter().filter_map(|node| node.log_path.parent().map(Path::to_owned));
    logs.chain(nodes.iter().filter_map(|node| node.db_path.clone())).collect()
}

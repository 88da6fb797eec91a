//! Fuzzes cluster descriptions: no input causes a panic, and an accepted one gives each server its own port and folder.

use std::collections::BTreeSet;
use std::path::Path;

use fathom_cluster::{file, layout};

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(topology) = file::parse(text) else { return };
    assert!(topology.check().is_ok());
    let Ok(nodes) = layout(&topology, Path::new("/c")) else { return };
    let ports: BTreeSet<u16> = nodes.iter().map(|node| node.port).collect();
    assert_eq!(ports.len(), nodes.len());
    let logs: BTreeSet<&Path> = nodes.iter().map(|node| node.log_path.as_path()).collect();
    assert_eq!(logs.len(), nodes.len());
    assert!(logs.iter().all(|log| log.starts_with("/c")));
}

//! The devices under the servers of this host, for the samplers and for the facts of a run.
//!
//! A judgement must know which device belongs to which server. `server.0.device` names the device of the data's file system, or
//! all of them with commas between (btrfs); `server.0.device.leaves` are the devices at the bottom of their stack, which have
//! queues of their own.

use std::path::{Path, PathBuf};

use fathom_host::{DeviceStack, View};

/// The devices under a directory, or `None` if it is not on a block device.
pub(crate) fn stack(view: &View, directory: &Path) -> Option<DeviceStack> {
    let path = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    DeviceStack::read(view, &path).ok().filter(|stack| !stack.tops.is_empty())
}

/// The data directory of each server, with the server's number. A server on this host has its own. A named directory belongs to the
/// server if there is only one.
pub(crate) fn directories(
    servers: &[(usize, Option<PathBuf>)],
    named: Option<&Path>,
) -> Vec<(usize, PathBuf)> {
    let alone = servers.len() == 1;
    let directory = |own: &Option<PathBuf>| match named.filter(|_| alone) {
        Some(named) => Some(named.to_owned()),
        None => own.clone(),
    };
    servers.iter().filter_map(|(number, own)| Some((*number, directory(own)?))).collect()
}

/// The facts that assign devices to servers.
pub(crate) fn facts(view: &View, directories: &[(usize, PathBuf)]) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for (number, directory) in directories {
        if let Some(stack) = stack(view, directory) {
            facts.push((format!("server.{number}.device"), stack.top_names().join(",")));
            facts.push((format!("server.{number}.device.leaves"), stack.leaf_names().join(",")));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_directory_is_the_only_servers() {
        let (here, there) = (PathBuf::from("/a"), Some(PathBuf::from("/b")));
        assert_eq!(directories(&[(0, there.clone())], Some(&here)), [(0, here.clone())]);
        assert_eq!(directories(&[(2, there.clone())], None), [(2, PathBuf::from("/b"))]);
        assert_eq!(directories(&[(0, None), (1, there)], Some(&here)), [(1, PathBuf::from("/b"))]);
        assert_eq!(directories(&[(0, None)], None), []);
    }
}

//! The devices under the servers of this host, for the samplers and for the facts of a run.
//!
//! A judgement must know which device belongs to which server. `server.0.device` names the device of the data's file system, or
//! all of them with commas between (btrfs); `server.0.device.leaves` are the devices at the bottom of their stack, which have
//! queues of their own.

use std::path::{Path, PathBuf};

use fathom_host::{DeviceStack, View};

/// The devices under a directory, or `None` if it is not on a block device.
pub(crate) fn stack(view: &View, directory: &Path) -> Option<DeviceStack> {
    read(view, directory).filter(|stack| !stack.tops.is_empty())
}

fn read(view: &View, directory: &Path) -> Option<DeviceStack> {
    let path = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    DeviceStack::read(view, &path).ok()
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

/// A note on each directory without a visible device, if others have one. If none has, the sampler of devices says so.
pub(crate) fn notes(view: &View, directories: &[(usize, PathBuf)]) -> Vec<String> {
    let absence = |directory: &PathBuf| read(view, directory)?.absence();
    let notes: Vec<String> = directories
        .iter()
        .filter_map(|(number, directory)| {
            let absence = absence(directory)?;
            Some(format!("server {number}: {} has no block device here: {absence}.", directory.display()))
        })
        .collect();
    if notes.len() < directories.len() { notes } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use fathom_testkit::Scratch;

    use super::*;

    #[test]
    fn a_directory_without_a_device_is_noted_if_others_have_one() {
        let folder = Scratch::new().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "proc/self/mountinfo",
            "22 1 8:16 / / rw - xfs /dev/sdb rw\n24 22 0:22 / /tank rw - zfs tank/data rw\n",
        );
        write("sys/block/sdb/dev", "8:16\n");
        let view = View::snapshot(folder.path()).unwrap();
        let directories = |paths: &[&str]| paths.iter().map(PathBuf::from).enumerate().collect::<Vec<_>>();
        let note = "server 1: /tank/db has no block device here: \
                    ZFS hides its devices from the kernel's lists ('zpool status' shows them).";
        assert_eq!(notes(&view, &directories(&["/data", "/tank/db"])), [note]);
        assert!(notes(&view, &directories(&["/data"])).is_empty());
        assert!(notes(&view, &directories(&["/tank/db"])).is_empty());
    }

    #[test]
    fn a_named_directory_is_the_only_servers() {
        let (here, there) = (PathBuf::from("/a"), Some(PathBuf::from("/b")));
        assert_eq!(directories(&[(0, there.clone())], Some(&here)), [(0, here.clone())]);
        assert_eq!(directories(&[(2, there.clone())], None), [(2, PathBuf::from("/b"))]);
        assert_eq!(directories(&[(0, None), (1, there)], Some(&here)), [(1, PathBuf::from("/b"))]);
        assert_eq!(directories(&[(0, None)], None), []);
    }
}

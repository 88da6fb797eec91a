//! The place in the cgroup tree at which a group with an I/O limit can be made (cgroups(7)).
//!
//! A controller belongs to the tree of one version at a time, so the host decides between the two. In version 2 a group
//! gets the `io` controller only if its parent passes it on, and only the root may pass it on while it holds processes.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};
use fathom_host::{Mounts, View};

/// The version of the kernel's cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    /// One tree per controller; `blkio.throttle.*`.
    V1,
    /// The unified hierarchy, with `io.max`.
    V2,
}

/// A folder below which a limited group can be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupParent {
    pub(super) version: CgroupVersion,
    pub(super) parent: PathBuf,
}

impl GroupParent {
    /// Finds the place on this host.
    pub(super) fn find(view: &View) -> Result<GroupParent> {
        let mounts = Mounts::read(view)?;
        let own = view.text("proc/self/cgroup").unwrap_or_default();
        let v2 = mounts.iter().find(|mount| mount.fs_type == "cgroup2" && offers_io(&mount.mount_point));
        if let Some(mount) = v2 {
            let parent = v2_parent(&mount.mount_point, &own)?;
            return Ok(GroupParent { version: CgroupVersion::V2, parent });
        }
        let v1 = mounts.iter().find(|mount| mount.fs_type == "cgroup" && mount.has_option("blkio"));
        if let Some(mount) = v1 {
            let parent = own_group(&mount.mount_point, v1_path(&own));
            return Ok(GroupParent { version: CgroupVersion::V1, parent });
        }
        let what = "no cgroup tree with the blkio or io controller is mounted";
        Err(Error::new(Kind::Unsupported, what)
            .advise("an I/O cap needs one; mount -t cgroup2 none /sys/fs/cgroup"))
    }
}

/// Whether `word` is among the words of a file.
fn has_word(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|found| found == word))
}

fn offers_io(root: &Path) -> bool {
    has_word(&root.join("cgroup.controllers"), "io")
}

/// The nearest group above us that passes `io` on; if none does, the root, which is set to pass it on. That is not
/// undone: passing a controller on limits nothing, and withdrawing it would end limits that others have set since.
fn v2_parent(root: &Path, own: &str) -> Result<PathBuf> {
    let own = own_group(root, own.lines().find_map(|line| line.strip_prefix("0::")));
    let passing = own
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .find(|group| has_word(&group.join("cgroup.subtree_control"), "io"));
    if let Some(group) = passing {
        return Ok(group.to_owned());
    }
    let control = root.join("cgroup.subtree_control");
    match fs::write(&control, "+io") {
        Ok(()) => Ok(root.to_owned()),
        Err(e) => {
            let error = Error::io("have the io controller passed on by", &control, e);
            let advice = match error.kind() {
                Kind::Permission | Kind::ReadOnly => "an I/O cap needs root and a writable cgroup tree",
                _ => "inside a container, set the cap from the host",
            };
            Err(error.advise(advice))
        }
    }
}

/// The path of our group in the tree of version 1 that has `blkio`: `number:controllers:path`.
fn v1_path(own: &str) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers.split(',').any(|controller| controller == "blkio").then_some(path)
    })
}

/// Our own group below `root`. In a container the path may be one of the host's that does not exist here: then the root.
fn own_group(root: &Path, path: Option<&str>) -> PathBuf {
    let path = path.unwrap_or("/").trim_start_matches('/');
    let group = root.join(path);
    let inside = !path.split('/').any(|part| part == "..");
    if inside && group.is_dir() { group } else { root.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(groups: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (group, passed_on) in groups {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup.subtree_control"), passed_on).unwrap();
        }
        root
    }

    #[test]
    fn version_2_takes_the_nearest_group_that_passes_io_on() {
        let root = tree(&[("", "cpu io"), ("user.slice", "cpu io memory"), ("user.slice/shell.scope", "")]);
        let parent = v2_parent(root.path(), "0::/user.slice/shell.scope\n").unwrap();
        assert_eq!(parent, root.path().join("user.slice"));
    }

    #[test]
    fn version_2_asks_the_root_where_nobody_passes_io_on() {
        let root = tree(&[("", "memory pids"), ("a", "")]);
        assert_eq!(v2_parent(root.path(), "0::/a\n").unwrap(), root.path());
        assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "+io");
        assert!(v2_parent(Path::new("/no/such/tree"), "0::/\n").is_err());
    }

    #[test]
    fn version_1_uses_our_own_group_if_the_mount_shows_it() {
        let own = "9:name=systemd:/\n7:cpu,blkio:/a\n0::/\n";
        assert_eq!(v1_path(own), Some("/a"));
        let root = tree(&[("a", "")]);
        assert_eq!(own_group(root.path(), v1_path(own)), root.path().join("a"));
        assert_eq!(own_group(root.path(), Some("/docker/123")), root.path());
        assert_eq!(own_group(root.path(), Some("/../a")), root.path());
    }
}

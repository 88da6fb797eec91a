//! The facts on a target and the kernel's view of it: the lines that a study stores with its results.
//!
//! Each value is read from the system after everything is set up, so that a setting without effect is visible.

use std::path::Path;

use fathom_host::{Mount, Mounts, View};
use fathom_process::Tool;

use super::PreparedTarget;
use crate::{ArrayKind, Filesystem};

/// Names and values, in the order they are shown.
type Facts = Vec<(String, String)>;

impl PreparedTarget {
    /// The facts on the target and the kernel's view of it.
    pub fn facts(&self) -> Vec<(String, String)> {
        let view = View::live();
        let mut facts = vec![("target".to_owned(), self.spec.describe())];
        self.array_facts(&view, &mut facts);
        self.filesystem_facts(&view, &mut facts);
        self.queue_facts(&view, &mut facts);
        self.cap_facts(&mut facts);
        facts
    }

    fn array_facts(&self, view: &View, facts: &mut Facts) {
        let Some(spec) = self.spec.array else { return };
        let members: Vec<_> = self.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
        push(facts, "array", format!("{} of {}", spec.kind, members.join(" ")));
        if spec.kind == ArrayKind::BtrfsRaid0 {
            let uuid = self.uuid.as_deref().unwrap_or_default();
            for kind in ["data", "metadata"] {
                let folder = format!("sys/fs/btrfs/{uuid}/allocation/{kind}");
                let profiles = view.list(&folder).into_iter();
                let profile = profiles.filter(|name| view.exists(&format!("{folder}/{name}/total_bytes")));
                push(facts, &format!("array {kind} profile"), profile.collect::<Vec<_>>().join(" "));
            }
            return;
        }
        let Some(array) = &self.array else { return };
        push(facts, "array device", format!("{} of {}", array.name, array.size));
        let folder = format!("sys/block/{}", array.name);
        for (name, file) in [
            ("array level", "md/level"),
            ("array members", "md/raid_disks"),
            ("array chunk (bytes)", "md/chunk_size"),
            ("array state", "md/array_state"),
            ("array smallest request (bytes)", "queue/minimum_io_size"),
            ("array full stripe (bytes)", "queue/optimal_io_size"),
        ] {
            push(facts, name, view.value(&format!("{folder}/{file}")).unwrap_or_default());
        }
    }

    fn filesystem_facts(&self, view: &View, facts: &mut Facts) {
        let mounts = Mounts::read(view).unwrap_or_default();
        let Some(mount) = mounts.containing(self.path()) else { return };
        push(facts, "file system", format!("{} from {}", mount.fs_type, mount.source));
        push(facts, "mount options", options(mount));
        if let Ok(size) = rustix::fs::statvfs(self.path()) {
            push(facts, "file system block (bytes)", size.f_bsize.to_string());
            push(facts, "file system size (bytes)", (size.f_frsize * size.f_blocks).to_string());
        }
        push(facts, "file system UUID", self.uuid.clone().unwrap_or_default());
        // The kernel's record of the stripe: XFS in sectors of 512 bytes, ext4 in blocks of the file system.
        let aligned = match self.spec.filesystem {
            Some(Filesystem::Xfs) => mount
                .option("sunit")
                .zip(mount.option("swidth"))
                .map(|(unit, width)| format!("sunit {unit}, swidth {width} sectors of 512 bytes")),
            Some(Filesystem::Ext4) => {
                mount.option("stripe").map(|blocks| format!("stripe width {blocks} blocks"))
            }
            _ => None,
        };
        push(facts, "file system alignment", aligned.unwrap_or_default());
        if self.spec.filesystem == Some(Filesystem::Xfs) {
            push(facts, "XFS allocation groups", allocation_groups(self.path()).unwrap_or_default());
        }
    }

    fn queue_facts(&self, view: &View, facts: &mut Facts) {
        for leaf in &self.leaves {
            let queue = format!("sys/block/{}/queue", leaf.name);
            let scheduler = view.choice(&format!("{queue}/scheduler")).unwrap_or_default();
            push(facts, &format!("{} scheduler", leaf.name), scheduler);
            let requests = view.value(&format!("{queue}/nr_requests")).unwrap_or_default();
            push(facts, &format!("{} nr_requests", leaf.name), requests);
            let direct = view.value(&format!("sys/block/{}/loop/dio", leaf.name)).unwrap_or_default();
            push(facts, &format!("{} direct I/O", leaf.name), direct);
        }
        let (owner, path) = match (self.own_read_ahead(), &self.top) {
            (Some(path), _) => ("btrfs", path.to_string_lossy().trim_start_matches('/').to_owned()),
            (None, Some(top)) => (top.name.as_str(), format!("sys/block/{}/queue/read_ahead_kb", top.name)),
            (None, None) => return,
        };
        push(facts, &format!("{owner} read-ahead (KiB)"), view.value(&path).unwrap_or_default());
    }

    fn cap_facts(&self, facts: &mut Facts) {
        let Some(cap) = &self.cap else { return };
        let names: Vec<_> = self.capped().into_iter().map(|device| device.name).collect();
        let each = if names.len() > 1 { "each of " } else { "" };
        push(facts, "cap on", format!("{each}{}", names.join(" ")));
        push(facts, "cap in force", cap.in_force().join(", "));
    }
}

/// The number of allocation groups of an XFS, in which it can allocate in parallel (xfs_info(8)).
fn allocation_groups(path: &Path) -> Option<String> {
    let text = Tool::new("xfs_info", "xfsprogs").ok()?.arg(path).run().ok()?;
    let (_, rest) = text.split_once("agcount=")?;
    Some(rest.split(|c: char| !c.is_ascii_digit()).next()?.to_owned())
}

/// The mount's two kinds of options as one list.
fn options(mount: &Mount) -> String {
    mount.options.iter().chain(&mount.super_options).map(String::as_str).collect::<Vec<_>>().join(",")
}

/// Adds a fact unless its value is empty.
fn push(facts: &mut Facts, name: &str, value: String) {
    if !value.is_empty() {
        facts.push((name.to_owned(), value));
    }
}

//! Rules on the file system that holds the data: its type, its mount options, and the place of the journal.

use std::path::Path;

use fathom_record::{Priority, Severity};

use super::change::{Change, quoted};
use super::{Context, RuleVerdict};
use crate::mounts::{escape, unescape};
use crate::{Mount, Mounts, environment};

fn known(context: &Context) -> Option<&Mount> {
    // If no mount is known, `device::found` reports that once.
    context.mount.as_ref()
}

fn line(mount: &Mount) -> String {
    let (point, kind, source) = (mount.mount_point.display(), &mount.fs_type, public_source(&mount.source));
    format!("/proc/self/mountinfo: {source} on {point} type {kind} ({})", environment::public_options(mount))
}

/// The mounted source, without the name of a server (`filer:/export`, `//filer/share`).
pub(super) fn public_source(source: &str) -> String {
    if let Some((_, share)) = source.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
        return format!("//server/{share}");
    }
    match source.rsplit_once(":/") {
        Some((_, path)) => format!("server:/{path}"),
        None => source.to_owned(),
    }
}

/// A line of mountinfo as a snapshot keeps it: options that name people, places or keys are left out, and the directories of an
/// overlay become the mount points above them.
pub(super) fn public_line(line: &str, mounts: &Mounts) -> String {
    let Some((left, right)) = line.split_once(" - ") else { return String::new() };
    let option = |option: &str| {
        let is_public = !environment::is_private(option);
        is_public.then(|| option.to_owned()).or_else(|| overlaid_mounts(option, mounts))
    };
    let options = |text: &str| text.split(',').filter_map(option).collect::<Vec<_>>().join(",");
    let left: Vec<String> = left
        .split(' ')
        .enumerate()
        .map(|(at, word)| if at == 5 { options(word) } else { word.to_owned() })
        .collect();
    let right: Vec<String> = right
        .split(' ')
        .enumerate()
        .map(|(at, word)| match at {
            1 => public_source(word),
            2 => options(word),
            _ => word.to_owned(),
        })
        .collect();
    format!("{} - {}", left.join(" "), right.join(" "))
}

/// An overlay's option with the mount points above its directories: enough to find the devices, without the paths of a container's
/// store.
fn overlaid_mounts(option: &str, mounts: &Mounts) -> Option<String> {
    let (key, directories) = option.split_once('=')?;
    if !matches!(key, "upperdir" | "lowerdir" | "lowerdir+") {
        return None;
    }
    let above = |directory: &str| Some(&mounts.containing(Path::new(&unescape(directory)))?.mount_point);
    let mut points: Vec<String> =
        directories.split(':').filter_map(above).map(|point| escape(&point.to_string_lossy())).collect();
    points.dedup();
    (!points.is_empty()).then(|| format!("{key}={}", points.join(":")))
}

/// XFS is advised; others are judged by their drawbacks.
pub(super) fn kind(context: &Context) -> Vec<RuleVerdict> {
    let Some(mount) = known(context) else { return Vec::new() };
    let dir = context.dir.display();
    let verdict = match mount.fs_type.as_str() {
        "xfs" => RuleVerdict::pass(format!("{dir} is on XFS.")),
        "ext4" => RuleVerdict::fail(format!("{dir} is on EXT4; mongod warns about that when it starts."))
            .wanted("Recommended: XFS, strongly with WiredTiger. To change it, make a new file system and move the data to it."),
        "nfs" | "nfs4" => network(mount),
        "tmpfs" | "ramfs" => {
            RuleVerdict::at(Severity::Critical, format!("{dir} is in memory: a restart of the host loses the data."))
        }
        "overlay" | "aufs" => {
            RuleVerdict::fail(format!("{dir} is in the container's own writable layer, which is slow and is deleted with the container."))
                .wanted("Recommended: a volume for the data, on XFS.")
        }
        other if other.starts_with("fuse") => {
            RuleVerdict::fail(format!("{dir} is on FUSE ({other}): each request passes through a process."))
        }
        other => RuleVerdict::fail(format!("{dir} is on {other}, not on XFS.")),
    };
    vec![verdict.evidence(line(mount))]
}

fn network(mount: &Mount) -> RuleVerdict {
    // "bg" never shows in mountinfo: it concerns only the mount attempt, so it cannot be judged.
    let nolock = mount.has_option("nolock") || mount.option("local_lock") == Some("all");
    let checks =
        [("hard", mount.has_option("hard")), ("nolock", nolock), ("noatime", mount.has_option("noatime"))];
    let missing: Vec<&str> = checks.iter().filter(|(_, set)| !set).map(|(name, _)| *name).collect();
    let claim = if missing.is_empty() {
        "The data is on NFS, which the vendor discourages.".to_owned()
    } else {
        format!("The data is on NFS, which the vendor discourages, without {}.", missing.join(", "))
    };
    RuleVerdict::fail(claim)
        .wanted("Recommended: a local XFS; if it must be NFS, the options bg,hard,nolock,noatime.")
}

/// Reads should not cause writes.
pub(super) fn access_times(context: &Context) -> Vec<RuleVerdict> {
    // A container's layer and memory are the wrong place altogether, which `kind` says.
    let Some(mount) = known(context).filter(|mount| !matches!(mount.fs_type.as_str(), "overlay" | "tmpfs"))
    else {
        return Vec::new();
    };
    let point = mount.mount_point.display();
    if mount.has_option("noatime") {
        return vec![RuleVerdict::pass(format!("{point} is mounted with noatime.")).evidence(line(mount))];
    }
    let (verdict, before) = if mount.has_option("relatime") {
        let claim = format!("{point} is mounted with relatime: some reads still write access times.");
        (RuleVerdict::fail(claim), "relatime")
    } else {
        let claim = format!("{point} is mounted without noatime: reads write access times.");
        (RuleVerdict::fail(claim).priority(Priority::WorthDoing), "strictatime")
    };
    let by_hand = format!(
        "and noatime among its options in /etc/fstab, as in: {} {point} {} defaults,noatime 0 0",
        public_source(&mount.source),
        mount.fs_type
    );
    let change = remount(mount, "noatime", before).and(Change::by_hand(by_hand));
    vec![verdict.evidence(line(mount)).change(change)]
}

/// Another option for a mount, until it is mounted again.
fn remount(mount: &Mount, option: &str, before: &str) -> Change {
    let point = quoted(&mount.mount_point.display().to_string());
    let set = |option: &str| format!("mount -o remount,{option} {point}");
    Change::command(set(option), set(before))
}

/// fsync must reach the disk.
pub(super) fn barriers(context: &Context) -> Vec<RuleVerdict> {
    let Some(mount) = known(context) else { return Vec::new() };
    let point = mount.mount_point.display();
    let off = mount.has_option("nobarrier") || mount.option("barrier") == Some("0");
    let verdict = if off {
        RuleVerdict::fail(format!("{point} is mounted without barriers: fsync does not make data durable."))
            .change(
                remount(
                    mount,
                    "barrier",
                    if mount.has_option("nobarrier") { "nobarrier" } else { "barrier=0" },
                )
                .and(Change::by_hand("and without nobarrier or barrier=0 in /etc/fstab")),
            )
    } else {
        RuleVerdict::pass(format!("{point} is mounted with write barriers."))
    };
    vec![verdict.evidence(line(mount))]
}

/// Checks whether journal and data share a mount.
pub(super) fn journal(context: &Context) -> Vec<RuleVerdict> {
    let Some(mount) = known(context) else { return Vec::new() };
    let Some(journal) = context.mounts.containing(&context.journal) else { return Vec::new() };
    let evidence = format!(
        "{} is on {} ({})",
        context.journal.display(),
        journal.mount_point.display(),
        public_source(&journal.source)
    );
    if journal.mount_point == mount.mount_point {
        return vec![RuleVerdict::pass("Journal and data are on one mount.").evidence(evidence)];
    }
    vec![
        RuleVerdict::note("The journal is on a mount of its own, apart from the data.")
            .evidence(evidence)
            .evidence(format!("{} is on {} ({})", context.dir.display(), mount.mount_point.display(), public_source(&mount.source)))
            .wanted("This helps speed. But a snapshot of one volume alone is then no backup, and each volume needs its own judgement."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_no_names_of_people_or_servers() {
        let line = "37 1 0:46 / /smb rw,noatime - cifs //filer/x rw,username=ann,password=hunter2,vers=3.0";
        let public_line = |line| public_line(line, &Mounts::default());
        assert_eq!(public_line(line), "37 1 0:46 / /smb rw,noatime - cifs //server/x rw,vers=3.0");
        assert_eq!(public_source("filer.example.org:/export/db"), "server:/export/db");
        assert_eq!(public_source("/dev/mapper/vg-data"), "/dev/mapper/vg-data");
        assert_eq!(public_line("nonsense"), "");
    }

    #[test]
    fn a_snapshot_keeps_the_mounts_under_an_overlay_and_no_path_of_its_store() {
        let line = "40 1 0:50 / / rw - overlay overlay rw,lowerdir=/st\\040ore/secret/a:/st\\040ore/b,upperdir=/var/secret/u,workdir=/var/w";
        let mounts = Mounts::parse(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:16 / /st\\040ore rw - xfs /dev/sdb rw\n",
        );
        let kept = "40 1 0:50 / / rw - overlay overlay rw,lowerdir=/st\\040ore,upperdir=/";
        assert_eq!(public_line(line, &mounts), kept);
        let added = "41 1 0:51 / /m ro - overlay overlay ro,lowerdir+=/secret/a,datadir+=/secret/b";
        assert_eq!(public_line(added, &mounts), "41 1 0:51 / /m ro - overlay overlay ro,lowerdir+=/");
    }
}

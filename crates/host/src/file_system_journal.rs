//! Reads the journal counters of mounted file systems: ext4's in `/proc/fs/jbd2/*/info`, those of the log of XFS in
//! `/sys/fs/xfs/*/stats/stats`.
//!
//! Other file systems have no such counters, and XFS does not show the time that its writes took. ext4 gives the time of a commit
//! only as a moving average in which each commit weighs a quarter (torvalds/linux:fs/jbd2/commit.c, `j_average_commit_time`).

use crate::View;

/// A journal's counters since its file system was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounters {
    /// ext4: transactions committed; XFS: writes of the log (`xs_log_writes`).
    pub commits: u64,
    /// ext4: the average time of the last few commits.
    pub recent_commit_us: Option<u64>,
}

/// Every journal that can be seen, by the kernel's name of the device that holds it.
pub fn read(view: &View) -> Vec<(String, JournalCounters)> {
    let ext4 = view.list("proc/fs/jbd2").into_iter().filter_map(|name| {
        let counters = parse_jbd2(&view.text(&format!("proc/fs/jbd2/{name}/info"))?)?;
        Some((device_of_jbd2(&name).to_owned(), counters))
    });
    let xfs = view.list("sys/fs/xfs").into_iter().filter_map(|name| {
        let counters = parse_xfs(&view.text(&format!("sys/fs/xfs/{name}/stats/stats"))?)?;
        Some((name, counters))
    });
    ext4.chain(xfs).collect()
}

/// A journal inside its file system is named by device and inode (`sda1-8`, `dm-0-8`), one on a separate device by that
/// device (`dm-1`): an inode number ends the name if a digit or a partition comes before it.
pub fn device_of_jbd2(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((device, inode))
            if !matches!(device, "dm" | "ram")
                && !inode.is_empty()
                && inode.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            device
        }
        _ => name,
    }
}

/// Parses the `info` file of a jbd2 journal. One without a transaction yet has no average.
pub fn parse_jbd2(text: &str) -> Option<JournalCounters> {
    let commits = text.lines().next()?.split_once(" transactions")?.0.trim().parse().ok()?;
    let recent_commit_us = text
        .lines()
        .find_map(|line| line.trim().strip_suffix("us average transaction commit time")?.parse().ok());
    Some(JournalCounters { commits, recent_commit_us })
}

/// Parses the `log` line of an XFS file system's statistics.
pub fn parse_xfs(text: &str) -> Option<JournalCounters> {
    let line = text.lines().find_map(|line| line.strip_prefix("log "))?;
    let commits = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(JournalCounters { commits, recent_commit_us: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_kinds_are_read() {
        let info = "37 transactions (30 requested), each up to 2730 blocks\naverage: \n  0ms waiting for transaction\n  4ms logging transaction\n  1234us average transaction commit time\n  3 handles per transaction\n";
        let expected = JournalCounters { commits: 37, recent_commit_us: Some(1234) };
        assert_eq!(parse_jbd2(info), Some(expected));
        let fresh = parse_jbd2("0 transactions (0 requested), each up to 2730 blocks\n").unwrap();
        assert_eq!(fresh, JournalCounters::default());
        let stats = "trans 0 0 0\nlog 15 80 0 3 2\npush_ail 0\n";
        assert_eq!(parse_xfs(stats), Some(JournalCounters { commits: 15, recent_commit_us: None }));
    }

    #[test]
    fn a_journal_is_known_by_its_device() {
        let names = ["loop0-8", "sda1-8", "dm-0-8", "dm-1", "sdb", "nvme0n1p2-8", "cciss!c0d0p1-8"];
        let devices = ["loop0", "sda1", "dm-0", "dm-1", "sdb", "nvme0n1p2", "cciss!c0d0p1"];
        assert_eq!(names.map(device_of_jbd2), devices);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9]{1,22}| transactions|us average transaction commit time|log |-|\n|.){0,20}") {
            parse_jbd2(&text);
            parse_xfs(&text);
            device_of_jbd2(&text);
        }
    }
}

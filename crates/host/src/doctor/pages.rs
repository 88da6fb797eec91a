//! The pages that the rules cite, each named once.

pub(super) const PRODUCTION_NOTES: &str = "www.mongodb.com/docs/manual/administration/production-notes/";
/// MongoDB, Production Notes as they were up to 5.0.
pub(super) const OLDER_PRODUCTION_NOTES: &str = "mongodb/docs:source/administration/production-notes.txt";
pub(super) const CHECKLIST: &str =
    "mongodb/docs:content/manual/manual/source/administration/production-checklist-operations.txt";
/// MongoDB, TCMalloc Performance Optimization for a Self-Managed Deployment.
pub(super) const TCMALLOC: &str = "www.mongodb.com/docs/manual/administration/tcmalloc-performance/";
/// MongoDB, the steps that set up huge pages from 8.0.
pub(super) const THP_STEPS: &str =
    "mongodb/docs:content/manual/manual/source/includes/steps-enable-thp-systemd.rst";
/// MongoDB, UNIX ulimit Settings.
pub(super) const ULIMIT: &str = "mongodb/docs:source/reference/ulimit.txt";
/// MongoDB, the note on TCP keepalive.
pub(super) const KEEPALIVE: &str = "mongodb/docs:source/includes/fact-tcp-keepalive-linux.rst";
/// MongoDB, the warnings of the server itself at its start.
pub(super) const STARTUP_WARNINGS: &str = "mongodb/mongo:src/mongo/db/startup_warnings_mongod.cpp";
/// The crash of servers from 8.0 on kernels from 6.19.
pub(super) const RSEQ_CRASH: &str = "docker-library/mongo#762; google/tcmalloc#292; jira SERVER-121912";
/// Percona on the kernel's dirty limits.
pub(super) const DIRTY: &str = "www.percona.com/blog/2016/08/12/tuning-linux-for-mongodb/";
/// Netdata on huge pages and their defragmentation, for older servers.
pub(super) const THP_OLDER: &str = "www.netdata.cloud/guides/mongodb/mongodb-disable-transparent-huge-pages/";
/// The kernel's page of the files in a device's queue folder.
pub(super) const SYSFS_BLOCK: &str = "torvalds/linux:Documentation/ABI/stable/sysfs-block";
/// The kernel's page of software RAID.
pub(super) const MD: &str = "torvalds/linux:Documentation/admin-guide/md.rst";
/// The kernel's page of the multi-queue block layer.
pub(super) const BLK_MQ: &str = "torvalds/linux:Documentation/block/blk-mq.rst";
/// The manual pages of the two file systems' mount options.
pub(super) const BARRIERS: &str = "ext4(5) and xfs(5), mount options barrier and nobarrier";
pub(super) const IO_CONTROLLER: &str = "facebookmicrosites.github.io/cgroup2/docs/io-controller.html";
pub(super) const ISCSI: &str = "open-iscsi/open-iscsi:etc/iscsid.conf";

//! The pages that the rules cite, each named once.

pub(super) const PRODUCTION_NOTES: &str =
    "https://www.mongodb.com/docs/manual/administration/production-notes/";
/// MongoDB, Production Notes as they were up to 5.0.
pub(super) const OLDER_PRODUCTION_NOTES: &str =
    "https://www.mongodb.com/docs/v5.0/administration/production-notes/";
pub(super) const CHECKLIST: &str =
    "https://www.mongodb.com/docs/manual/administration/production-checklist-operations/";
/// MongoDB, TCMalloc Performance Optimization for a Self-Managed Deployment.
pub(super) const TCMALLOC: &str = "https://www.mongodb.com/docs/manual/administration/tcmalloc-performance/";
/// MongoDB, the steps that set up huge pages from 8.0.
pub(super) const THP_STEPS: &str = "https://www.mongodb.com/docs/manual/administration/tcmalloc-performance/#enable-transparent-hugepages--thp-";
/// MongoDB, UNIX ulimit Settings.
pub(super) const ULIMIT: &str = "https://www.mongodb.com/docs/manual/reference/ulimit/";
/// MongoDB, the note on TCP keepalive.
pub(super) const KEEPALIVE: &str = "https://www.mongodb.com/docs/manual/faq/diagnostics/";
/// MongoDB, the warnings of the server itself at its start.
pub(super) const STARTUP_WARNINGS: &str =
    "https://github.com/mongodb/mongo/blob/r8.0.0/src/mongo/db/startup_warnings_mongod.cpp";
/// The crash of servers from 8.0 on kernels from 6.19.
pub(super) const RSEQ_CRASH: &str = "https://github.com/docker-library/mongo/issues/762 https://github.com/google/tcmalloc/issues/292 https://jira.mongodb.org/browse/SERVER-121912";
/// Percona on the kernel's dirty limits.
pub(super) const DIRTY: &str = "https://www.percona.com/blog/2016/08/12/tuning-linux-for-mongodb/";
/// Netdata on huge pages and their defragmentation, for older servers.
pub(super) const THP_OLDER: &str =
    "https://www.netdata.cloud/guides/mongodb/mongodb-disable-transparent-huge-pages/";
/// The kernel's page of the files in a device's queue folder.
pub(super) const SYSFS_BLOCK: &str = "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-block";
/// The kernel's page of software RAID.
pub(super) const MD: &str = "https://docs.kernel.org/admin-guide/md.html";
/// The kernel's page of the multi-queue block layer.
pub(super) const BLK_MQ: &str = "https://docs.kernel.org/block/blk-mq.html";
/// The manual pages of the two file systems' mount options.
pub(super) const BARRIERS: &str =
    "https://man7.org/linux/man-pages/man5/ext4.5.html https://man7.org/linux/man-pages/man5/xfs.5.html";
pub(super) const IO_CONTROLLER: &str = "https://facebookmicrosites.github.io/cgroup2/docs/io-controller.html";
pub(super) const ISCSI: &str = "https://github.com/open-iscsi/open-iscsi/blob/master/etc/iscsid.conf";

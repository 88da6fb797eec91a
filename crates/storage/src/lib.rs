//! Storage for studies and tests: loop devices, arrays, file systems, I/O caps, queue settings, always undone.
//!
//! Studies and tests need a disk with a known size, file system or limit on a machine that has only its own. What
//! is made here is recorded in the undo journal before it exists, undone when its guard goes, and left to
//! `fathom cleanup` when the process died. It refuses to touch any device, mount or cgroup that it did not make, but for
//! whole disks whose names were typed twice and that nobody uses.

mod array;
mod cap;
mod filesystem;
mod kernel;
mod loop_device;
mod mkfs;
mod queue;
mod target;

pub use array::{Array, ArrayKind};
pub use cap::{Cap, CapLimits, STORAGE_CLASSES, StorageClass, storage_class};
pub use filesystem::{FilesystemOptions, Mounted, format_and_mount};
pub use loop_device::{Backing, LoopDevice, LoopOptions};
pub use mkfs::Filesystem;
pub use queue::QueueSettings;
pub use target::{Base, CapPlace, NamedDisk, PreparedTarget, TargetDevice, TargetSpec};

//! Storage for studies and tests: loop devices, arrays, file systems, I/O caps and queue settings, all undone afterwards.
//!
//! Studies and tests need a disk with a known size, file system or limit on a machine that has only its own. Each
//! resource is recorded in the undo journal before it exists, is undone when its guard is dropped, and is left to
//! `fathom cleanup` if the process died. The crate touches no device, mount or cgroup that it did not make, except whole
//! disks whose names were typed twice and that are not in use.

mod array;
mod cap;
mod filesystem;
mod kernel;
mod loop_device;
mod mkfs;
mod queue;
mod target;

pub use array::{Array, ArrayKind};
pub use cap::{Cap, CapLimits, STORAGE_CLASSES, StoragePreset, storage_class};
pub use filesystem::{FilesystemOptions, MountGuard, format_and_mount};
pub use loop_device::{Backing, LoopDevice, LoopOptions};
pub use mkfs::Filesystem;
pub use queue::QueueSettings;
pub use target::{Base, CapPlace, NamedDisk, PreparedTarget, TargetDevice, TargetSpec};

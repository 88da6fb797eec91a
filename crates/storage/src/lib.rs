//! Loop devices, file systems and I/O caps, always undone.
//!
//! Studies and tests need a disk with a known size, file system or limit on a machine that has only its own. What
//! is made here is recorded in the undo journal before it exists, undone when its guard goes, and left to
//! `fathom cleanup` when the process died. It refuses to touch any device, mount or cgroup that it did not make.

mod cap;
mod filesystem;
mod loop_device;

pub use cap::{Cap, CapLimits};
pub use filesystem::{Filesystem, FilesystemOptions, Mounted, format_and_mount};
pub use loop_device::{Backing, LoopDevice, LoopOptions};

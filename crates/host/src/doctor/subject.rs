//! Who was judged, as a report shows it: no host name, no addresses.

use serde::Serialize;

use super::Context;

/// The host, the data's folder, and what it stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Subject {
    /// `live` or `snapshot`.
    pub origin: &'static str,
    /// The data's folder.
    pub dir: String,
    /// `xfs on /data`, where the mount is known.
    pub mount: Option<String>,
    /// The devices under it, top first.
    pub devices: Vec<String>,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub architecture: String,
    /// The version of MongoDB judged for.
    pub mongodb: String,
    /// The running server's process number.
    pub mongod_pid: Option<u32>,
}

impl Subject {
    pub(super) fn of(context: &Context) -> Self {
        Subject {
            origin: if context.view.is_live() { "live" } else { "snapshot" },
            dir: context.dir.display().to_string(),
            mount: context
                .mount
                .as_ref()
                .map(|mount| format!("{} on {}", mount.fs_type, mount.mount_point.display())),
            devices: context.layers.iter().map(|device| device.name.clone()).collect(),
            kernel: context.kernel.to_string(),
            architecture: context.architecture.clone(),
            mongodb: context.mongodb.to_string(),
            mongod_pid: context.mongod.as_ref().map(|mongod| mongod.pid),
        }
    }
}

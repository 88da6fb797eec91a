//! The features of this kernel: file systems, md and device mapper, built in or as modules.
//!
//! A missing feature is refused early with the name of its module; mkfs or mdadm would fail half-way with a misleading message.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_host::View;
use fathom_process::Tool;

/// Whether the module is loaded, or modprobe(8) knows how to load it.
pub(crate) fn offers(module: &str) -> bool {
    Path::new("/sys/module").join(module.replace('-', "_")).exists()
        || Tool::new("modprobe", "kmod")
            .is_ok_and(|tool| tool.args(["--dry-run", "-q", module]).run().is_ok())
}

/// Loads a module unless the running kernel has it already; a built-in module counts as loaded.
pub(crate) fn load(module: &str) -> Result<()> {
    Tool::new("modprobe", "kmod")?.args(["-q", module]).run().map(drop)
}

/// Whether the kernel has the file system.
pub(crate) fn has_filesystem(view: &View, name: &str) -> bool {
    let known = view.text("proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().next_back() == Some(name)) || offers(name)
}

/// Whether md already runs with this personality (`raid0`).
pub(crate) fn runs_md(view: &View, personality: &str) -> bool {
    let text = view.text("proc/mdstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Personalities :"));
    line.is_some_and(|line| line.split_whitespace().any(|word| word == format!("[{personality}]")))
}

/// Whether device mapper runs already.
pub(crate) fn runs_device_mapper(view: &View) -> bool {
    let text = view.text("proc/misc").unwrap_or_default();
    text.lines().any(|line| line.split_whitespace().nth(1) == Some("device-mapper"))
}

/// The refusal for a kernel that lacks a feature.
pub(crate) fn lacks(what: &str, module: &str) -> Error {
    Error::new(Kind::Unsupported, format!("this kernel has no {what}")).advise(format!("modprobe {module}"))
}

/// A new UUID (random(4)).
pub(crate) fn new_uuid() -> Result<String> {
    View::live().required("proc/sys/kernel/random/uuid").map(|text| text.trim().to_owned())
}

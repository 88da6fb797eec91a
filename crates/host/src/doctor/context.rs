//! What every rule needs to know: versions, the data's folder, the mount and every layer of devices under it, and
//! the running server if there is one.
//!
//! Whatever had to be assumed is kept as a sentence and shown, never hidden.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::manifest::Manifest;
use super::mongod::Mongod;
use super::version::{MongoVersion, Triple};
use crate::kernel::{self, Version};
use crate::{BlockTree, Device, Mount, Mounts, View};

/// What the person said about the subject.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of the data; else the running mongod's, else a default that exists.
    pub dir: Option<PathBuf>,
    /// The version to judge for; else the running mongod's, else [`MongoVersion::CURRENT`].
    pub mongodb: Option<MongoVersion>,
}

/// A host, ready to be judged.
pub struct Context {
    /// Where facts are read.
    pub view: View,
    /// The version judged for.
    pub mongodb: MongoVersion,
    /// The kernel's version.
    pub kernel: Version,
    /// As `uname -m` says.
    pub architecture: String,
    /// The data's folder, absolute and without symbolic links.
    pub dir: PathBuf,
    /// Where its journal is.
    pub journal: PathBuf,
    /// All mounts.
    pub mounts: Mounts,
    /// The mount that holds the data.
    pub mount: Option<Mount>,
    /// All block devices.
    pub blocks: BlockTree,
    /// The devices under the data, top first; empty where none is visible.
    pub layers: Vec<Device>,
    /// The running server.
    pub mongod: Option<Mongod>,
    /// Why this is taken for a virtual machine, if it is.
    pub virtual_machine: Option<String>,
    /// What nobody said and no file told.
    pub assumptions: Vec<String>,
}

impl Context {
    /// Reads what the rules share.
    pub(super) fn read(view: &View, options: &Options) -> Result<Self> {
        let manifest = if view.is_live() { None } else { Manifest::read(view)? };
        let manifest = manifest.as_ref();
        let mut assumptions = Vec::new();
        let mounts = Mounts::read(view)?;
        let servers = Mongod::running(view);
        let dir = choose_dir(view, options, manifest, &servers, &mut assumptions)?;
        let mongod = choose_server(servers, &dir, &mut assumptions);
        let mongodb = choose_version(options, manifest, mongod.as_ref(), &mut assumptions);
        let Some(kernel) = kernel::read(view) else {
            let what = format!(
                "{} tells no kernel version",
                view.root().join("proc/sys/kernel/osrelease").display()
            );
            return Err(Error::new(Kind::NotFound, what).advise("without it no rule can be chosen"));
        };
        let captured = manifest.filter(|manifest| manifest.dir == dir);
        let journal = captured.and_then(|manifest| manifest.journal.clone());
        let journal =
            journal.or_else(|| resolve(view, &dir.join("journal"))).unwrap_or_else(|| dir.join("journal"));
        let mount = mounts.containing(&dir).cloned();
        let blocks = BlockTree::read(view);
        let top = mount.as_ref().and_then(|mount| blocks.under(mount));
        let layers = top.map(|top| blocks.layers(top).into_iter().cloned().collect()).unwrap_or_default();
        Ok(Context {
            architecture: architecture(view, manifest, &mut assumptions),
            virtual_machine: virtual_machine(view),
            view: view.clone(),
            mongodb,
            kernel,
            dir,
            journal,
            mounts,
            mount,
            blocks,
            layers,
            mongod,
            assumptions,
        })
    }

    /// The kernel's three numbers, which ranges are compared with.
    pub fn kernel_numbers(&self) -> Triple {
        (self.kernel.major, self.kernel.minor, self.kernel.patch)
    }

    /// The layers that have a queue of their own, top first: partitions are left out, their disks stand for them.
    pub fn disks(&self) -> impl Iterator<Item = &Device> {
        self.layers.iter().filter(|device| device.disk.is_none())
    }

    /// The bottom layers: where requests leave the kernel.
    pub fn leaves(&self) -> impl Iterator<Item = &Device> {
        self.layers.iter().filter(|device| device.below.is_empty())
    }
}

/// The folder, resolved: what was named, what the snapshot says, what the server uses, or a default.
fn choose_dir(
    view: &View,
    options: &Options,
    manifest: Option<&Manifest>,
    servers: &[Mongod],
    assumptions: &mut Vec<String>,
) -> Result<PathBuf> {
    if let Some(dir) = &options.dir {
        return if view.is_live() {
            fs::canonicalize(dir).map_err(|e| Error::io("look at", dir, e))
        } else if dir.is_absolute() {
            Ok(dir.clone())
        } else {
            let what =
                format!("{} is not an absolute path, as a folder of another host must be", dir.display());
            Err(Error::usage(what))
        };
    }
    if let Some(manifest) = manifest {
        return Ok(manifest.dir.clone());
    }
    let of_server =
        servers.iter().find_map(|server| Some((server, resolve(view, server.db_path.as_deref()?)?)));
    if let Some((server, dir)) = of_server {
        assumptions.push(format!(
            "the data is in {}, the dbPath of mongod (pid {})",
            dir.display(),
            server.pid
        ));
        return Ok(dir);
    }
    let default = Path::new("/var/lib/mongodb");
    if let Some(dir) = resolve(view, default).filter(|dir| dir.is_dir() || !view.is_live()) {
        assumptions.push("the data is in /var/lib/mongodb: no --dir, and no running mongod".to_owned());
        return Ok(dir);
    }
    let here = std::env::current_dir().map_err(|e| Error::io("look at", ".", e))?;
    assumptions.push(format!(
        "the data is in the current folder, {}: no --dir, no running mongod, no /var/lib/mongodb",
        here.display()
    ));
    Ok(here)
}

/// `path` without symbolic links; on a snapshot as it stands, since links were resolved when it was made.
fn resolve(view: &View, path: &Path) -> Option<PathBuf> {
    if view.is_live() { fs::canonicalize(path).ok() } else { path.is_absolute().then(|| path.to_owned()) }
}

/// The server whose data is in `dir`, else the first.
fn choose_server(servers: Vec<Mongod>, dir: &Path, assumptions: &mut Vec<String>) -> Option<Mongod> {
    let count = servers.len();
    let at = servers.iter().position(|server| server.db_path.as_deref() == Some(dir)).unwrap_or(0);
    let server = servers.into_iter().nth(at)?;
    if let Some(elsewhere) = server.db_path.as_deref().filter(|path| *path != dir) {
        let (pid, elsewhere) = (server.pid, elsewhere.display());
        assumptions.push(format!(
            "mongod (pid {pid}) has its data in {elsewhere}; its limits are shown all the same"
        ));
    }
    if count > 1 {
        assumptions.push(format!("{count} mongod run here; limits are those of pid {}", server.pid));
    }
    Some(server)
}

fn choose_version(
    options: &Options,
    manifest: Option<&Manifest>,
    mongod: Option<&Mongod>,
    assumptions: &mut Vec<String>,
) -> MongoVersion {
    if let Some(version) = options.mongodb {
        return version;
    }
    let captured = manifest.and_then(|manifest| manifest.mongodb.as_deref()?.parse().ok());
    if let Some(version) = captured.or(mongod.and_then(|mongod| mongod.version)) {
        assumptions.push(format!("MongoDB {version}, the version of the running mongod"));
        return version;
    }
    let why = match mongod {
        Some(mongod) => format!("the version of mongod (pid {}) could not be read", mongod.pid),
        None => "no running mongod".to_owned(),
    };
    assumptions
        .push(format!("MongoDB {}, the current release: no --mongodb, and {why}", MongoVersion::CURRENT));
    MongoVersion::CURRENT
}

/// Why this is taken for a virtual machine, or `None` on metal.
fn virtual_machine(view: &View) -> Option<String> {
    const PRODUCT: &str = "sys/class/dmi/id/product_name";
    const VENDOR: &str = "sys/class/dmi/id/sys_vendor";
    const VENDORS: [&str; 8] =
        ["QEMU", "VMware", "Xen", "Amazon EC2", "Google", "innotek", "OpenStack", "DigitalOcean"];
    let product = view.value(PRODUCT).unwrap_or_default();
    if product.contains("metal") {
        return None;
    }
    let vendor = view.value(VENDOR).unwrap_or_default();
    if let Some(name) = view.value("sys/hypervisor/type") {
        return Some(format!("/sys/hypervisor/type = {name}"));
    }
    if VENDORS.iter().any(|name| vendor.starts_with(name)) || product.contains("Virtual") {
        return Some(format!("/{VENDOR} = {vendor}, /{PRODUCT} = {product}"));
    }
    let flags = view.text("proc/cpuinfo")?;
    let flagged =
        flags.lines().find(|line| line.starts_with("flags"))?.split_whitespace().any(|f| f == "hypervisor");
    flagged.then(|| "/proc/cpuinfo: the flag hypervisor is set".to_owned())
}

fn architecture(view: &View, manifest: Option<&Manifest>, assumptions: &mut Vec<String>) -> String {
    if view.is_live() {
        return rustix::system::uname().machine().to_string_lossy().into_owned();
    }
    let known = manifest.map(|manifest| manifest.architecture.clone());
    known.or_else(|| view.value("proc/sys/kernel/arch")).unwrap_or_else(|| {
        assumptions.push("the machine is an x86_64: the snapshot does not say".to_owned());
        "x86_64".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_refused() {
        let options = Options { dir: Some("/no/such/folder".into()), mongodb: None };
        let error = Context::read(&View::live(), &options).err().unwrap();
        assert_eq!(error.kind(), Kind::NotFound);
    }
}

//! The facts that every rule needs: versions, the data's folder, the mount and every layer of devices under it, and the
//! running server if there is one.
//!
//! Every assumption is kept as a sentence and shown, never hidden.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_errors::{Error, Kind, Result};

use super::manifest::SnapshotManifest;
use super::mongod::Mongod;
use super::version::{MongoVersion, Triple};
use crate::kernel::{self, KernelVersion};
use crate::{BlockTree, Device, DeviceStack, MachineSize, Mount, Mounts, View};

/// The user's statements about the subject.
#[derive(Clone, Debug, Default)]
pub struct DoctorOptions {
    /// The folder of the data; else the running mongod's, else a default that exists.
    pub dir: Option<PathBuf>,
    /// The version to judge for; else the running mongod's, else [`MongoVersion::CURRENT`].
    pub mongodb: Option<MongoVersion>,
}

/// A host, ready to be judged.
pub struct Context {
    /// The source of facts.
    pub view: View,
    /// The version judged for.
    pub mongodb: MongoVersion,
    pub kernel: KernelVersion,
    /// As `uname -m` says.
    pub architecture: String,
    /// The data's folder, absolute and without symbolic links.
    pub dir: PathBuf,
    /// The folder of its journal.
    pub journal: PathBuf,
    pub mounts: Mounts,
    /// The mount that holds the data.
    pub mount: Option<Mount>,
    /// The devices under the data; empty if they are not visible.
    pub stack: DeviceStack,
    pub mongod: Option<Mongod>,
    /// The reason to take this for a virtual machine, if there is one.
    pub virtual_machine: Option<String>,
    /// Facts that neither the user nor a file gave, and that were assumed.
    pub assumptions: Vec<String>,
}

impl Context {
    /// Reads the facts that the rules share.
    pub(super) fn read(view: &View, options: &DoctorOptions) -> Result<Self> {
        let manifest = if view.is_live() { None } else { SnapshotManifest::read(view)? };
        let manifest = manifest.as_ref();
        let mut assumptions = Vec::new();
        let mounts = Mounts::read(view)?;
        let servers = Mongod::running(view);
        let dir = choose_dir(view, options, manifest, &servers, &mut assumptions)?;
        let mongod = choose_server(servers, &dir, &mut assumptions);
        let mongodb = choose_version(options, manifest, mongod.as_ref(), &mut assumptions);
        if mongodb.is_newer_than_known() {
            let newest = MongoVersion::NEWEST_KNOWN;
            assumptions.push(format!(
                "the rules know MongoDB up to {newest}, and {mongodb} is newer: advice that changed since is missing"
            ));
        }
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
        let stack = DeviceStack::under(view, &mounts, &BlockTree::read(view), &dir);
        // The groups of a running server are its own, and rules name them.
        let size = MachineSize::read(view).filter(|_| view.is_live() && mongod.is_none());
        if let Some(words) = size.and_then(|size| size.limit_words()) {
            assumptions.push(format!("the machine is {words}: mongod would run in the same"));
        }
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
            stack,
            mongod,
            assumptions,
        })
    }

    /// The kernel's three numbers, which ranges are compared with.
    pub fn kernel_numbers(&self) -> Triple {
        (self.kernel.major, self.kernel.minor, self.kernel.patch)
    }

    /// The layers that have their own queue, top first: partitions are left out, since their disks represent them.
    pub fn disks(&self) -> impl Iterator<Item = &Device> {
        self.stack.layers.iter().filter(|device| device.disk.is_none())
    }

    /// The bottom layers, at which requests leave the kernel.
    pub fn leaves(&self) -> impl Iterator<Item = &Device> {
        self.stack.leaves()
    }
}

/// The folder, resolved: the one that was named, else that of the snapshot, else that of the server, else a default.
fn choose_dir(
    view: &View,
    options: &DoctorOptions,
    manifest: Option<&SnapshotManifest>,
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
        assumptions
            .push("the data is in /var/lib/mongodb: --dir is not given, and no mongod runs".to_owned());
        return Ok(dir);
    }
    let here = std::env::current_dir().map_err(|e| Error::io("look at", ".", e))?;
    assumptions.push(format!(
        "the data is in the current folder, {}: --dir is not given, no mongod runs, and /var/lib/mongodb does not exist",
        here.display()
    ));
    Ok(here)
}

/// `path` without symbolic links; unchanged on a snapshot, whose links were resolved when it was made.
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
            "mongod (pid {pid}) has its data in {elsewhere}; its limits are shown nevertheless"
        ));
    }
    if count > 1 {
        assumptions
            .push(format!("{count} mongod run here; the limits shown are those of pid {}", server.pid));
    }
    Some(server)
}

fn choose_version(
    options: &DoctorOptions,
    manifest: Option<&SnapshotManifest>,
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
        None => "no mongod runs".to_owned(),
    };
    assumptions.push(format!(
        "MongoDB {}, the current release: --mongodb is not given, and {why}",
        MongoVersion::CURRENT
    ));
    MongoVersion::CURRENT
}

/// The reason to take this for a virtual machine, or `None` on physical hardware.
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

fn architecture(view: &View, manifest: Option<&SnapshotManifest>, assumptions: &mut Vec<String>) -> String {
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
        let options = DoctorOptions { dir: Some("/no/such/folder".into()), mongodb: None };
        let error = Context::read(&View::live(), &options).err().unwrap();
        assert_eq!(error.kind(), Kind::NotFound);
    }
}

//! The persistent names of devices (`iostat -j ID`): links in a folder of `/dev/disk`, such as `by-id` or `by-label`.

use std::path::Path;

use fathom_errors::{Error, Result};

/// The names of one kind, each with the kernel's name of the same device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentNames(Vec<(String, String)>);

impl PersistentNames {
    /// Reads the links of `dev_disk` (`/dev/disk`) of a kind in any case: `id`, `label`, `path`, `uuid` and others.
    ///
    /// # Errors
    /// When there is no folder of that kind.
    pub fn read(dev_disk: &Path, kind: &str) -> Result<Self> {
        let folder = dev_disk.join(format!("by-{}", kind.to_lowercase()));
        let links = folder.read_dir().ok().filter(|_| !kind.contains('/'));
        let links = links.ok_or_else(|| unknown(dev_disk, kind))?;
        let mut names: Vec<(String, String)> = links
            .flatten()
            .filter_map(|link| {
                let target = link.path().read_link().ok()?;
                Some((link.file_name().into_string().ok()?, target.file_name()?.to_str()?.to_owned()))
            })
            .collect();
        names.sort();
        Ok(PersistentNames(names))
    }

    /// The kernel's name of the device that has this name.
    pub fn device(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, device)| device.as_str())
    }

    /// The first name of a device, in alphabetical order.
    pub fn name_of(&self, device: &str) -> Option<&str> {
        self.0.iter().find(|(_, known)| known == device).map(|(name, _)| name.as_str())
    }
}

fn unknown(dev_disk: &Path, kind: &str) -> Error {
    let folders = dev_disk.read_dir().into_iter().flatten().flatten();
    let mut kinds: Vec<String> = folders
        .filter_map(|folder| Some(folder.file_name().to_str()?.strip_prefix("by-")?.to_uppercase()))
        .collect();
    kinds.sort();
    let advice = match kinds.as_slice() {
        [] => format!("{} has no names of any type", dev_disk.display()),
        kinds => format!("this machine has {}", kinds.join(", ")),
    };
    Error::usage(format!("Invalid type of persistent device name '{kind}'")).advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_names_of_a_kind() {
        let folder = tempfile::TempDir::new().unwrap();
        let by_id = folder.path().join("by-id");
        std::fs::create_dir(&by_id).unwrap();
        for (name, target) in
            [("wwn-0x5", "../../sda"), ("ata-X", "../../sda"), ("ata-X-part1", "../../sda1")]
        {
            std::os::unix::fs::symlink(target, by_id.join(name)).unwrap();
        }
        let names = PersistentNames::read(folder.path(), "ID").unwrap();
        assert_eq!((names.name_of("sda"), names.name_of("sda1")), (Some("ata-X"), Some("ata-X-part1")));
        assert_eq!(
            (names.device("wwn-0x5"), names.device("sda"), names.name_of("sdb")),
            (Some("sda"), None, None)
        );
        let error = PersistentNames::read(folder.path(), "Foo").unwrap_err();
        assert_eq!(error.kind().exit_code(), 2);
        assert!(error.to_string().ends_with("'Foo'; this machine has ID"), "{error}");
        assert!(PersistentNames::read(folder.path(), "id/../by-id").is_err());
    }
}

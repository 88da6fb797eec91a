//! Reads the contents of a block device by the signatures of file systems, partition tables, md and LVM (wipefs(8)).
//!
//! `wipefs` knows all of them, shows their UUIDs, and only reads unless asked to erase. The probe, which starts no
//! programs, has its own table to decide whether it may write.

use std::path::Path;

use fathom_errors::Result;

use crate::Tool;

/// One mark on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// `ext4`, `dos`, `linux_raid_member`, `LVM2_member`...
    pub kind: String,
    /// The UUID that it shows, if any.
    pub uuid: Option<String>,
}

/// Every signature on `device`; an empty list on an empty one. Needs read permission.
pub fn signatures(device: &Path) -> Result<Vec<Signature>> {
    let text = Tool::new("wipefs", "util-linux")?.args(["--no-act", "--parsable"]).arg(device).run()?;
    Ok(parse(&text))
}

/// Lines of offset, UUID, label and type with commas between, after a line of headings that begins with `#`.
fn parse(text: &str) -> Vec<Signature> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            // A label may itself hold a comma; the type comes last.
            let (before, kind) = line.rsplit_once(',')?;
            let uuid = before.split(',').nth(1).filter(|uuid| !uuid.is_empty());
            Some(Signature { kind: kind.to_owned(), uuid: uuid.map(str::to_owned) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_signature_and_headings_are_none() {
        let text = "# offset,uuid,label,type\n0x438,3e4c-1,a, b,ext4\n0x1fe,,,dos\n";
        let found = parse(text);
        assert_eq!(found[0], Signature { kind: "ext4".into(), uuid: Some("3e4c-1".into()) });
        assert_eq!(found[1], Signature { kind: "dos".into(), uuid: None });
        assert!(parse("").is_empty());
    }
}

//! Recognises what a block device holds by its first bytes, so that the probe never writes over it.
//!
//! fio writes over an unmounted file system without a word (axboe/fio#1007, #1637). Offsets are those that
//! util-linux's blkid documents for each format.

/// How much of the device's head must be read.
pub(crate) const HEAD_BYTES: usize = 128 << 10;

/// (what it is, offset in bytes, the bytes there). A table: one row per format.
const SIGNATURES: &[(&str, usize, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 65_600, b"_BHRfS_M"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an md RAID member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("an md RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a ZFS member", 16_384, &[0x0c, 0xb1, 0xba, 0x00, 0, 0, 0, 0]),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("a bcache device", 4120, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    ("a partition table or boot sector", 510, &[0x55, 0xaa]),
];

/// What the head of a device holds; `None` when nothing known is there.
pub(crate) fn find(head: &[u8]) -> Option<&'static str> {
    let hit =
        |(_, offset, bytes): &&(&str, usize, &[u8])| head.get(*offset..offset + bytes.len()) == Some(*bytes);
    SIGNATURES.iter().find(hit).map(|(what, _, _)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_are_found_and_blank_is_blank() {
        let blank = vec![0; HEAD_BYTES];
        assert_eq!(find(&blank), None);
        assert_eq!(find(&[]), None);
        for (what, offset, bytes) in SIGNATURES {
            let mut head = blank.clone();
            head[*offset..offset + bytes.len()].copy_from_slice(bytes);
            assert_eq!(find(&head), Some(*what));
        }
    }
}

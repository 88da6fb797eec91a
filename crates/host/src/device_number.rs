//! The number by which the kernel knows a block device.

use std::fmt;
use std::str::FromStr;

use fathom_errors::Error;

/// A device number, written `major:minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    /// The device within the driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// Whether it names no device: a file system without a device of its own, or a hidden device of an older kernel.
    pub fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl FromStr for DeviceNumber {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (major, minor) = text.trim().split_once(':')?;
            Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
        };
        parse().ok_or_else(|| Error::usage(format!("'{text}' is not a device number (major:minor)")))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

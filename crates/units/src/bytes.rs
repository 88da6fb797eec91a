//! Sizes in bytes: `4K`, `32KiB`, `10G` parse as powers of two, as fio, lvm and mongod's own flags read them.
//!
//! A decimal suffix (`4KB`) also means 1024: a disk probe never needs 4000-byte blocks, and O_DIRECT would reject them.
//! Fractions are allowed if they give whole bytes (`0.5K`).

use std::fmt;
use std::str::FromStr;

use fathom_errors::Error;
use serde::{Deserialize, Serialize};

/// A size or an offset in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const SUFFIXES: [(char, u32); 5] = [('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50)];

impl Bytes {
    pub const fn kib(n: u64) -> Self {
        Bytes(n << 10)
    }

    pub const fn mib(n: u64) -> Self {
        Bytes(n << 20)
    }

    pub const fn gib(n: u64) -> Self {
        Bytes(n << 30)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The same in MiB, as a ratio for rates.
    pub fn as_mib(self) -> f64 {
        self.0 as f64 / (1u64 << 20) as f64
    }
}

impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::usage(format!("'{text}' is not a size; write it like 4096, 4K, 32KiB or 10G"));
        let trimmed = text.trim();
        let digits_end =
            trimmed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(digits_end);
        let shift = match suffix.trim().to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            other => {
                let mut rest = other.chars();
                let first = rest.next().ok_or_else(bad)?;
                let shift = SUFFIXES.iter().find(|(c, _)| *c == first).ok_or_else(bad)?.1;
                matches!(rest.as_str(), "" | "B" | "IB").then_some(shift).ok_or_else(bad)?
            }
        };
        let number = number.replace('_', "");
        if let Ok(whole) = number.parse::<u64>() {
            let too_large = || Error::usage(format!("'{text}' is larger than 16 EiB"));
            return whole.checked_mul(1 << shift).map(Bytes).ok_or_else(too_large);
        }
        let value = number.parse::<f64>().map_err(|_| bad())? * (1u64 << shift) as f64;
        (value.fract() == 0.0 && value < (1u64 << 53) as f64).then_some(Bytes(value as u64)).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    /// Formats in the largest power-of-two unit that leaves at least 1, with one decimal if it is not whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SUFFIXES.iter().rev().find(|(_, shift)| self.0 >> shift > 0);
        let text = match unit {
            None => format!("{} B", self.0),
            Some((c, shift)) if self.0.is_multiple_of(1 << shift) => format!("{} {c}iB", self.0 >> shift),
            Some((c, shift)) => format!("{:.1} {c}iB", self.0 as f64 / (1u64 << shift) as f64),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_two() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4K", 4096),
            ("4k", 4096),
            ("4KB", 4096),
            ("4 KiB", 4096),
            ("0.5K", 512),
            ("10G", 10 << 30),
            ("1.5M", 3 << 19),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "K", "4X", "4KK", "-4K", "0.3", "1e9", "99999999999999999999", "17000000T", "NaN"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn display_reads_well() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes::kib(32).to_string(), "32 KiB");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes::gib(10).to_string(), "10 GiB");
    }
}

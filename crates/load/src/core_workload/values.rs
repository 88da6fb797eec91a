//! The values that a workload writes into its fields.

use fathom_stats::Seeded;

use super::Lengths;
use crate::values::{append_random, integrity};

/// How values are made.
#[derive(Clone, Debug)]
pub struct Values {
    /// How long they are, in bytes.
    pub lengths: Lengths,
    /// `dataintegrity`: they say what they must be.
    pub integrity: bool,
    /// `compressibility`: about how often smaller a compressor makes them; 1 leaves them as YCSB draws them. Ours.
    pub compressibility: f64,
    /// `datatype=string`: they are strings rather than binary values. Ours.
    pub text: bool,
}

impl Values {
    /// Appends a value of a record's field.
    pub fn append(&self, key: &str, field: &str, random: &mut Seeded, out: &mut Vec<u8>) {
        let bytes = usize::try_from(self.lengths.draw(random)).unwrap_or(usize::MAX);
        if self.integrity {
            out.extend_from_slice(integrity(key, field, bytes).as_bytes());
            return;
        }
        let start = out.len();
        let drawn = if self.compressibility > 1.0 {
            (bytes as f64 / self.compressibility).ceil() as usize
        } else {
            bytes
        };
        append_random(random, drawn.min(bytes), out);
        out.resize(start + bytes, b'a');
    }

    /// Whether a value is the one that the field must have; only where they say what they must be.
    pub fn is_right(&self, key: &str, field: &str, value: &[u8]) -> bool {
        let Lengths::Constant(bytes) = self.lengths else { return true };
        !self.integrity
            || integrity(key, field, usize::try_from(bytes).unwrap_or(usize::MAX)).as_bytes() == value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_shrink_as_far_as_they_are_told_to() {
        let mut random = Seeded::from_seed(1);
        let mut values =
            Values { lengths: Lengths::Constant(1000), integrity: false, compressibility: 4.0, text: false };
        let mut out = b"x".to_vec();
        values.append("user1", "field0", &mut random, &mut out);
        assert_eq!(out.len(), 1001);
        assert!(out[1..251].iter().any(|byte| *byte != b'a') && out[251..].iter().all(|byte| *byte == b'a'));
        values.integrity = true;
        values.lengths = Lengths::Constant(100);
        out.clear();
        values.append("user1", "field0", &mut random, &mut out);
        assert!(values.is_right("user1", "field0", &out) && !values.is_right("user1", "field1", &out));
    }
}

//! Table: the differences that are meant, each with its reason.

/// A difference, or, with a star at its end, all that begin so.
pub struct Allowed {
    pub shape: &'static str,
    pub difference: &'static str,
    pub reason: &'static str,
}

impl Allowed {
    pub fn covers(&self, shape: &str, difference: &str) -> bool {
        self.shape == shape
            && match self.difference.strip_suffix('*') {
                Some(start) => difference.starts_with(start),
                None => difference == self.difference,
            }
    }
}

const fn allow(shape: &'static str, difference: &'static str, reason: &'static str) -> Allowed {
    Allowed { shape, difference, reason }
}

pub const ALLOWED: &[Allowed] = &[allow("hello", "missing hosts", "no set")];

#[test]
fn every_difference_has_a_reason() {
    assert!(ALLOWED.iter().all(|one| one.reason.len() > 5));
}

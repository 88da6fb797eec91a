//! Running totals of a source turned into what each window added.

use std::collections::HashMap;

use crate::Batch;

/// The totals that one source had when it was last read.
#[derive(Debug, Default)]
pub struct Sums {
    last: HashMap<String, (u64, f64)>,
}

impl Sums {
    /// Takes a total that was read at `at_ns` and adds what it grew by since it was last read. The first reading of a name, and
    /// one below the last (the source was restarted), only start anew.
    pub fn put(&mut self, batch: &mut Batch, name: &str, unit: &str, at_ns: u64, total: f64) {
        match self.last.get_mut(name) {
            Some((last_ns, last)) => {
                let (begin_ns, before) = (*last_ns, *last);
                (*last_ns, *last) = (at_ns, total);
                if total >= before && at_ns > begin_ns {
                    batch.put(name, unit, (begin_ns, at_ns), total - before);
                }
            }
            None => drop(self.last.insert(name.to_owned(), (at_ns, total))),
        }
    }

    /// Forgets all totals: the source is another one now.
    pub fn restart(&mut self) {
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Clock;

    #[test]
    fn a_total_that_fell_leaves_a_gap() {
        let mut batch = Batch::new(Clock::since(Instant::now()));
        let mut sums = Sums::default();
        for (at_ns, total) in [(1, 10.0), (2, 15.0), (3, 2.0), (4, 5.0)] {
            sums.put(&mut batch, "a", "1", at_ns, total);
        }
        let windows: Vec<_> = batch.readings.iter().map(|r| (r.begin_ns, r.end_ns, r.value)).collect();
        assert_eq!(windows, [(1, 2, 5.0), (3, 4, 3.0)]);
    }
}

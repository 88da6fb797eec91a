//! The records that a client may choose from, and the numbers that its inserts take.

/// The width of `zipfian`'s range up to which a forecast of new records counts, as a multiple of the records at the start. A run
/// that ends by its number of operations fills the range, so that rejected draws are rare soon.
const MAX_COUNTED_WIDTH: u64 = 1024;
/// The same for a run that has a limit of time: a range that is never filled would only make all records equally rare.
const MAX_TIMED_WIDTH: u64 = 64;
/// The most new records of a forecast, so that sums of numbers do not overflow.
const MAX_EXPECTED_RECORDS: u64 = 1 << 62;

/// The records that a run may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// `insertstart`: the first number.
    pub first: u64,
    /// `insertcount`: the number of records from it on.
    pub count: u64,
    /// `recordcount`: the size of the whole table.
    pub table: u64,
    /// YCSB's `expectednewkeys`: the room that `zipfian` leaves for inserts from the start on.
    pub expected: u64,
    /// Whether inserts take numbers that no client with another part of the table takes (`insertresume`).
    pub is_apart: bool,
}

impl Records {
    /// All records of a table of this size.
    pub fn whole(table: u64) -> Records {
        Records { first: 0, count: table, table, expected: 0, is_apart: false }
    }

    /// The number of records from the first of this client on that exist at the start.
    fn at_start(&self) -> u64 {
        self.table.saturating_sub(self.first).max(1)
    }

    /// The records with room for new ones, unless they would be so many that hardly any draw meets a record that exists: then
    /// `zipfian` begins with the records at the start, and its range grows with them.
    #[must_use]
    pub fn expecting(self, new: u64, is_timed: bool) -> Records {
        let width = if is_timed { MAX_TIMED_WIDTH } else { MAX_COUNTED_WIDTH };
        let new = new.min(MAX_EXPECTED_RECORDS);
        let is_forecast = self.count.saturating_add(new) <= self.at_start().saturating_mul(width);
        Records { expected: if is_forecast { new } else { 0 }, ..self }
    }

    /// The number under which a record is stored. Those behind the table are numbered without gaps for each client. Stored, they
    /// take the client's own part of the next stretch as long as the table, then of the one after it: clients with different
    /// parts never meet, and the numbers of a client that has the whole table stay as they are.
    pub fn stored(&self, number: u64) -> u64 {
        let behind = number.wrapping_sub(self.table);
        if !self.is_apart || number < self.table || self.count == 0 || self.count >= self.table {
            return number;
        }
        let stretch = self.table.saturating_mul(1 + behind / self.count);
        stretch.saturating_add(self.first + behind % self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_with_different_parts_never_insert_the_same_record() {
        // Parts of different sizes, with a gap behind the second.
        let parts = [(0, 500), (500, 1300), (1900, 100)];
        let client = |(first, count)| Records { first, count, is_apart: true, ..Records::whole(2000) };
        let mut taken = BTreeSet::new();
        for records in parts.map(client) {
            assert!(
                (0..2000).all(|number| records.stored(number) == number),
                "the numbers of the table stay"
            );
            for number in 2000..12_000 {
                let stored = records.stored(number);
                assert!(
                    stored >= 2000 && taken.insert(stored),
                    "{records:?}: {number} is stored as {stored}"
                );
            }
        }
        let first = client(parts[0]);
        assert_eq!([2000, 2499, 2500, 3000].map(|number| first.stored(number)), [2000, 2499, 4000, 6000]);
    }

    #[test]
    fn a_client_with_the_whole_table_has_ycsbs_numbers() {
        let whole = Records { is_apart: true, ..Records::whole(1000) };
        let as_ycsb = Records { first: 500, count: 500, ..Records::whole(1000) };
        for number in [0, 999, 1000, 1001, 5000, u64::MAX] {
            assert_eq!((whole.stored(number), as_ycsb.stored(number)), (number, number));
        }
        let far = Records { count: 1, is_apart: true, ..Records::whole(1 << 62) };
        assert!(far.stored(u64::MAX) >= 1 << 62, "no overflow");
    }

    #[test]
    fn a_count_that_is_no_forecast_leaves_no_room() {
        let records = Records::whole(1000);
        for (new, is_timed, expected) in [
            (2000, true, 2000),
            (15_000_000, true, 0),
            (63_000, true, 63_000),
            (63_001, true, 0),
            (1_000_000, false, 1_000_000),
            (15_000_000, false, 0),
            (u64::MAX, false, 0),
        ] {
            assert_eq!(records.expecting(new, is_timed).expected, expected, "{new}, {is_timed}");
        }
        // The records of other clients exist too.
        let part = Records { first: 900, count: 1, ..records };
        assert_eq!(part.expecting(6399, true).expected, 6399);
        assert_eq!(part.expecting(6400, true).expected, 0);
    }
}

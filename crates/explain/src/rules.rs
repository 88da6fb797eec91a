//! Table: every rule, in the order in which they run; a later one may read what an earlier one judged.

use crate::{Evidence, Judgement};

/// One way of judging a run.
pub struct Rule {
    /// Its stable name.
    pub name: &'static str,
    /// What it looks at, by the names of `fathom_record::catalog`; for docs and for saying what a missing series costs.
    pub needs: &'static [&'static str],
    /// Adds what it finds.
    pub judge: fn(&Evidence, &mut Judgement),
}

/// Every rule.
pub static RULES: &[Rule] = &[];

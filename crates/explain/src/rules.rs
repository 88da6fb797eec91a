//! Table: every rule, in the order in which they run; a later one may read what an earlier one judged.

use crate::{Evidence, Judgement, amplification, caps, device, ladder, queue};

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
pub static RULES: &[Rule] = &[
    Rule { name: "caps", needs: caps::NEEDS, judge: caps::judge },
    Rule { name: "queue", needs: queue::NEEDS, judge: queue::judge },
    Rule { name: "device", needs: device::NEEDS, judge: device::judge },
    Rule { name: "amplification", needs: amplification::NEEDS, judge: amplification::judge },
    // Typed results of loads, no series.
    Rule { name: "ladder", needs: &[], judge: ladder::judge },
];

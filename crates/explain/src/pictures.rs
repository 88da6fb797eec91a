//! What a run looks like beside what is said of it: for charts.

use fathom_record::pictures::Pictures;

use crate::{Evidence, ladder, spikes};

/// Computes all pictures that the evidence bears; the same evidence gives the same.
pub fn pictures(evidence: &Evidence) -> Pictures {
    let members = evidence.members();
    let checkpoints = members.into_iter().map(|member| {
        let ran = spikes::checkpoints(evidence, &member);
        (member, ran)
    });
    Pictures {
        checkpoints: checkpoints.collect(),
        cycles: spikes::superposed_cycles(evidence),
        rhythms: spikes::latency_rhythms(evidence),
        scalings: ladder::scalings(evidence),
    }
}

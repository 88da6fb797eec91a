//! The series of a run for the charts of its page.

use fathom_record::pictures::Pictures;

use crate::{Evidence, Judgement, ladder, spikes};

/// Computes all pictures that the evidence supports; the same evidence gives the same pictures. Locations and
/// fits are taken from `judged`, the judgement of that evidence.
pub fn pictures(evidence: &Evidence, judged: Option<&Judgement>) -> Pictures {
    let (checkpoints, scalings) = match judged {
        Some(judged) => (judged.checkpoints.clone(), judged.scalings.clone()),
        None => (spikes::checkpoints_of_all(evidence), ladder::scalings(evidence)),
    };
    Pictures {
        cycles: spikes::superposed_cycles(evidence, &checkpoints),
        rhythms: spikes::latency_rhythms(evidence),
        checkpoints,
        scalings,
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::Reading;
    use fathom_record::disk::Entry;
    use fathom_record::load::Load;

    use super::*;

    #[test]
    fn what_was_judged_is_not_located_and_fitted_again_and_is_the_same() {
        let second = 1_000_000_000;
        let readings: Vec<Reading> = (0..40u64)
            .map(|at| {
                let window = (at * second, (at + 1) * second);
                Reading::new("server.0.checkpoint.running", "1", window, f64::from(u8::from(at % 10 < 2)))
            })
            .collect();
        let load = |connections: u64| Load {
            server: "lab".into(),
            workload: "a".into(),
            connections,
            seconds: 10.0,
            operations: 1,
            per_s: 100.0 * connections.min(8) as f64,
            offered_per_s: None,
            by_operation: Vec::new(),
            client_cpu_share: 0.1,
            client_limited: false,
        };
        let evidence = Evidence {
            series: readings.iter().collect(),
            results: [1, 2, 4, 8, 16].map(load).map(Entry::Load).into(),
            window_ns: (0, 40 * second),
            ..Evidence::default()
        };
        let judged = crate::judge(&evidence);
        let shown = pictures(&evidence, Some(&judged));
        assert_eq!(shown, pictures(&evidence, None));
        assert_eq!((shown.checkpoints["0"].len(), shown.scalings.len()), (3, 1));
        let none = pictures(&evidence, Some(&Judgement::default()));
        assert!(none.checkpoints.is_empty() && none.scalings.is_empty(), "nothing is computed twice");
    }
}

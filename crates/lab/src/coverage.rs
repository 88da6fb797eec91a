//! Trials that are too short: a study of checkpoint intervals whose trials hold fewer than two checkpoints compares nothing.

use std::time::Duration;

use fathom_errors::Result;
use fathom_units::Nanos;

use crate::{Measures, Plan, Study};

/// So many checkpoints a trial must hold, so that one of them is whole whatever the moment it begins at.
const MIN_CHECKPOINTS: u32 = 2;

/// Says that trials are too short for the intervals between checkpoints that a study compares, if they are, before any of them ran.
///
/// # Errors
/// As of a study's levels.
pub fn planned_blindness(study: &Study, plan: &Plan) -> Result<Option<String>> {
    if study.measures != Measures::Load {
        return Ok(None);
    }
    let mut intervals: Vec<u64> = Vec::new();
    let mut shortest: Option<Duration> = None;
    for levels in &plan.cells {
        let setup = study.setup(levels)?;
        let interval = setup.servers.options.get("syncdelay").and_then(|text| text.parse::<u64>().ok());
        // At 0 there are none.
        intervals.extend(interval.filter(|seconds| *seconds > 0));
        shortest = [shortest, setup.load.time].into_iter().flatten().min();
    }
    intervals.sort_unstable();
    intervals.dedup();
    let (Some(longest), Some(time), true) = (intervals.last(), shortest, intervals.len() > 1) else {
        return Ok(None);
    };
    let needed = Duration::from_secs(*longest).saturating_mul(MIN_CHECKPOINTS);
    Ok((time < needed).then(|| {
        format!(
            "A trial of {} holds no two checkpoints at a syncdelay of {longest} s, so what syncdelay does cannot be seen: make 'time' {} or \
             longer, or compare shorter intervals.",
            Nanos::from(time),
            Nanos::from(needed)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(factors: &str, time: &str) -> Option<String> {
        let text = format!(
            "name: one\nquestion: q\nmeasures: load\nsettings: {{records: 10, time: {time}}}\nfactors: {{{factors}}}\nmetrics: {{primary: [throughput]}}\ndesign: {{blocks: 2}}\n"
        );
        let study = Study::parse(&text, None).unwrap();
        planned_blindness(&study, &Plan::of(&study).unwrap()).unwrap()
    }

    #[test]
    fn a_trial_that_holds_no_two_checkpoints_is_told_before_it_runs() {
        let told = said("syncdelay: [60, 5]", "12s").unwrap();
        assert!(told.contains("make 'time' 2.00 min or longer"), "{told}");
        assert_eq!(said("syncdelay: [60, 5]", "2m"), None);
        assert_eq!(said("syncdelay: [0, 5]", "12s"), None);
        assert_eq!(said("threads: [1, 2]", "12s"), None, "a study of something else");
    }
}

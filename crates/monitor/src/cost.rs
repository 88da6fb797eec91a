//! What watching cost: processor time in all and by sampler, measured on the threads themselves.

use std::time::Duration;

/// What one sampler cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplerCost {
    /// Its name.
    pub name: String,
    /// Processor time inside its samples.
    pub cpu: Duration,
    /// Samples it took.
    pub samples: u64,
    /// Samples it skipped because it was late.
    pub missed: u64,
    /// The longest sample, by the wall clock.
    pub slowest: Duration,
}

/// What watching cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How long was watched.
    pub elapsed: Duration,
    /// Processor time of all samplers' threads, waking and handing over too.
    pub cpu: Duration,
    /// Each sampler, without those left behind.
    pub samplers: Vec<SamplerCost>,
    /// Samplers that still waited for their source at the end; their threads end when it answers.
    pub left_behind: Vec<String>,
}

impl Cost {
    /// Processor time as a share of one processor (0.003 = 0.3 %).
    pub fn cpu_share(&self) -> f64 {
        let elapsed = self.elapsed.as_secs_f64();
        if elapsed > 0.0 { self.cpu.as_secs_f64() / elapsed } else { 0.0 }
    }

    /// The same for people.
    pub fn sentence(&self) -> String {
        let missed: u64 = self.samplers.iter().map(|one| one.missed).sum();
        let late = if missed > 0 {
            format!(" {missed} samples were skipped, because they were late.")
        } else {
            String::new()
        };
        format!("Watching took {} % of one processor.{late}", percent(100.0 * self.cpu_share()))
    }
}

/// Two digits that count below 1, one after the point above.
fn percent(value: f64) -> String {
    if value < 0.1 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_share_and_gaps() {
        let mut cost =
            Cost { elapsed: Duration::from_secs(10), cpu: Duration::from_millis(31), ..Cost::default() };
        assert_eq!(cost.sentence(), "Watching took 0.3 % of one processor.");
        cost.cpu = Duration::from_millis(4);
        cost.samplers.push(SamplerCost { missed: 2, ..SamplerCost::default() });
        assert_eq!(
            cost.sentence(),
            "Watching took 0.04 % of one processor. 2 samples were skipped, because they were late."
        );
        assert_eq!(Cost::default().cpu_share(), 0.0);
    }
}

//! Simulated unsteady machines: drift, memory, heavy tails, two modes, and studies run on them.

use fathom_stats::SeededRandom;
use fathom_stats::experiment::block_orders;

/// The differences between successive runs that should be equal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Normal, independent for each run.
    Normal,
    /// Normal, each run remembering the last one by this lag-1 correlation.
    Memory(f64),
    /// Memory of this much, and an additional independent 2 % for each run.
    MemoryAndOwn(f64),
    /// Student's t with 3 degrees of freedom: occasionally very wild.
    HeavyTails,
    /// One run in twenty is 20 % off.
    Spikes,
    /// Three in ten runs are in a mode 4 % off.
    TwoModes,
    /// The same modes, which last for five runs on average.
    StickyModes,
    /// Heavy tails with a memory of 0.6.
    HeavyMemory,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    pub(crate) noise: Noise,
    /// Standard deviation of a run's logarithm, of the noise's regular part.
    pub(crate) deviation: f64,
    /// The even growth of the logarithm from the first run of a study to the last.
    pub(crate) drift: f64,
    /// A sudden growth of it somewhere in the study.
    pub(crate) step: f64,
}

impl World {
    pub(crate) const fn new(name: &'static str, noise: Noise, deviation: f64) -> World {
        World { name, noise, deviation, drift: 0.0, step: 0.0 }
    }

    /// Logarithms of `count` runs in a row that should be equal.
    pub(crate) fn runs(&self, count: usize, stream: &mut SeededRandom) -> Vec<f64> {
        let step_at = stream.below(count as u64) as usize;
        let mut memory = heavy_or_normal(self.noise, stream);
        let mut remember = |rho: f64, fresh: f64| {
            memory = rho * memory + (1.0 - rho * rho).sqrt() * fresh;
            memory
        };
        let mut slow = stream.uniform() < 0.3;
        let mut run = |index: usize| {
            let fresh = heavy_or_normal(self.noise, stream);
            let noise = match self.noise {
                Noise::Normal | Noise::HeavyTails => self.deviation * fresh,
                Noise::Memory(rho) => self.deviation * remember(rho, fresh),
                Noise::HeavyMemory => self.deviation * remember(0.6, fresh),
                Noise::MemoryAndOwn(rho) => self.deviation * remember(rho, fresh) + 0.02 * stream.normal(),
                Noise::Spikes => self.deviation * fresh + if stream.uniform() < 0.05 { 0.2 } else { 0.0 },
                Noise::TwoModes => self.deviation * fresh + if stream.uniform() < 0.3 { 0.04 } else { 0.0 },
                Noise::StickyModes => {
                    // Leaves the slow mode in 14 % and the other in 6 %: three tenths of all runs are slow.
                    let leaves = stream.uniform() < if slow { 0.14 } else { 0.06 };
                    slow ^= leaves;
                    self.deviation * fresh + if slow { 0.04 } else { 0.0 }
                }
            };
            let along = index as f64 / (count - 1).max(1) as f64;
            noise + self.drift * along + if index >= step_at { self.step } else { 0.0 }
        };
        (0..count).map(&mut run).collect()
    }

    /// A study of `blocks` blocks of trials whose logarithms are `truth`, in the order that the product gives them:
    /// `values[trial][block]`.
    pub(crate) fn study(&self, truth: &[f64], blocks: usize, stream: &mut SeededRandom) -> Vec<Vec<f64>> {
        let orders = block_orders(truth.len(), blocks, stream.bits());
        self.study_in(&orders, truth, stream)
    }

    /// The same in a given order.
    pub(crate) fn study_in(
        &self,
        orders: &[Vec<usize>],
        truth: &[f64],
        stream: &mut SeededRandom,
    ) -> Vec<Vec<f64>> {
        let mut runs = self.runs(orders.len() * truth.len(), stream).into_iter();
        let mut values = vec![vec![0.0; orders.len()]; truth.len()];
        for (block, order) in orders.iter().enumerate() {
            for trial in order {
                values[*trial][block] = truth[*trial] + runs.next().unwrap();
            }
        }
        values
    }

    /// Log ratios of `pairs` pairs whose second side is `shift` higher.
    pub(crate) fn pairs(&self, shift: f64, pairs: usize, stream: &mut SeededRandom) -> Vec<f64> {
        let values = self.study(&[0.0, shift], pairs, stream);
        values[0].iter().zip(&values[1]).map(|(baseline, treatment)| treatment - baseline).collect()
    }
}

/// Mean 0, standard deviation 1.
fn heavy_or_normal(noise: Noise, stream: &mut SeededRandom) -> f64 {
    let z = stream.normal();
    if matches!(noise, Noise::HeavyTails | Noise::HeavyMemory) {
        let square: f64 = (0..3).map(|_| stream.normal().powi(2)).sum();
        // Student's t with 3 degrees of freedom has a variance of 3.
        return z / square.sqrt();
    }
    z
}

/// The regimes of noise that every rate of error is demanded in, about 2 % a run.
pub(crate) fn regimes() -> Vec<World> {
    let drifting = |name, noise| World { drift: 0.06, ..World::new(name, noise, 0.02) };
    vec![
        World::new("normal", Noise::Normal, 0.02),
        World::new("memory 0.3", Noise::Memory(0.3), 0.02),
        World::new("memory 0.6", Noise::Memory(0.6), 0.02),
        World::new("memory 0.8", Noise::Memory(0.8), 0.02),
        World::new("heavy tails (t, 3)", Noise::HeavyTails, 0.02),
        World::new("spikes of 20 %", Noise::Spikes, 0.02),
        World::new("two modes", Noise::TwoModes, 0.01),
        World::new("two lasting modes", Noise::StickyModes, 0.01),
        drifting("drift of 6 %", Noise::Normal),
        World { step: 0.06, ..World::new("a step of 6 %", Noise::Normal, 0.02) },
        drifting("drift, memory 0.6", Noise::Memory(0.6)),
        drifting("drift, heavy tails, memory 0.6", Noise::HeavyMemory),
    ]
}

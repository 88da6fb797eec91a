//! In which order the trials of each block run.
//!
//! Order is what turns drift from a bias into noise. Every block holds every trial once, shuffled by the seed. Two trials run AB or BA
//! by coin and the other way round in the next block, so that a steady drift cancels within two blocks. It refuses
//! nothing: no trials give empty blocks.

use crate::Seeded;

/// The order of `trials` trials in each of `blocks` blocks, from `seed`. A block's order does not depend on how many
/// blocks follow, so a study can be made longer.
pub fn block_orders(trials: usize, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
    let stream = Seeded::from_seed(seed);
    let order = |block: usize| {
        let mut order: Vec<usize> = (0..trials).collect();
        if trials == 2 {
            stream.split(block as u64 / 2).shuffle(&mut order);
            if block % 2 == 1 {
                order.reverse();
            }
        } else {
            stream.split(block as u64).shuffle(&mut order);
        }
        order
    };
    (0..blocks).map(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_trials_run_both_ways_in_each_two_blocks() {
        let orders = block_orders(2, 400, 7);
        let mut first = 0;
        for two in orders.chunks(2) {
            assert!(two[0] != two[1] && two.iter().all(|order| order.len() == 2), "{two:?}");
            first += two[0][0];
        }
        assert!((70..=130).contains(&first), "a coin decides: {first} of 200");
        assert_eq!(block_orders(2, 3, 7), orders[..3], "longer studies begin alike");
        assert_ne!(block_orders(2, 400, 8), orders);
    }

    #[test]
    fn every_trial_runs_once_a_block_and_everywhere_over_many() {
        let orders = block_orders(6, 600, 1);
        let mut places = [[0u32; 6]; 6];
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            order.iter().enumerate().for_each(|(place, trial)| places[*trial][place] += 1);
        }
        assert!(places.iter().flatten().all(|count| (60..=145).contains(count)), "{places:?}");
        assert_eq!(block_orders(0, 2, 1), [Vec::<usize>::new(), Vec::new()]);
    }
}

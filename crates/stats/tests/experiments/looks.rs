//! Planned looks keep 5 % over all of them, and end clear studies early.

use fathom_stats::experiment::planned_looks;
use fathom_stats::{SeededRandom, sign_flip};

use crate::worlds::{Noise, World};
use crate::{STUDIES, percent, within};

/// Studies that end with a finding, by planned looks and by looking at 5 % as often, and the blocks they took on average.
fn ended(world: &World, looks: usize, blocks: usize, shift: f64, studies: u64) -> (u64, u64, f64) {
    let plan = planned_looks(looks, blocks);
    let (mut planned, mut naive, mut used) = (0, 0, 0usize);
    for index in 0..studies {
        let mut stream = SeededRandom::from_seed(88).split(index);
        let logs = world.pairs(shift, blocks, &mut stream);
        let ps: Vec<f64> = plan
            .iter()
            .map(|look| sign_flip(&logs[..look.after_blocks], 9_999, &mut stream).unwrap().p_two_sided)
            .collect();
        let end = plan.iter().zip(&ps).find(|(look, p)| look.reachable && **p <= look.p);
        planned += u64::from(end.is_some());
        naive += u64::from(ps.iter().any(|p| *p <= 0.05));
        used += end.map_or(blocks, |(look, _)| look.after_blocks);
    }
    (planned, naive, used as f64 / studies as f64)
}

#[test]
fn planned_looks_keep_five_percent_together() {
    println!(
        "| noise | blocks, looks | looks that can end it | planned | looking at 5 % as often | 3 % effect found | after blocks, mean |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let normal = World::new("normal", Noise::Normal, 0.02);
    let hard =
        World { drift: 0.06, ..World::new("drift, heavy tails, memory 0.6", Noise::HeavyMemory, 0.02) };
    for (world, looks, blocks) in [
        (&normal, 3, 8),
        (&normal, 3, 12),
        (&normal, 5, 16),
        (&normal, 3, 36),
        (&hard, 3, 12),
        (&hard, 3, 36),
    ] {
        let (planned, naive, _) = ended(world, looks, blocks, 0.0, STUDIES);
        let fewer = STUDIES / 4;
        let (found, _, used) = ended(world, looks, blocks, 0.03, fewer);
        let reachable: Vec<String> = planned_looks(looks, blocks)
            .iter()
            .filter(|look| look.reachable)
            .map(|look| format!("{} (p {:.4})", look.after_blocks, look.p))
            .collect();
        println!(
            "| {} | {blocks}, {looks} | {} | {} | {} | {} | {used:.1} |",
            world.name,
            reachable.join(", "),
            percent(planned, STUDIES),
            percent(naive, STUDIES),
            percent(found, fewer)
        );
        assert!(within(planned, STUDIES, 2.5, 7.0), "{}, {blocks} blocks: {planned}", world.name);
        assert!(planned <= naive);
    }
}

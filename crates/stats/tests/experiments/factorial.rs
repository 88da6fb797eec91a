//! Factorials and their fractions: known effects are recovered, and no interactions are found in designs without any.

use fathom_stats::experiment::{effect, fraction, interaction_contrasts, main_contrasts};
use fathom_stats::{Interval, SeededRandom};

use crate::worlds::{Noise, World};
use crate::{percent, within};

const BLOCKS: usize = 8;
/// Each is judged by several contrasts; a standard error of 0.7 % at 5 %.
const STUDIES: u64 = 1000;

type Contrasts = fn(&[Vec<usize>], &[Vec<Option<f64>>]) -> Vec<(usize, f64)>;

/// One contrast of a study, with its truth on the logarithmic scale.
struct ContrastCase {
    name: &'static str,
    truth: f64,
    contrasts: Contrasts,
}

/// Runs studies of `cells` and prints for each contrast: the mean estimate, how often its interval holds the truth, and how
/// often it is significant. Returns the latter two.
fn table(
    world: &World,
    cells: &[Vec<usize>],
    truth: impl Fn(&[usize]) -> f64,
    asked: &[ContrastCase],
    seed: u64,
) -> Vec<(u64, u64)> {
    let logs: Vec<f64> = cells.iter().map(|cell| truth(cell)).collect();
    let mut counts = vec![(0.0, 0u64, 0u64); asked.len()];
    for index in 0..STUDIES {
        let mut stream = SeededRandom::from_seed(seed).split(index);
        let values = world.study(&logs, BLOCKS, &mut stream);
        let values: Vec<Vec<Option<f64>>> =
            values.into_iter().map(|blocks| blocks.into_iter().map(Some).collect()).collect();
        for (asked, count) in asked.iter().zip(&mut counts) {
            let contrasts: Vec<f64> =
                (asked.contrasts)(cells, &values).into_iter().map(|(_, contrast)| contrast).collect();
            let effect = effect(&contrasts, &mut stream).unwrap();
            count.0 += effect.ratio.ln();
            count.1 += u64::from(effect.interval.is_some_and(|it: Interval| it.contains(asked.truth.exp())));
            count.2 += u64::from(effect.p <= 0.05);
        }
    }
    for (asked, (sum, covered, significant)) in asked.iter().zip(&counts) {
        println!(
            "| {} | {} | {:.1} % | {:.2} % | {} | {} |",
            world.name,
            asked.name,
            100.0 * asked.truth,
            100.0 * sum / STUDIES as f64,
            percent(*covered, STUDIES),
            percent(*significant, STUDIES)
        );
        assert!((sum / STUDIES as f64 - asked.truth).abs() < 0.002, "{}: {sum}", asked.name);
        assert!(within(*covered, STUDIES, 93.0, 97.0), "{}: {covered} covered", asked.name);
    }
    counts.into_iter().map(|(_, covered, significant)| (covered, significant)).collect()
}

fn all(_: &[usize]) -> bool {
    true
}

/// Factors with 2 and 3 levels: A gives 10 %, B 3 and 8 %, A and B's last level together 5 % more.
#[test]
fn a_full_factorial_gives_back_what_was_put_in() {
    println!("| noise | contrast | truth | mean estimate | interval holds it | significant |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let cells = fraction(&[2, 3], 0).unwrap().cells;
    let truth = |cell: &[usize]| {
        0.1 * cell[0] as f64 + [0.0, 0.03, 0.08][cell[1]] + if cell == [1, 2] { 0.05 } else { 0.0 }
    };
    let asked = [
        ContrastCase {
            name: "A",
            truth: 0.1 + 0.05 / 3.0,
            contrasts: |c, v| main_contrasts(c, v, 0, 1, &all),
        },
        ContrastCase { name: "B 1", truth: 0.03, contrasts: |c, v| main_contrasts(c, v, 1, 1, &all) },
        ContrastCase { name: "B 2", truth: 0.105, contrasts: |c, v| main_contrasts(c, v, 1, 2, &all) },
        ContrastCase {
            name: "B 2 where A is 0",
            truth: 0.08,
            contrasts: |c, v| main_contrasts(c, v, 1, 2, &|c| c[0] == 0),
        },
        ContrastCase {
            name: "A with B 1",
            truth: 0.0,
            contrasts: |c, v| interaction_contrasts(c, v, (0, 1), (1, 1), &all),
        },
        ContrastCase {
            name: "A with B 2",
            truth: 0.05,
            contrasts: |c, v| interaction_contrasts(c, v, (0, 1), (1, 2), &all),
        },
    ];
    for world in [
        World::new("normal", Noise::Normal, 0.02),
        World { drift: 0.1, ..World::new("drift of 10 %, memory 0.6", Noise::Memory(0.6), 0.02) },
        World::new("heavy tails (t, 3)", Noise::HeavyTails, 0.02),
    ] {
        let found = table(&world, &cells, truth, &asked, 86);
        assert!(within(found[4].1, STUDIES, 3.0, 7.0), "{}: no interaction there", world.name);
        assert!(within(found[5].1, STUDIES, 50.0, 100.0), "{}: one is there", world.name);
        assert!(within(found[0].1, STUDIES, 98.0, 100.0));
    }
}

/// The eight cells of half of four factors show all four main effects, and what is mixed shows up as said.
#[test]
fn a_fraction_gives_back_main_effects_and_mixes_what_it_says() {
    println!("| noise | contrast | truth | mean estimate | interval holds it | significant |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let half = fraction(&[2; 4], 1).unwrap();
    assert!(half.aliases.contains(&"A x B and C x D cannot be distinguished".to_owned()));
    // C and D together give 4 %; A and B nothing.
    let truth = |cell: &[usize]| {
        0.1 * cell[0] as f64 - 0.03 * cell[1] as f64
            + 0.05 * cell[2] as f64
            + 0.04 * (cell[2] * cell[3]) as f64
    };
    let asked = [
        ContrastCase { name: "A", truth: 0.1, contrasts: |c, v| main_contrasts(c, v, 0, 1, &all) },
        ContrastCase { name: "B", truth: -0.03, contrasts: |c, v| main_contrasts(c, v, 1, 1, &all) },
        ContrastCase { name: "C", truth: 0.07, contrasts: |c, v| main_contrasts(c, v, 2, 1, &all) },
        ContrastCase { name: "D", truth: 0.02, contrasts: |c, v| main_contrasts(c, v, 3, 1, &all) },
        ContrastCase {
            name: "C with D",
            truth: 0.04,
            contrasts: |c, v| interaction_contrasts(c, v, (2, 1), (3, 1), &all),
        },
        ContrastCase {
            name: "A with B, which is C with D",
            truth: 0.04,
            contrasts: |c, v| interaction_contrasts(c, v, (0, 1), (1, 1), &all),
        },
        ContrastCase {
            name: "A with C, which is B with D",
            truth: 0.0,
            contrasts: |c, v| interaction_contrasts(c, v, (0, 1), (2, 1), &all),
        },
    ];
    let world = World { drift: 0.1, ..World::new("drift of 10 %, memory 0.6", Noise::Memory(0.6), 0.02) };
    let found = table(&world, &half.cells, truth, &asked, 87);
    assert!(within(found[6].1, STUDIES, 3.0, 7.0), "no interaction there");
}

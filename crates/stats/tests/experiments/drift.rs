//! The drift table: the value of order and pairing (docs/methods.md#blocks-and-pairs).

use fathom_stats::experiment::{SecondaryTests, secondary};
use fathom_stats::{SeededRandom, sign_flip};

use crate::worlds::{Noise, World};
use crate::{STUDIES, percent, within};

const BLOCKS: usize = 8;

/// The order in which 8 runs of each side follow each other.
#[derive(Clone, Copy)]
enum Order {
    /// All of A, then all of B.
    Sequential,
    /// AB or BA, each block by its own coin.
    Coin,
    /// As the product does it: by coin, then reversed.
    Product,
}

/// Studies called significant by the paired sign-flip, Welch and Mann-Whitney.
fn alarms(world: &World, order: Order, shift: f64) -> [u64; 3] {
    let mut counts = [0; 3];
    for index in 0..STUDIES {
        let mut stream = SeededRandom::from_seed(83).split(index);
        let values = match order {
            Order::Sequential => {
                let mut runs = world.runs(2 * BLOCKS, &mut stream);
                let later = runs.split_off(BLOCKS).iter().map(|run| run + shift).collect();
                vec![runs, later]
            }
            Order::Coin => {
                let mut coin = || {
                    let mut order = vec![0, 1];
                    stream.shuffle(&mut order);
                    order
                };
                let orders: Vec<Vec<usize>> = (0..BLOCKS).map(|_| coin()).collect();
                world.study_in(&orders, &[0.0, shift], &mut stream)
            }
            Order::Product => world.study(&[0.0, shift], BLOCKS, &mut stream),
        };
        let logs: Vec<f64> = values[0].iter().zip(&values[1]).map(|(one, two)| two - one).collect();
        let SecondaryTests { welch_p, mann_whitney_p } = secondary(&values[0], &values[1]).unwrap();
        let ps = [sign_flip(&logs, 0, &mut stream).unwrap().p_two_sided, welch_p, mann_whitney_p];
        counts.iter_mut().zip(ps).for_each(|(count, p)| *count += u64::from(p <= 0.05));
    }
    counts
}

#[test]
fn the_drift_table_is_reproduced() {
    let drifting = World { drift: 0.06, ..World::new("6 % drift, 2 % noise", Noise::Normal, 0.02) };
    let slow = World::new("slow noise of 3 %, memory 0.8", Noise::Memory(0.8), 0.03);
    println!("| noise | effect | order | paired sign-flip | Welch | Mann-Whitney |");
    println!("| --- | --- | --- | --- | --- | --- |");
    let row = |world: &World, order: Order, shift: f64| {
        let name = match order {
            Order::Sequential => "all A, then all B",
            Order::Coin => "AB or BA by coin",
            Order::Product => "by coin, then the other way round",
        };
        let found = alarms(world, order, shift);
        let rates = found.map(|count| percent(count, STUDIES)).join(" | ");
        println!("| {} | {:.0} % | {name} | {rates} |", world.name, 100.0 * shift);
        found
    };
    let check = |count: u64, least: f64, most: f64| {
        assert!(
            within(count, STUDIES, least, most),
            "{} not in {least} to {most} %",
            percent(count, STUDIES)
        );
    };
    let [_, welch, mann_whitney] = row(&drifting, Order::Sequential, 0.0);
    check(welch, 70.0, 85.0);
    check(mann_whitney, 70.0, 85.0);
    for order in [Order::Coin, Order::Product] {
        let [paired, welch, _] = row(&drifting, order, 0.0);
        check(paired, 3.0, 7.0);
        check(welch, 0.0, 3.0);
    }
    for order in [Order::Coin, Order::Product] {
        let [paired, welch, _] = row(&drifting, order, 0.04);
        check(paired, 90.0, 99.0);
        check(welch, 70.0, 92.0);
        assert!(paired > welch, "pairing pays");
    }
    let both = World::new("the same, 2 % of each run's own", Noise::MemoryAndOwn(0.8), 0.03);
    for world in [slow, both] {
        let [_, welch, _] = row(&world, Order::Sequential, 0.0);
        check(welch, 20.0, 50.0);
        for order in [Order::Coin, Order::Product] {
            let [paired, _, _] = row(&world, order, 0.0);
            check(paired, 3.0, 7.0);
        }
    }
}

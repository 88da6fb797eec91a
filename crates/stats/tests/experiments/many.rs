//! Many metrics at once, and the rate of "same" verdicts on things that differ.

use fathom_stats::experiment::{AdjustedP, EffectThresholds, EffectVerdict, effect, verdict};
use fathom_stats::{SeededRandom, benjamini_hochberg, holm, sign_flip};

use crate::worlds::{Noise, World};
use crate::{STUDIES, percent, within};

/// Three metrics of the same eight pairs, correlated by 0.5, nothing there: one of them alarms in 5 % of studies at most,
/// after Holm. Of ten by Benjamini and Hochberg likewise, since all alarms would be false.
#[test]
fn many_metrics_share_one_chance_of_a_false_alarm() {
    println!("| metrics | without correction | Holm | Benjamini and Hochberg |");
    println!("| --- | --- | --- | --- |");
    for metrics in [3usize, 10] {
        let mut counts = [0u64; 3];
        for index in 0..STUDIES {
            let mut stream = SeededRandom::from_seed(84).split(index);
            let common: Vec<f64> = (0..10).map(|_| stream.normal()).collect();
            let mut p = || {
                let logs: Vec<f64> = common.iter().map(|common| common + stream.normal()).collect();
                sign_flip(&logs, 0, &mut stream).unwrap().p_two_sided
            };
            let ps: Vec<f64> = (0..metrics).map(|_| p()).collect();
            let any = |ps: &[f64]| u64::from(ps.iter().any(|p| *p < 0.05));
            let found = [any(&ps), any(&holm(&ps)), any(&benjamini_hochberg(&ps))];
            counts.iter_mut().zip(found).for_each(|(count, one)| *count += one);
        }
        println!("| {metrics} | {} |", counts.map(|count| percent(count, STUDIES)).join(" | "));
        assert!(within(counts[0], STUDIES, 10.0, 45.0), "uncorrected: {counts:?}");
        assert!(counts[1..].iter().all(|count| within(*count, STUDIES, 0.5, 7.0)), "{counts:?}");
    }
}

/// "Same" of what differs by exactly the margin of 2 % is said in 5 % at most; of what does not differ, as often as pairs allow.
#[test]
fn same_is_rarely_said_of_what_differs() {
    println!(
        "| pairs | a run's noise | differs by 2 %: \"same\" | by 1 % | by nothing | nothing: undecided | pairs it asks for, median |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (pairs, deviation) in [(8, 0.005), (8, 0.01), (8, 0.02), (12, 0.01), (12, 0.02)] {
        let world = World::new("normal", Noise::Normal, deviation);
        let said = |shift: f64| {
            let (mut same, mut asked, mut undecided) = (0u64, Vec::new(), 0u64);
            for index in 0..STUDIES / 2 {
                let mut stream = SeededRandom::from_seed(85).split(index);
                let effect = effect(&world.pairs(shift, pairs, &mut stream), &mut stream).unwrap();
                match verdict(&effect, AdjustedP::alone(effect.p), true, EffectThresholds::plain(0.02)) {
                    EffectVerdict::Same => same += 1,
                    EffectVerdict::Undecided { needs_pairs } => {
                        undecided += 1;
                        asked.extend(needs_pairs.map(|pairs| pairs as f64));
                    }
                    EffectVerdict::Better | EffectVerdict::Worse => {}
                }
            }
            let asked = fathom_stats::median(&asked).map_or("-".to_owned(), |asked| format!("{asked:.0}"));
            (same, undecided, asked)
        };
        let of = STUDIES / 2;
        let ((edge, ..), (half, ..), (none, undecided, asked)) =
            (said(1.02f64.ln()), said(1.01f64.ln()), said(0.0));
        println!(
            "| {pairs} | {:.1} % | {} | {} | {} | {} | {asked} |",
            100.0 * deviation,
            percent(edge, of),
            percent(half, of),
            percent(none, of),
            percent(undecided, of)
        );
        assert!(within(edge, of, 0.0, 7.0), "{pairs} pairs at {deviation}: {edge}");
    }
}

//! Regular fractions of studies with two levels per factor: the cells that run, and the effects that can no longer be separated.
//!
//! Half or a quarter of the cells still show every main effect, under the assumption that interactions are small. This module
//! decides before anything runs which effects are mixed with which, and says so in words. Of all choices of generators the one with
//! the highest resolution is taken, and of these the one with the fewest shortest words (Fries and Hunter, Technometrics 22, 1980).
//! It refuses resolution below III, where main effects are mixed with each other, and factors with other than two levels.

use fathom_errors::{Error, Result};

/// A full factorial of this many has 1024 cells; larger ones are not run, and all generators can be tried.
pub const MAX_FACTORS: usize = 10;
/// Names of factors; I is the identity in this trade.
const NAMES: [char; MAX_FACTORS] = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'J', 'K'];

/// The cells of a study that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fraction {
    /// The level (0 or 1) of each factor for each cell; the cell with all factors at level 0 is among them.
    pub cells: Vec<Vec<usize>>,
    /// The length of the shortest word of the defining relation: at III main effects are mixed with interactions of
    /// two factors, at IV those with each other, at V neither. One more than the number of factors where all cells
    /// run and nothing is mixed.
    pub resolution: u32,
    /// The factors that follow from others, such as "D = A x B x C".
    pub generators: Vec<String>,
    /// Effects of one or two factors that are confounded, one sentence each; the sign may be turned.
    pub aliases: Vec<String>,
}

/// The fraction 1 / 2^`p` of the factorial with `levels` levels for each factor; with `p` 0 all cells, of any number of levels.
pub fn fraction(levels: &[usize], p: u32) -> Result<Fraction> {
    if let Some(empty) = levels.iter().position(|count| *count == 0) {
        return Err(Error::usage(format!("factor {} of the design has no level", empty + 1)));
    }
    if p == 0 {
        return Ok(Fraction {
            cells: all_cells(levels),
            resolution: levels.len() as u32 + 1,
            generators: Vec::new(),
            aliases: Vec::new(),
        });
    }
    if let Some(other) = levels.iter().position(|count| *count != 2) {
        return Err(Error::usage(format!(
            "cannot run a fraction of a design whose factor {} has {} levels",
            other + 1,
            levels.get(other).copied().unwrap_or(0)
        ))
        .advise("fractions need two levels of each factor; leave levels out or run the full design"));
    }
    let factors = levels.len();
    if factors > MAX_FACTORS {
        return Err(Error::usage(format!("cannot run a fraction of {factors} factors"))
            .advise(format!("choose at most {MAX_FACTORS}")));
    }
    let generators = factors
        .checked_sub(p as usize)
        .and_then(|base| best_generators(base, p as usize))
        .ok_or_else(|| too_small(factors, p))?;
    let base = factors - generators.len();
    let words = defining_words(base, &generators);
    let cells = (0..1u32 << base).map(|bits| cell(bits, base, &generators)).collect();
    Ok(Fraction {
        cells,
        resolution: words.iter().map(|word| word.count_ones()).min().unwrap_or(0),
        generators: generators
            .iter()
            .enumerate()
            .map(|(index, mask)| format!("{} = {}", name(1 << (base + index)), name(*mask)))
            .collect(),
        aliases: aliases(factors, &words),
    })
}

fn too_small(factors: usize, p: u32) -> Error {
    Error::usage(format!(
        "a fraction 1/2^{p} of {factors} factors mixes main effects with each other (resolution below III)"
    ))
    .advise("run a larger fraction or fewer factors")
}

/// Every combination of levels, the last factor changing fastest.
fn all_cells(levels: &[usize]) -> Vec<Vec<usize>> {
    levels.iter().fold(vec![Vec::new()], |cells, count| {
        cells
            .iter()
            .flat_map(|cell| (0..*count).map(move |level| [cell.as_slice(), &[level]].concat()))
            .collect()
    })
}

/// The cell whose base factors have the levels of `bits`, the first factor the highest bit. A generated factor is high if an odd
/// number of its parents is, so that the cell of defaults is always among those that run.
fn cell(bits: u32, base: usize, generators: &[u32]) -> Vec<usize> {
    let of_base = (0..base).map(|factor| (bits >> (base - 1 - factor) & 1) as usize);
    let levels: Vec<usize> = of_base.collect();
    let generated = generators.iter().map(|mask| {
        let parents = levels.iter().enumerate().filter(|(factor, _)| mask >> factor & 1 == 1);
        parents.map(|(_, level)| level).sum::<usize>() % 2
    });
    levels.iter().copied().chain(generated).collect()
}

/// Masks of the parents of each generated factor; `None` if no choice reaches resolution III.
fn best_generators(base: usize, p: usize) -> Option<Vec<u32>> {
    let candidates: Vec<u32> = (1..1u32 << base).filter(|mask| mask.count_ones() >= 2).collect();
    let mut best: Option<((u32, i64), Vec<u32>)> = None;
    let mut chosen = Vec::new();
    choose(&candidates, p, &mut chosen, &mut |generators| {
        let words = defining_words(base, generators);
        let lengths = words.iter().map(|word| word.count_ones());
        let shortest = lengths.clone().min().unwrap_or(0);
        let rank = (shortest, -(lengths.filter(|length| *length == shortest).count() as i64));
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, generators.to_vec()));
        }
    });
    best.filter(|((resolution, _), _)| *resolution >= 3).map(|(_, generators)| generators)
}

/// Calls `each` with every choice of `count` more of `candidates`, in their order.
fn choose(candidates: &[u32], count: usize, chosen: &mut Vec<u32>, each: &mut dyn FnMut(&[u32])) {
    if count == 0 {
        return each(chosen);
    }
    for (index, candidate) in candidates.iter().enumerate() {
        chosen.push(*candidate);
        choose(candidates.get(index + 1..).unwrap_or_default(), count - 1, chosen, each);
        chosen.pop();
    }
}

/// All products of the generators' words, as masks of factors: the effects that are constant over the cells that run.
fn defining_words(base: usize, generators: &[u32]) -> Vec<u32> {
    let words: Vec<u32> =
        generators.iter().enumerate().map(|(index, mask)| mask | 1 << (base + index)).collect();
    let product = |members: u32| {
        let taken = words.iter().enumerate().filter(|(index, _)| members >> index & 1 == 1);
        taken.fold(0, |product, (_, word)| product ^ word)
    };
    (1..1u32 << words.len()).map(product).collect()
}

/// Sets of effects of one or two factors whose products are constant.
fn aliases(factors: usize, words: &[u32]) -> Vec<String> {
    let mut effects: Vec<u32> = (1..1u32 << factors).filter(|mask| mask.count_ones() <= 2).collect();
    effects.sort_by_key(|mask| (mask.count_ones(), std::cmp::Reverse(mask.reverse_bits())));
    let mut sets: Vec<Vec<u32>> = Vec::new();
    for effect in effects {
        let known =
            sets.iter_mut().find(|set| set.first().is_some_and(|first| words.contains(&(first ^ effect))));
        match known {
            Some(set) => set.push(effect),
            None => sets.push(vec![effect]),
        }
    }
    let sentence = |set: &Vec<u32>| {
        let names: Vec<String> = set.iter().map(|effect| name(*effect)).collect();
        let (last, others) = names.split_last()?;
        (!others.is_empty()).then(|| format!("{} and {last} cannot be distinguished", others.join(", ")))
    };
    sets.iter().filter_map(sentence).collect()
}

/// "A x C" of a mask of factors.
fn name(mask: u32) -> String {
    let members = NAMES.iter().enumerate().filter(|(factor, _)| mask >> factor & 1 == 1);
    members.map(|(_, name)| name.to_string()).collect::<Vec<_>>().join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest resolutions (Box, Hunter and Hunter, Statistics for Experimenters, 2005, table 6.22).
    #[test]
    fn resolutions_are_those_of_the_table() {
        for (factors, p, resolution) in [
            (3, 1, 3),
            (4, 1, 4),
            (5, 1, 5),
            (5, 2, 3),
            (6, 1, 6),
            (6, 2, 4),
            (6, 3, 3),
            (7, 1, 7),
            (7, 2, 4),
            (7, 3, 4),
            (7, 4, 3),
            (8, 2, 5),
            (8, 3, 4),
            (8, 4, 4),
            (9, 2, 6),
            (9, 3, 4),
            (10, 3, 5),
            (10, 6, 3),
        ] {
            let found = fraction(&vec![2; factors], p).unwrap();
            assert_eq!(found.resolution, resolution, "2^({factors}-{p})");
            assert_eq!(found.cells.len(), 1 << (factors - p as usize));
            assert_eq!(found.cells[0], vec![0; factors], "the defaults run");
            let mut distinct = found.cells.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), found.cells.len());
            for factor in 0..factors {
                let high = found.cells.iter().filter(|cell| cell[factor] == 1).count();
                assert_eq!(2 * high, found.cells.len(), "half of the cells of each factor are high");
            }
        }
    }

    #[test]
    fn aliases_are_said_in_words() {
        let three = fraction(&[2, 2, 2], 1).unwrap();
        assert_eq!(three.generators, ["C = A x B"]);
        assert_eq!(three.cells, [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]);
        assert_eq!(
            three.aliases,
            [
                "A and B x C cannot be distinguished",
                "B and A x C cannot be distinguished",
                "C and A x B cannot be distinguished"
            ]
        );
        let four = fraction(&[2; 4], 1).unwrap();
        assert_eq!(four.generators, ["D = A x B x C"]);
        assert_eq!(four.aliases.len(), 3, "{:?}", four.aliases);
        assert_eq!(four.aliases[0], "A x B and C x D cannot be distinguished");
        assert!(fraction(&[2; 5], 1).unwrap().aliases.is_empty(), "resolution V mixes nothing of two");
        let screening = fraction(&[2; 7], 4).unwrap();
        assert_eq!(screening.aliases.len(), 7);
        assert!(
            screening.aliases.iter().all(|set| set.matches(" x ").count() == 3),
            "{:?}",
            screening.aliases
        );
    }

    /// The sentences are true: the products of aliased effects are equal in every cell or opposite in every cell.
    #[test]
    fn aliased_effects_are_constant_together() {
        let found = fraction(&[2; 6], 2).unwrap();
        let sign = |cell: &[usize], name: &str| {
            let of = |factor: &str| 1 - 2 * cell["ABCDEF".find(factor).unwrap()] as i32;
            name.split(" x ").map(of).product::<i32>()
        };
        assert!(!found.aliases.is_empty());
        for alias in &found.aliases {
            let names = alias.strip_suffix(" cannot be distinguished").unwrap().replace(" and ", ", ");
            let names: Vec<&str> = names.split(", ").collect();
            let products = |cell: &Vec<usize>| sign(cell, names[0]) * sign(cell, names[1]);
            let first = products(&found.cells[0]);
            assert!(found.cells.iter().all(|cell| products(cell) == first), "{alias}");
        }
    }

    #[test]
    fn all_cells_run_without_a_fraction() {
        let full = fraction(&[2, 3], 0).unwrap();
        assert_eq!(full.cells, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
        assert!(full.resolution == 3 && full.aliases.is_empty() && full.generators.is_empty());
    }

    #[test]
    fn what_cannot_be_a_fraction_is_refused() {
        let refused = |levels: &[usize], p: u32| fraction(levels, p).unwrap_err().to_string();
        assert!(
            refused(&[2, 3], 1).starts_with("cannot run a fraction of a design whose factor 2 has 3 levels")
        );
        assert!(refused(&[2, 2], 1).contains("resolution below III"));
        assert!(refused(&[2; 5], 3).contains("resolution below III"));
        assert!(refused(&[2; 3], 9).contains("resolution below III"));
        assert!(refused(&[2; 12], 2).contains("12 factors"));
        assert!(refused(&[2, 0], 0).contains("factor 2 of the design has no level"));
    }
}

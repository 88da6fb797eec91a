//! Contrasts of a factorial study: the effect of a factor's level, averaged over the other factors, block by block.
//!
//! Each block gives one number, a difference of averages of its own cells, so that effects on a whole block cancel. If every cell
//! has its partner (all other factors alike), only cells with partners count. In a fraction of a factorial no cell has one; both
//! sides are then averaged whole, provided that each level of every other factor is equally frequent on both sides. If neither
//! holds, the difference would be that of another factor, and no contrast is given.

use std::collections::BTreeMap;

/// Cells that are added and cells that are taken away.
type Sides = [Vec<usize>; 2];

/// The main effect of `level` of `factor` against its level 0, averaged over the other factors: one contrast for each block, with
/// the block's number. `cells` holds the level of each factor for each cell, `values[cell][block]` the logarithm of the
/// measurement, or `None` for a broken trial; only cells for which `only` holds take part. A block in which a participating cell
/// has no finite value drops out.
pub fn main_contrasts(
    cells: &[Vec<usize>],
    values: &[Vec<Option<f64>>],
    factor: usize,
    level: usize,
    only: &dyn Fn(&[usize]) -> bool,
) -> Vec<(usize, f64)> {
    let side = |cell: &[usize]| match cell.get(factor) {
        Some(found) if *found == level && level != 0 => Some(0),
        Some(0) if level != 0 => Some(1),
        _ => None,
    };
    contrasts(cells, values, &[factor], 2, only, &side, 1.0)
}

/// The interaction of a level of one factor with a level of another, `(factor, level)` each: by how much the first
/// one's effect differs between the second one's level and its level 0, averaged over the other factors. On the
/// logarithmic scale: the exponential is a ratio of ratios. One for each block, as in [`main_contrasts`].
pub fn interaction_contrasts(
    cells: &[Vec<usize>],
    values: &[Vec<Option<f64>>],
    a: (usize, usize),
    b: (usize, usize),
    only: &dyn Fn(&[usize]) -> bool,
) -> Vec<(usize, f64)> {
    if a.0 == b.0 || a.1 == 0 || b.1 == 0 {
        return Vec::new();
    }
    let side = |cell: &[usize]| {
        let high = |(factor, level): (usize, usize)| match cell.get(factor) {
            Some(found) if *found == level => Some(true),
            Some(0) => Some(false),
            _ => None,
        };
        Some(usize::from(high(a)? != high(b)?))
    };
    // Each side averages over two corners; the difference of differences is the sum of these.
    contrasts(cells, values, &[a.0, b.0], 4, only, &side, 2.0)
}

/// `scale` times the mean of side 0 less that of side 1. `corners` is the number of cells that are alike in all factors but those
/// of the contrast, if none is missing.
fn contrasts(
    cells: &[Vec<usize>],
    values: &[Vec<Option<f64>>],
    factors: &[usize],
    corners: usize,
    only: &dyn Fn(&[usize]) -> bool,
    side: &dyn Fn(&[usize]) -> Option<usize>,
    scale: f64,
) -> Vec<(usize, f64)> {
    let mut groups: BTreeMap<Vec<usize>, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| only(cell)) {
        if let Some(side) = side(cell) {
            let levels = cell.iter().enumerate();
            let others = levels.filter(|(factor, _)| !factors.contains(factor)).map(|(_, level)| *level);
            groups.entry(others.collect()).or_default().push((index, side));
        }
    }
    let complete: Vec<(usize, usize)> =
        groups.values().filter(|group| group.len() == corners).flatten().copied().collect();
    let sides = if complete.is_empty() {
        let all = split(groups.values().flatten().copied());
        if !balanced(cells, factors, &all) {
            return Vec::new();
        }
        all
    } else {
        split(complete.into_iter())
    };
    let blocks = values.iter().map(Vec::len).max().unwrap_or(0);
    let of = |block: usize| {
        let value = |cell: &usize| (*values.get(*cell)?.get(block)?).filter(|value| value.is_finite());
        let [added, taken] = sides.each_ref().map(|side| {
            let found: Option<Vec<f64>> = side.iter().map(value).collect();
            crate::mean(&found?)
        });
        Some((block, scale * (added? - taken?)))
    };
    (0..blocks).filter_map(of).collect()
}

fn split(members: impl Iterator<Item = (usize, usize)>) -> Sides {
    let mut sides = [Vec::new(), Vec::new()];
    for (cell, side) in members {
        if let Some(side) = sides.get_mut(side) {
            side.push(cell);
        }
    }
    sides
}

/// Whether each level of every factor outside the contrast makes up the same share of both sides, and so does each level of
/// those inside if there are several: a difference of the sides is then no other factor's effect.
fn balanced(cells: &[Vec<usize>], factors: &[usize], sides: &Sides) -> bool {
    let [added, taken] = sides;
    if added.is_empty() || taken.is_empty() {
        return false;
    }
    let count = |side: &[usize], factor: usize| {
        let mut counts: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        for cell in side {
            *counts.entry(cells.get(*cell).and_then(|cell| cell.get(factor)).copied()).or_default() += 1;
        }
        counts
    };
    let width = cells.iter().map(Vec::len).max().unwrap_or(0);
    (0..width).filter(|factor| factors.len() > 1 || !factors.contains(factor)).all(|factor| {
        let (one, two) = (count(added, factor), count(taken, factor));
        one.len() == two.len()
            && one.iter().all(|(level, ones)| {
                two.get(level).is_some_and(|twos| ones * taken.len() == twos * added.len())
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::fraction;

    const ALL: &dyn Fn(&[usize]) -> bool = &|_| true;

    /// A 2 x 3 study without noise: 0.1 of A, 0.2 and 0.5 of B, 0.04 of both high, whole blocks moved by anything.
    fn two_by_three() -> (Vec<Vec<usize>>, Vec<Vec<Option<f64>>>) {
        let cells: Vec<Vec<usize>> = (0..6).map(|cell| vec![cell / 3, cell % 3]).collect();
        let value = |cell: &Vec<usize>, block: usize| {
            let both = if cell == &[1, 2] { 0.04 } else { 0.0 };
            Some(0.1 * cell[0] as f64 + [0.0, 0.2, 0.5][cell[1]] + both + (block * block) as f64)
        };
        let values = cells.iter().map(|cell| (0..5).map(|block| value(cell, block)).collect()).collect();
        (cells, values)
    }

    fn all_near(contrasts: &[(usize, f64)], blocks: &[usize], expected: f64) -> bool {
        contrasts.iter().map(|(block, _)| *block).eq(blocks.iter().copied())
            && contrasts.iter().all(|(_, contrast)| (contrast - expected).abs() < 1e-9)
    }

    #[test]
    fn known_effects_come_back() {
        let (cells, values) = two_by_three();
        let blocks = [0, 1, 2, 3, 4];
        assert!(all_near(&main_contrasts(&cells, &values, 0, 1, ALL), &blocks, 0.1 + 0.04 / 3.0));
        assert!(all_near(&main_contrasts(&cells, &values, 1, 1, ALL), &blocks, 0.2));
        assert!(all_near(&main_contrasts(&cells, &values, 1, 2, ALL), &blocks, 0.52));
        assert!(all_near(&main_contrasts(&cells, &values, 1, 2, &|cell| cell[0] == 1), &blocks, 0.54));
        assert!(all_near(&interaction_contrasts(&cells, &values, (0, 1), (1, 2), ALL), &blocks, 0.04));
        assert!(all_near(&interaction_contrasts(&cells, &values, (0, 1), (1, 1), ALL), &blocks, 0.0));
        let same = interaction_contrasts(&cells, &values, (1, 2), (0, 1), ALL);
        assert!(all_near(&same, &blocks, 0.04), "either factor first");
    }

    #[test]
    fn a_broken_trial_costs_its_block_and_only_where_it_is_needed() {
        let (cells, mut values) = two_by_three();
        values[5][2] = None;
        values[4].truncate(4);
        values[0][1] = Some(f64::NEG_INFINITY);
        assert!(all_near(&main_contrasts(&cells, &values, 1, 2, ALL), &[0, 3, 4], 0.52));
        assert!(all_near(&main_contrasts(&cells, &values, 1, 1, &|cell| cell[0] == 1), &[0, 1, 2, 3], 0.2));
        assert_eq!(main_contrasts(&cells, &values, 0, 1, ALL).len(), 2);
    }

    #[test]
    fn a_cell_without_a_partner_is_left_out() {
        let (mut cells, mut values) = two_by_three();
        cells.pop();
        values.pop();
        // A's effect at B 2 is unknown; at B 0 and 1 it is known.
        assert!(all_near(&main_contrasts(&cells, &values, 0, 1, ALL), &[0, 1, 2, 3, 4], 0.1));
        assert!(interaction_contrasts(&cells, &values, (0, 1), (1, 2), ALL).is_empty());
    }

    #[test]
    fn what_is_no_contrast_gives_none() {
        let (cells, values) = two_by_three();
        assert!(main_contrasts(&cells, &values, 0, 0, ALL).is_empty(), "level 0 against itself");
        assert!(main_contrasts(&cells, &values, 0, 7, ALL).is_empty());
        assert!(main_contrasts(&cells, &values, 9, 1, ALL).is_empty());
        assert!(main_contrasts(&cells, &[], 0, 1, ALL).is_empty());
        assert!(interaction_contrasts(&cells, &values, (1, 1), (1, 2), ALL).is_empty());
        // Two cells that differ in both factors: neither effect can be estimated.
        let both = |cell: &[usize]| cell == [0, 0] || cell == [1, 1];
        assert!(main_contrasts(&cells, &values, 0, 1, &both).is_empty());
    }

    /// Half of four factors (D = A B C): main effects stand, A B is C D, and in a half of three (C = A B) the
    /// interaction of A and B is C's effect and refused.
    #[test]
    fn fractions_are_averaged_whole() {
        let half = fraction(&[2, 2, 2, 2], 1).unwrap().cells;
        let value = |cell: &Vec<usize>| {
            0.1 * cell[0] as f64 + 0.3 * cell[3] as f64 + 0.2 * (cell[2] * cell[3]) as f64
        };
        let values: Vec<Vec<Option<f64>>> = half.iter().map(|cell| vec![Some(value(cell))]).collect();
        assert!(all_near(&main_contrasts(&half, &values, 0, 1, ALL), &[0], 0.1));
        assert!(all_near(&main_contrasts(&half, &values, 3, 1, ALL), &[0], 0.4));
        assert!(all_near(&interaction_contrasts(&half, &values, (2, 1), (3, 1), ALL), &[0], 0.2));
        assert!(all_near(&interaction_contrasts(&half, &values, (0, 1), (1, 1), ALL), &[0], 0.2), "aliased");
        let three = fraction(&[2, 2, 2], 1).unwrap().cells;
        let values: Vec<Vec<Option<f64>>> = three.iter().map(|cell| vec![Some(cell[2] as f64)]).collect();
        assert!(all_near(&main_contrasts(&three, &values, 2, 1, ALL), &[0], 1.0));
        assert!(interaction_contrasts(&three, &values, (0, 1), (1, 1), ALL).is_empty());
    }
}

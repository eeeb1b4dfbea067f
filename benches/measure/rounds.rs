//! Two sides measured in turns in one process, so that what else the machine does meets both.

use super::clock::median;

/// One side: a name, and one round of it that gives one figure per row.
pub(crate) struct Side<'a, const ROWS: usize> {
    round: Box<dyn FnMut() -> [f64; ROWS] + 'a>,
}

impl<'a, const ROWS: usize> Side<'a, ROWS> {
    pub(crate) fn new(round: impl FnMut() -> [f64; ROWS] + 'a) -> Self {
        Self { round: Box::new(round) }
    }
}

/// Runs all sides once as warm-up, which does not count, then `rounds` times in turns, another side first each time; gives
/// the medians, side by side.
pub(crate) fn medians<const SIDES: usize, const ROWS: usize>(
    rounds: usize,
    mut sides: [Side<'_, ROWS>; SIDES],
) -> [[f64; ROWS]; SIDES] {
    let mut samples = vec![[const { Vec::new() }; ROWS]; SIDES];
    for round in 0..=rounds {
        for turn in 0..SIDES {
            let side = (round + turn) % SIDES;
            let figures = (sides[side].round)();
            if round > 0 {
                samples[side].iter_mut().zip(figures).for_each(|(row, figure): (&mut Vec<f64>, f64)| row.push(figure));
            }
        }
    }
    std::array::from_fn(|side| std::array::from_fn(|row| median(&mut samples[side][row])))
}

/// Makes both sides anew `set_ups` times, the other one first each time, since where they come to lie in memory is luck;
/// `measure` is told whether the first side is to be made first. Gives the medians over the set-ups.
pub(crate) fn over_set_ups<const ROWS: usize>(set_ups: usize, measure: impl FnMut(bool) -> [[f64; ROWS]; 2]) -> [[f64; ROWS]; 2] {
    let figures: Vec<_> = (0..set_ups).map(|set_up| set_up % 2 == 0).map(measure).collect();
    std::array::from_fn(|side| {
        std::array::from_fn(|row| median(&mut figures.iter().map(|figures| figures[side][row]).collect::<Vec<_>>()))
    })
}

/// Both, made in this order or the other.
pub(crate) fn in_order<A, B>(first_first: bool, first: impl FnOnce() -> A, second: impl FnOnce() -> B) -> (A, B) {
    if first_first {
        let first = first();
        (first, second())
    } else {
        let second = second();
        (first(), second)
    }
}

//! The rules by which figures become verdicts: one for numbers of points, one for sizes, and what follows from them for
//! limits, ranges and exact values.

use super::{SAME, Verdict};

/// A size holds within this factor of the paper's.
const FACTOR: f64 = 2.0;

/// A size holds in part within this factor of the paper's.
const LARGE_FACTOR: f64 = 5.0;

/// The verdict on a number of comparisons: all hold, more than half, or fewer. `None` without a comparison.
pub(super) fn of_share(yes: usize, all: usize) -> Option<Verdict> {
    match (yes, all) {
        (_, 0) => None,
        (yes, all) if yes == all => Some(Verdict::Holds),
        (yes, all) if 2 * yes > all => Some(Verdict::InPart),
        _ => Some(Verdict::DoesNot),
    }
}

/// The verdict on a size, such as a percentage or a number of times: it holds within a factor of two of the paper's, and in
/// part within a factor of five. A size of the opposite sign does not hold.
pub(super) fn of_size(paper: f64, ours: f64) -> Verdict {
    let ratio = ours / paper;
    if (1.0 / FACTOR..=FACTOR).contains(&ratio) {
        Verdict::Holds
    } else if (1.0 / LARGE_FACTOR..=LARGE_FACTOR).contains(&ratio) {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// The verdict on "up to": no value is above the limit, and the greatest reaches it as a size does. The worse of the two
/// decides. `None` without a value.
pub(super) fn of_greatest(limit: f64, values: &[f64]) -> Option<Verdict> {
    let within = of_share(within(limit, values), values.len())?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    let reached = of_size(limit, most.min(limit));
    Some(within.max(reached))
}

/// The number of values up to a limit.
pub(super) fn within(limit: f64, values: &[f64]) -> usize {
    let most = limit + SAME * limit.abs();
    values.iter().filter(|value| **value <= most).count()
}

/// The number of values from a limit on.
pub(super) fn beyond(limit: f64, values: &[f64]) -> usize {
    let least = limit - SAME * limit.abs();
    values.iter().filter(|value| **value >= least).count()
}

/// The verdict on a range: the greatest value is judged as a size by the range's upper end, the least as a limit by the lower
/// end, and the worse of the two decides. It does not hold if no value lies in the range. `None` without a value.
pub(super) fn of_range([low, high]: [f64; 2], values: &[f64]) -> Option<Verdict> {
    if high <= 0.0 {
        let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
        return of_range([-high, -low], &mirrored);
    }
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    let is_inside = |value: &f64| (low..=high).contains(value);
    if !values.iter().any(is_inside) {
        return Some(Verdict::DoesNot);
    }
    let below = |factor: f64| match low < 0.0 {
        true => low * factor,
        false => low / factor,
    };
    let of_least = match least {
        _ if least >= below(FACTOR) => Verdict::Holds,
        _ if least >= below(LARGE_FACTOR) => Verdict::InPart,
        _ => Verdict::DoesNot,
    };
    Some(of_least.max(of_size(high, most)))
}

/// The verdict on a limit: it holds up to `most`, and in part within a factor of two on the same side of zero.
pub(super) fn of_limit(most: f64, ours: f64) -> Verdict {
    let in_part = match most < 0.0 {
        true => most / FACTOR,
        false => most * FACTOR,
    };
    match ours {
        _ if ours <= most => Verdict::Holds,
        _ if ours <= in_part => Verdict::InPart,
        _ => Verdict::DoesNot,
    }
}

/// The verdict on exact values: they hold if all are equal, and in part if all are within 10 %.
pub(super) fn of_exact(paper: f64, ours: &[f64]) -> Verdict {
    let difference = |value: &f64| (value - paper).abs();
    let all_within = |share: f64| ours.iter().all(|value| difference(value) <= share * paper.abs());
    if all_within(SAME) {
        Verdict::Holds
    } else if all_within(0.1) {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

/// The verdict on the course of curves: it holds if all ends and nine tenths of all steps go the right way, and in part if more
/// than half of each do.
pub(super) fn of_course(ends: [usize; 2], curves: usize, steps: usize, all_steps: usize) -> Verdict {
    let [far, in_part] = ends;
    if far == curves && 10 * steps >= 9 * all_steps {
        Verdict::Holds
    } else if 2 * in_part > curves && 2 * steps > all_steps {
        Verdict::InPart
    } else {
        Verdict::DoesNot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{DoesNot, Holds, InPart};

    #[test]
    fn sizes_hold_within_a_factor_of_two_and_in_part_of_five() {
        let of = |ours: f64| of_size(10.0, ours);
        assert_eq!([of(5.0), of(20.0)], [Holds; 2]);
        assert_eq!([of(4.9), of(20.1), of(2.0), of(50.0)], [InPart; 4]);
        assert_eq!([of(1.9), of(50.1), of(0.0), of(-10.0)], [DoesNot; 4]);
        assert_eq!(of_size(-10.0, -19.0), Holds);
        assert_eq!(of_size(-10.0, -1.9), DoesNot);
        assert_eq!(of_size(0.0, 1.0), DoesNot);
    }

    #[test]
    fn up_to_is_a_limit_that_is_reached() {
        let of = |values: &[f64]| of_greatest(10.0, values);
        assert_eq!(of(&[-50.0, 1.0, 5.0]), Some(Holds));
        assert_eq!(of(&[-50.0, 1.0, 10.0]), Some(Holds));
        assert_eq!(of(&[1.0, 4.9]), Some(InPart));
        assert_eq!(of(&[1.0, 1.9]), Some(DoesNot));
        assert_eq!(of(&[1.0, 9.0, 10.1]), Some(InPart));
        assert_eq!(of(&[1.0, 10.1]), Some(DoesNot));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn both_ends_of_a_range_are_judged() {
        let of = |values: &[f64]| of_range([1.0, 10.0], values);
        assert_eq!(of(&[0.5, 20.0, 3.0]), Some(Holds));
        assert_eq!(of(&[4.0, 5.0]), Some(Holds));
        assert_eq!(of(&[5.0]), Some(Holds));
        // The lower end, then the upper one.
        assert_eq!(of(&[0.4, 10.0]), Some(InPart));
        assert_eq!(of(&[0.1, 10.0]), Some(DoesNot));
        assert_eq!(of(&[-108.0, 10.0]), Some(DoesNot));
        assert_eq!(of(&[1.0, 4.0]), Some(InPart));
        assert_eq!(of(&[1.0, 1.9]), Some(DoesNot));
        assert_eq!(of(&[1.0, 51.0]), Some(DoesNot));
        // No value lies in the range.
        assert_eq!(of(&[0.6, 0.9]), Some(DoesNot));
        assert_eq!(of_range([3.0, 5.0], &[5.1, 8.0]), Some(DoesNot));
        // From 0 on no factor says how far a value is away.
        assert_eq!(of_range([0.0, 10.0], &[0.0, 9.0]), Some(Holds));
        assert_eq!(of_range([0.0, 10.0], &[-0.1, 9.0]), Some(DoesNot));
        assert_eq!(of_range([-10.0, 10.0], &[-20.0, 9.0]), Some(Holds));
        assert_eq!(of_range([-10.0, 10.0], &[-21.0, 9.0]), Some(InPart));
        assert_eq!(of_range([-10.0, 0.0], &[-9.0, -1.0]), Some(Holds));
        assert_eq!(of_range([-10.0, -1.0], &[-9.0, -0.1]), Some(DoesNot));
        assert_eq!(of_range([1.0, 2.0], &[]), None);
    }

    #[test]
    fn curves_hold_if_nine_of_ten_steps_do() {
        assert_eq!(of_course([1, 1], 1, 9, 10), Holds);
        assert_eq!(of_course([1, 1], 1, 8, 10), InPart);
        assert_eq!(of_course([1, 1], 1, 5, 10), DoesNot);
        assert_eq!(of_course([2, 3], 4, 10, 10), InPart);
        assert_eq!(of_course([2, 2], 4, 10, 10), DoesNot);
    }
}

//! Scales and ticks of axes: from numbers to positions, ticks and texts.
//!
//! `axes.js` has the same functions for axes whose ends change in the page. Both compute the cases of `axes.json`.

/// An end of an axis may miss a tick by what the end's own computation rounded.
const SLACK: f64 = 1e-9;

const MOST_DECIMALS: usize = 6;

/// Maps the values of an axis to positions in a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis that runs from `low` at the position `from` to `high` at the position `to`.
    pub(super) fn new((low, high): (f64, f64), is_log: bool, (from, to): (f64, f64)) -> Self {
        Scale { low, high, is_log, from, to }
    }

    /// The position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let along = |value: f64| if self.is_log { value.ln() } else { value };
        let factor = (self.to - self.from) / (along(self.high) - along(self.low));
        self.from + (along(value) - along(self.low)) * factor
    }
}

/// `digits` x 10 ^ `power`, the double nearest to it: below one a quotient is exact, a product is not.
fn decimal(digits: f64, power: i32) -> f64 {
    match power < 0 {
        true => digits / 10f64.powi(-power),
        false => digits * 10f64.powi(power),
    }
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten from low to high, at most `most` steps of them.
pub(super) fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let rough = (high - low) / most as f64;
    if !(rough > 0.0 && rough.is_finite()) {
        return Vec::new();
    }
    let power = rough.log10().floor() as i32 - 1;
    let steps = [10.0, 20.0, 25.0, 50.0];
    let digits = steps.iter().find(|digits| decimal(**digits, power) >= rough);
    let digits = digits.copied().unwrap_or(100.0);
    let step = decimal(digits, power);
    let first = (low / step - SLACK).ceil() as i64;
    let last = (high / step + SLACK).floor() as i64;
    let ticks = first..=last;
    ticks.map(|at| decimal(at as f64 * digits, power)).collect()
}

/// At most `most` ticks of a logarithmic axis from low to high: 1, 2 and 5 times powers of ten, powers alone where
/// those are too many, each second or third power where these are. An axis too short for two of them is nearly
/// linear and has linear ticks.
pub(super) fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    if !(low > 0.0 && low < high && high.is_finite()) {
        return Vec::new();
    }
    let first = low.log10().floor() as i32;
    let last = high.log10().floor() as i32 + 1;
    let ticks_of = |digits: &'static [f64], every: i32| -> Vec<f64> {
        let powers = (first..=last).filter(|power| power % every == 0);
        let ticks = powers.flat_map(|power| digits.iter().map(move |digit| decimal(*digit, power)));
        let within = low * (1.0 - SLACK)..=high * (1.0 + SLACK);
        ticks.filter(|tick| within.contains(tick)).collect()
    };
    let fine = std::iter::once(ticks_of(&[1.0, 2.0, 5.0], 1));
    let coarse = (1..=last - first + 1).map(|every| ticks_of(&[1.0], every));
    let ticks = fine.chain(coarse).find(|ticks| ticks.len() <= most);
    match ticks {
        Some(ticks) if ticks.len() >= 2 => ticks,
        _ => linear_ticks(low, high, most.saturating_sub(1).max(1)),
    }
}

/// The texts of a linear axis' ticks: one unit for all of them, and the same number of decimals.
pub(super) fn tick_texts(ticks: &[f64]) -> Vec<String> {
    let size = ticks.iter().fold(0.0, |size: f64, tick| size.max(tick.abs()));
    let (unit, name) = match size {
        size if size >= 1e6 => (1e6, " M"),
        size if size >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let step = match ticks {
        [first, second, ..] => second - first,
        _ => size,
    };
    let fits = |decimals: usize| {
        let scaled = |value: f64| value / unit * 10f64.powi(decimals as i32);
        let is_whole = |value: f64| (value - value.round()).abs() <= 1e-3 * scaled(step);
        ticks.iter().all(|tick| is_whole(scaled(*tick)))
    };
    let Some(decimals) = (0..=MOST_DECIMALS).find(|decimals| fits(*decimals)) else {
        return ticks.iter().map(|tick| plain(*tick, 12)).collect();
    };
    let text = |tick: &f64| match *tick == 0.0 {
        true => "0".into(),
        false => format!("{}{name}", grouped(tick / unit, decimals)),
    };
    ticks.iter().map(text).collect()
}

/// A number of about three digits: for logarithmic axes and single values.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", plain(value / 1e6, 3)),
        value if value >= 1e4 => format!("{} k", plain(value / 1e3, 3)),
        value if value >= 1e3 => grouped(value.round(), 0),
        value => plain(value, 4),
    }
}

/// A number with that many significant digits, without trailing zeros.
fn plain(value: f64, digits: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
    let text = match rounded.abs() {
        size if size != 0.0 && !(1e-6..1e21).contains(&size) => format!("{rounded:e}"),
        _ => rounded.to_string(),
    };
    text.replace('-', "−")
}

/// A number with that many decimals and its thousands apart.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// What the axes of pictures and those of the page compute alike.
    #[derive(Deserialize)]
    struct Cases {
        linear: Vec<(f64, f64, usize, Vec<f64>)>,
        logarithmic: Vec<(f64, f64, usize, Vec<f64>)>,
        texts: Vec<(Vec<f64>, Vec<String>)>,
        short: Vec<(f64, String)>,
        positions: Vec<(f64, f64, bool, f64, f64, f64, f64)>,
    }

    fn cases() -> Cases {
        serde_json::from_str(include_str!("axes.json")).expect("the cases")
    }

    #[test]
    fn ticks_are_those_of_the_page() {
        let Cases { linear, logarithmic, .. } = cases();
        for (low, high, most, ticks) in linear {
            assert_eq!(linear_ticks(low, high, most), ticks, "{low} {high} {most}");
        }
        for (low, high, most, ticks) in logarithmic {
            assert_eq!(log_ticks(low, high, most), ticks, "{low} {high} {most}");
        }
    }

    #[test]
    fn texts_are_those_of_the_page() {
        let Cases { texts, short: numbers, .. } = cases();
        for (ticks, expected) in texts {
            assert_eq!(tick_texts(&ticks), expected, "{ticks:?}");
        }
        for (value, expected) in numbers {
            assert_eq!(short(value), expected, "{value}");
        }
    }

    #[test]
    fn positions_are_those_of_the_page() {
        for (low, high, is_log, from, to, value, position) in cases().positions {
            let scale = Scale::new((low, high), is_log, (from, to));
            assert!((scale.at(value) - position).abs() < 1e-9, "{value}");
        }
    }
}

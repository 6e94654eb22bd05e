//! Arguments of the command line: policies, fractions, quantities, asymmetries.

use ebbpool_cost::{Asymmetry, ByteSize, BytesPerDay, Decimal, parse_duration, split_period};
use ebbpool_device::arrivals::Rate;
use ebbpool_device::changing::AsymmetrySpec;
use ebbpool_policy::{PolicySpec, split_list};

fn text_of(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// A list of policies: a parsed policy prints as a text that parses to the same, alone and in a
/// list.
pub(crate) fn policy_list(input: &[u8]) {
    let Some(text) = text_of(input) else { return };
    let mut printed = Vec::new();
    for item in split_list(text) {
        match item.parse::<PolicySpec>() {
            Ok(spec) => {
                let canonical = spec.to_string();
                let again: PolicySpec = canonical
                    .parse()
                    .unwrap_or_else(|error| panic!("'{item}' prints as '{canonical}', which is refused: {error}"));
                assert_eq!(again.to_string(), canonical, "from '{item}'");
                for param in spec.entry().params {
                    let name = param.name;
                    assert_eq!(spec.value(name), again.value(name), "{canonical}: {name}");
                }
                printed.push(canonical);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert_eq!(split_list(&printed.join(",")), printed);
}

/// An exact decimal: its printed forms, as a decimal and in per cent, parse to the same value.
pub(crate) fn fraction(input: &[u8]) {
    let Some(text) = text_of(input) else { return };
    let Ok(fraction) = text.parse::<Decimal>() else {
        return;
    };
    assert_eq!(fraction.floor_times(0), 0);
    let whole = fraction.floor_times(1_000_000_007);
    assert!(fraction.exceeds_one() || whole <= 1_000_000_007);
    assert!(!fraction.is_zero() || whole == 0);
    let nearest = fraction.to_f64() * 1_000_000_007.0;
    assert!(nearest - whole as f64 > -1e-6 * nearest.max(1.0), "{text}");
    // Larger decimals are not shares, and may have more digits than the parser accepts.
    if !fraction.exceeds_one() {
        for printed in [fraction.to_string(), fraction.percent()] {
            assert_eq!(printed.parse(), Ok(fraction), "'{text}' as '{printed}'");
        }
    }
}

/// A size, a time or a rate. A size prints as a text that is read as nearly the same size, and that size prints alike;
/// the others are finite and above 0. An error is one line.
pub(crate) fn quantity(input: &[u8]) {
    let Some(text) = text_of(input) else { return };
    match text.parse::<ByteSize>() {
        Ok(size) => {
            let printed = size.to_string();
            let again: ByteSize =
                printed.parse().unwrap_or_else(|error| panic!("'{text}' prints as '{printed}', which is refused: {error}"));
            assert_eq!(again.to_string(), printed, "from '{text}'");
            let off = again.bytes().abs_diff(size.bytes());
            assert!(off <= size.bytes() / 150, "'{text}' as '{printed}'");
            assert_eq!(size.bytes().to_string().parse(), Ok(size));
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    match parse_duration(text) {
        Ok(duration) => assert!(duration.as_nanos() > 0),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    match text.parse::<BytesPerDay>() {
        Ok(rate) => assert!(rate.bytes().is_finite() && rate.bytes() > 0.0),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(rate.per_second().is_finite() && rate.per_second() > 0.0);
    }
    if let Some((_, Some(seconds))) = split_period(text) {
        assert!(seconds > 0.0);
    }
}

/// An asymmetry that may change: a parsed one prints as a text that parses to the same.
pub(crate) fn asymmetry_spec(input: &[u8]) {
    let Some(text) = text_of(input) else { return };
    match text.parse::<AsymmetrySpec>() {
        Ok(spec) => {
            let printed = spec.to_string();
            let again = printed.parse::<AsymmetrySpec>();
            assert_eq!(again.ok().as_ref(), Some(&spec), "'{text}' as '{printed}'");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// An asymmetry: from 0 to 10^15, and printed as a text that parses to the same.
pub(crate) fn asymmetry(input: &[u8]) {
    let Some(text) = text_of(input) else { return };
    match text.parse::<Asymmetry>() {
        Ok(asymmetry) => {
            assert!((0.0..=1e15).contains(&asymmetry.ratio()));
            assert_eq!(asymmetry.to_string().parse(), Ok(asymmetry));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

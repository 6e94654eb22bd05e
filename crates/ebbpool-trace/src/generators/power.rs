//! `x^-a` from the four basic operations.
//!
//! The platform's `pow`, `exp` and `ln` differ in their last bits from one
//! library to the next, and a weight that differs there changes a trace. IEEE
//! 754 defines `+ - * /` exactly, so what is built of them alone, in a fixed
//! order, is the same everywhere.

/// ln 2 in two parts, the first with enough trailing zeros that its multiples
/// are exact.
const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);

/// `rank^-alpha`, for a rank from 1 and an alpha from 0 to 10, to about 14
/// digits.
pub(super) fn inverse_power(rank: u64, alpha: f64) -> f64 {
    if alpha == 0.0 || rank <= 1 {
        1.0
    } else if alpha == 1.0 {
        1.0 / rank as f64
    } else {
        exp(-alpha * ln(rank))
    }
}

/// Natural logarithm of a whole number that is not 0.
fn ln(x: u64) -> f64 {
    // x = mantissa * 2^exponent with the mantissa around 1, between 0.7 and 1.4.
    let bits = (x as f64).to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m-1)/(m+1)), whose argument is below 0.172.
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let mut sum = 0.0;
    for k in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * k + 1);
    }
    let exponent = exponent as f64;
    exponent * LN2_HIGH + (exponent * LN2_LOW + 2.0 * ratio * sum)
}

/// `e^x` for an `x` from -700 to 0.
fn exp(x: f64) -> f64 {
    // x = twos * ln 2 + rest, the rest at most half of ln 2.
    let twos = (x * std::f64::consts::LOG2_E - 0.5) as i64;
    let whole = twos as f64;
    let rest = x - whole * LN2_HIGH - whole * LN2_LOW;
    let mut sum = 1.0;
    for k in (1..=16).rev() {
        sum = 1.0 + rest * sum / f64::from(k);
    }
    sum * f64::from_bits(((1023 + twos) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_library() {
        for alpha in [0.0, 0.1, 0.5, 0.99, 1.0, 1.2, 2.0, 3.7, 10.0] {
            for rank in (1..2000).chain([12_345, 99_999_999, 1_000_000_000, 1 << 32]) {
                let ours = inverse_power(rank, alpha);
                let library = (rank as f64).powf(-alpha);
                let error = (ours / library - 1.0).abs();
                assert!(error < 1e-12, "{rank}^-{alpha}: off by {error:e}");
            }
        }
    }
}

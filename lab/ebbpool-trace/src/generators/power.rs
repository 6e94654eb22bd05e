//! `x^-a` from the four basic operations.
//!
//! The last bits of `pow`, `exp` and `ln` differ between platforms' libraries, and a
//! weight that differs there changes a trace. IEEE 754 defines `+ - * /` exactly, so a
//! computation from these alone, in a fixed order, has the same result everywhere.

/// ln 2 in two parts, the first with enough trailing zeros that its multiples
/// are exact.
const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);

/// `rank^-alpha`, for a rank from 1 and an alpha from 0 to 10, to about 14
/// digits.
pub(crate) fn inverse_power(rank: u64, alpha: f64) -> f64 {
    if alpha == 0.0 || rank <= 1 {
        1.0
    } else if alpha == 1.0 {
        1.0 / rank as f64
    } else {
        exp(-alpha * ln(rank))
    }
}

/// `(k/n)^theta - ((k-1)/n)^theta`, for 1 <= k <= n and a theta above 0 and at most
/// 1, to about 12 digits, even where the two powers differ by less than their last bit.
pub(crate) fn power_step(k: u64, n: u64, theta: f64) -> f64 {
    let upper = exp(theta * (ln(k) - ln(n)));
    if k <= 1 {
        return upper;
    }
    // The lower power is the upper one times (1-1/k)^theta, and
    // ln(1-1/k) = -2 artanh(1/(2k-1)).
    let fall = theta * 2.0 * artanh(1.0 / (2.0 * k as f64 - 1.0));
    // 1 - e^-fall by its series, for a fall of at most ln 2.
    let mut sum = 1.0;
    for term in (2..=20).rev() {
        sum = 1.0 - fall * sum / f64::from(term);
    }
    upper * (fall * sum)
}

/// Natural logarithm of `numerator / denominator`, neither of them 0.
pub(crate) fn ln_of_fraction(numerator: u64, denominator: u64) -> f64 {
    ln(numerator) - ln(denominator)
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

/// Inverse hyperbolic tangent of an `x` from 0 to 1/3.
fn artanh(x: f64) -> f64 {
    let square = x * x;
    let mut sum = 0.0;
    for k in (0..17).rev() {
        sum = sum * square + 1.0 / f64::from(2 * k + 1);
    }
    x * sum
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

    #[test]
    fn steps_are_positive_fall_and_add_up() {
        for theta in [1.0, 0.9, 0.139, 0.01, 1e-6] {
            for n in [1, 2, 3, 10, 1000, 100_000] {
                let power = |k: u64| (k as f64 / n as f64).powf(theta);
                let mut sum = 0.0;
                let mut last = f64::INFINITY;
                for k in 1..=n {
                    let step = power_step(k, n, theta);
                    assert!(step > 0.0 && step <= last * (1.0 + 1e-13), "{theta} {k} of {n}");
                    last = step;
                    sum += step;
                    let error = (sum - power(k)).abs();
                    assert!(error < 1e-11, "{theta} {k} of {n}: off by {error:e}");
                }
            }
            // For such large k the derivative is as exact as the difference.
            let (k, n) = (999_999_999u64, 1_000_000_000u64);
            let slope = theta / n as f64 * ((k as f64 - 0.5) / n as f64).powf(theta - 1.0);
            let error = (power_step(k, n, theta) / slope - 1.0).abs();
            assert!(error < 1e-12, "{theta}: off by {error:e}");
        }
        assert!((ln_of_fraction(1, 5) + 5f64.ln()).abs() < 1e-14);
    }
}

//! Times in traces of lines.

use super::lines::decimal;

/// The unit of a number that is a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    /// Windows' 100 ns since 1601.
    Filetime,
    /// A date and a time of day, ISO 8601.
    Date,
}

/// Seconds from 1601 to 1970.
const SINCE_1601: u64 = 11_644_473_600;

impl TimeUnit {
    const ALL: [TimeUnit; 6] = [
        TimeUnit::Seconds,
        TimeUnit::Milliseconds,
        TimeUnit::Microseconds,
        TimeUnit::Nanoseconds,
        TimeUnit::Filetime,
        TimeUnit::Date,
    ];

    /// The abbreviation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
            TimeUnit::Nanoseconds => "ns",
            TimeUnit::Filetime => "filetime",
            TimeUnit::Date => "date",
        }
    }

    /// The unit with this abbreviation.
    pub(crate) fn of_name(name: &str) -> Option<TimeUnit> {
        TimeUnit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// What is expected, in a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "a number of seconds such as 12.5, less than 230 years",
            TimeUnit::Milliseconds => "a number of milliseconds such as 12.5, less than 230 years",
            TimeUnit::Microseconds => "a number of microseconds such as 12.5, less than 230 years",
            TimeUnit::Nanoseconds => "a number of nanoseconds such as 12.5, less than 230 years",
            TimeUnit::Filetime => "a number of 100 ns from 1601 on, before 2200",
            TimeUnit::Date => "a date and a time of day such as 2024-02-29 23:59:59.5, from 1970 on",
        }
    }

    fn nanoseconds(self) -> u128 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Nanoseconds => 1,
            TimeUnit::Filetime => 100,
            TimeUnit::Date => 0,
        }
    }

    /// A number of this unit as whole µs, rounded down: decimal digits, and digits behind a point. `None` if it is no such
    /// number, or 2^64 µs or more.
    pub(super) fn microseconds(self, text: &[u8]) -> Option<u64> {
        /// Digits behind the point that can change the result.
        const DIGITS: usize = 9;
        if self == TimeUnit::Date {
            return date(text);
        }
        let point = text.iter().position(|&byte| byte == b'.');
        let (whole, fraction) = match point {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b"0"[..]),
        };
        if !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let fraction = &fraction[..fraction.len().min(DIGITS)];
        let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        let unit = self.nanoseconds();
        let behind = u128::from(decimal(fraction)?) * unit / scale;
        let all = u128::from(decimal(whole)?) * unit + behind;
        let all = match self {
            // Smaller numbers count from the beginning of the trace.
            TimeUnit::Filetime => {
                let since = u128::from(SINCE_1601) * 1_000_000_000;
                all.checked_sub(since).unwrap_or(all)
            }
            _ => all,
        };
        u64::try_from(all / 1_000).ok()
    }
}

/// A date and a time of day as µs since 1970, rounded down, such as `2024-02-29T23:59:59.5+01:00`.
fn date(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (day, time) = text.split_once(['T', 't', ' '])?;
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (time, zone) = (time[..zone].trim_end(), &time[zone..]);
    let numbers = |text: &str, sign: char| -> Option<[u64; 3]> {
        let mut parts = text.split(sign).map(|part| decimal(part.as_bytes()).filter(|_| part.len() >= 2));
        let three = [parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?];
        parts.next().is_none().then_some(three)
    };
    let [year, month, day] = numbers(day, '-').or_else(|| numbers(day, '/'))?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_of = [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let at = usize::try_from(month).ok()?.checked_sub(1)?;
    if !(1970..3000).contains(&year) || !(1..=*days_of.get(at)?).contains(&day) {
        return None;
    }
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let days = (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + days_of[..at].iter().sum::<u64>() + day - 1;
    let (time, fraction) = time.split_once(['.', ',']).unwrap_or((time, "0"));
    let [hours, minutes, seconds] = numbers(time, ':')?;
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let behind = TimeUnit::Seconds.microseconds(format!("0.{fraction}").as_bytes())?;
    let local = (days * 86_400 + hours * 3600 + minutes * 60 + seconds) * 1_000_000 + behind;
    let Some(shift) = zone.strip_prefix(['+', '-']) else {
        return (zone.is_empty() || zone.eq_ignore_ascii_case("z")).then_some(local);
    };
    let [hours, minutes] = match shift.len() {
        2 => [decimal(shift.as_bytes())?, 0],
        4 => [decimal(&shift.as_bytes()[..2])?, decimal(&shift.as_bytes()[2..])?],
        _ => {
            let [hours, minutes, _] = numbers(shift, ':')?;
            [hours, minutes]
        }
    };
    let shift = hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60_000_000)?;
    if zone.starts_with('-') { local.checked_add(shift) } else { local.checked_sub(shift) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_whole_microseconds() {
        use TimeUnit::{Date, Filetime, Microseconds, Milliseconds, Nanoseconds, Seconds};
        for (unit, text, expected) in [
            (Seconds, "0.000001200", Some(1)),
            (Seconds, "12", Some(12_000_000)),
            (Seconds, "1700000000.25", Some(1_700_000_000_250_000)),
            (Seconds, "1.9999999999999999999999", Some(1_999_999)),
            (Milliseconds, "1.5", Some(1500)),
            (Microseconds, "7.9", Some(7)),
            (Nanoseconds, "1999", Some(1)),
            (Microseconds, "18446744073709551615", Some(u64::MAX)),
            (Seconds, "18446744073709551615", None),
            (Seconds, "18446744073709551616", None),
            (Seconds, "", None),
            (Seconds, ".5", None),
            (Seconds, "5.", None),
            (Seconds, "0.5.5", None),
            (Seconds, "-1", None),
            (Seconds, "1e3", None),
            (Seconds, "2024-01-01 00:00:00", None),
            (Filetime, "128166372003061629", Some(1_172_163_600_306_162)),
            (Filetime, "25", Some(2)),
            (Date, "1970-01-01 00:00:00", Some(0)),
            (Date, "2024-02-29T23:59:59.5Z", Some(1_709_251_199_500_000)),
            (Date, "2024/03/01 00:59:59,25 +0100", Some(1_709_251_199_250_000)),
            (Date, "2000-12-31 12:00", Some(978_264_000_000_000)),
            (Date, "2100-03-01T00:00:00-02:30", Some(4_107_551_400_000_000)),
            (Date, "2023-02-29 00:00:00", None),
            (Date, "2024-01-01 24:00:00", None),
            (Date, "2024-01-01", None),
            (Date, "12:00:00", None),
            (Date, "01/02/2024 00:00:00", None),
            (Date, "2024-01-01 00:00:00+1", None),
            (Date, "2024-01-01 00:00:00 CET", None),
        ] {
            assert_eq!(unit.microseconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn units_have_names() {
        for unit in TimeUnit::ALL {
            assert_eq!(TimeUnit::of_name(unit.name()), Some(unit));
        }
        assert_eq!(TimeUnit::of_name("min"), None);
    }
}

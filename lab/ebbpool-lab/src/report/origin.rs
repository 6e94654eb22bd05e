//! Where a report is from: its command, its date, its version.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};

/// What the foot of a report says about its making, as far as the caller knows it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReportOptions {
    /// The command that makes the same report, in one line.
    pub command: Option<String>,
    /// The time at which the report is made; the report gives it in UTC.
    pub date: Option<SystemTime>,
}

impl ReportOptions {
    pub(crate) fn markup(&self) -> Markup {
        let date = self.date.and_then(utc);
        html! {
            p.origin {
                "Made by ebbpool " (env!("CARGO_PKG_VERSION"))
                @if let Some(date) = &date { " on " time datetime=(date.replace(' ', "T") + "Z") { (date) " UTC" } }
                @if let Some(command) = &self.command { " with " code { (command) } }
            }
        }
    }
}

/// A time as `2026-11-22 16:17`; `None` before 1970 and beyond the year 9999.
fn utc(time: SystemTime) -> Option<String> {
    const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    if since >= YEAR_10000 {
        return None;
    }
    let minutes = since.as_secs() / 60;
    let (year, month, day) = civil(minutes / (24 * 60));
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    Some(format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}"))
}

/// Year, month and day of a day numbered from 1970-01-01. Years begin in March here, so that a leap day is the last day
/// of one; 400 of them have 146,097 days.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_FROM_MARCH_OF_YEAR_0: u64 = 719_468;
    let days = days_since_1970 + DAYS_FROM_MARCH_OF_YEAR_0;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = match month_from_march {
        0..=9 => month_from_march + 3,
        _ => month_from_march - 9,
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_given_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_709_251_200, "2024-03-01 00:00"),
            (1_735_689_599, "2024-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
            (253_402_300_799, "9999-12-31 23:59"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(utc(time).as_deref(), Some(text));
        }
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(utc(later), None);
    }

    #[test]
    fn the_foot_says_what_is_known() {
        let options = ReportOptions { command: Some("ebbpool compare '<b>.csv'".into()), date: Some(SystemTime::UNIX_EPOCH) };
        let text = options.markup().into_string();
        assert!(text.contains("on <time datetime=\"1970-01-01T00:00Z\">1970-01-01 00:00 UTC</time>"));
        assert!(text.contains("<code>ebbpool compare '&lt;b&gt;.csv'</code>"));
        let nothing = ReportOptions::default().markup().into_string();
        assert!(nothing.ends_with(&format!("ebbpool {}</p>", env!("CARGO_PKG_VERSION"))));
    }
}

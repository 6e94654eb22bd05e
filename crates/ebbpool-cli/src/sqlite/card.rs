//! The life of a card in years.

use ebbpool_device::DeviceProfile;
use ebbpool_device::profiles::Endurance;

use super::args::CardArgs;
use super::error::SqliteError;
use crate::failure::Failure;

const SECONDS_PER_YEAR: f64 = 365.0 * 24.0 * 3600.0;

/// A card, and how much may be written to it.
pub(super) struct WearingCard {
    pub(super) name: String,
    pub(super) endurance: Endurance,
}

impl WearingCard {
    /// The card that the arguments name.
    ///
    /// # Errors
    ///
    /// If there is no such device, or writes do not wear it out.
    pub(super) fn of(args: &CardArgs) -> Result<WearingCard, SqliteError> {
        let card = |failure: Failure| SqliteError::Card(Box::new(failure));
        let profile = DeviceProfile::find(&args.card).map_err(|error| card(error.into()))?;
        let Some(endurance) = profile.endurance() else {
            return Err(card(Failure::Usage(format!(
                "--card {} has no end of life: {}",
                args.card,
                profile.no_endurance()
            ))));
        };
        Ok(WearingCard {
            name: profile.name,
            endurance,
        })
    }

    /// The years after which a card is worn out by a number of bytes in a time in seconds; `None` without bytes or time.
    pub(super) fn years(&self, bytes: u64, seconds: f64) -> Option<f64> {
        let a_year = bytes as f64 / seconds * SECONDS_PER_YEAR;
        (a_year > 0.0 && seconds > 0.0).then(|| self.endurance.host_bytes / a_year)
    }

    /// What the years rest on, as a sentence.
    pub(super) fn sentence(&self) -> String {
        format!(
            "years of {} with {} of writes in its life: {}",
            self.name,
            self.endurance.text(),
            self.endurance.assumption
        )
    }
}

/// Years with as many digits as they deserve.
pub(super) fn years_text(years: Option<f64>) -> String {
    match years {
        None => "-".into(),
        Some(years) if years >= 1000.0 => "over 1000".into(),
        Some(years) if years >= 10.0 => format!("{years:.0}"),
        Some(years) if years >= 0.1 => format!("{years:.1}"),
        Some(years) => format!("{years:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str) -> Result<WearingCard, SqliteError> {
        WearingCard::of(&CardArgs { card: name.into() })
    }

    #[test]
    fn years_are_the_endurance_over_what_is_written_in_a_year() {
        let card = card("sd-a1").expect("it wears");
        let day = 24.0 * 3600.0;
        let a_day = (card.endurance.host_bytes / 365.0) as u64;
        let years = card.years(a_day, day).expect("years");
        assert!((years - 1.0).abs() < 1e-6, "{years}");
        assert_eq!(card.years(0, day), None);
        assert_eq!(card.years(1, 0.0), None);
    }

    #[test]
    fn a_disk_that_does_not_wear_out_is_refused() {
        let Err(SqliteError::Card(failure)) = card("hdd1") else {
            panic!("a disk wears out");
        };
        assert!(failure.to_string().contains("magnetic"), "{failure}");
    }

    #[test]
    fn years_have_few_digits() {
        let texts = [0.0123, 0.5, 12.34, 5000.0].map(|years| years_text(Some(years)));
        assert_eq!(texts, ["0.012", "0.5", "12", "over 1000"]);
        assert_eq!(years_text(None), "-");
    }
}

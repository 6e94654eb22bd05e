//! The life of a card in years.

use ebbpool_device::profiles::WearingDevice;

use super::args::CardArgs;
use super::error::SqliteError;
use crate::failure::Failure;

/// The card that the arguments name.
///
/// # Errors
///
/// If there is no such device, or writes do not wear it out.
pub(super) fn card_of(args: &CardArgs) -> Result<WearingDevice, SqliteError> {
    WearingDevice::find(&args.card).map_err(|error| SqliteError::Passed(Box::new(Failure::from(error))))
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

    #[test]
    fn years_have_few_digits() {
        let texts = [0.0123, 0.5, 12.34, 5000.0].map(|years| years_text(Some(years)));
        assert_eq!(texts, ["0.012", "0.5", "12", "over 1000"]);
        assert_eq!(years_text(None), "-");
    }
}

//! Devices that writes wear out.

use super::{DeviceProfile, Endurance, ProfileError};

const SECONDS_PER_YEAR: f64 = 365.0 * 24.0 * 3600.0;

/// A device that writes wear out.
#[derive(Clone, Debug, PartialEq)]
pub struct WearingDevice {
    /// The name of its profile.
    pub name: String,
    /// How much the host may write to it.
    pub endurance: Endurance,
}

impl WearingDevice {
    /// The device that `text` names: by its name, or by the path of a TOML file.
    ///
    /// # Errors
    ///
    /// As [`DeviceProfile::find`], and if writes do not wear the device out.
    pub fn find(text: &str) -> Result<WearingDevice, ProfileError> {
        let profile = DeviceProfile::find(text)?;
        match profile.endurance() {
            Some(endurance) => Ok(WearingDevice { name: profile.name, endurance }),
            None => Err(ProfileError::NoEndurance { reason: profile.no_endurance(), name: profile.name }),
        }
    }

    /// The years after which it is worn out by a number of bytes in each span of a length in seconds; `None` without bytes or
    /// time.
    pub fn years(&self, bytes: u64, seconds: f64) -> Option<f64> {
        let a_year = bytes as f64 / seconds * SECONDS_PER_YEAR;
        (bytes > 0 && seconds > 0.0).then(|| self.endurance.host_bytes / a_year)
    }

    /// What the years rest on, as a sentence.
    pub fn sentence(&self) -> String {
        format!("years of {} with {} of writes in its life: {}", self.name, self.endurance.text(), self.endurance.assumption)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_the_endurance_over_what_is_written_in_a_year() {
        let card = WearingDevice::find("sd-a1").expect("it wears");
        let day = 24.0 * 3600.0;
        let a_day = (card.endurance.host_bytes / 365.0) as u64;
        let years = card.years(a_day, day).expect("years");
        assert!((years - 1.0).abs() < 1e-6, "{years}");
        assert_eq!(card.years(0, day), None);
        assert_eq!(card.years(1, 0.0), None);
    }

    #[test]
    fn a_disk_that_does_not_wear_out_is_refused() {
        let error = WearingDevice::find("hdd1").expect_err("a disk wears out");
        assert!(error.is_usage());
        assert!(error.to_string().contains("magnetic"), "{error}");
    }
}

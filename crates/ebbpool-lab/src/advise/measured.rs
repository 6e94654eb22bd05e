//! What a server and its device wrote while the trace was captured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clock::SECONDS_PER_DAY;
use super::request::AdviseError;

/// Bytes that were written in the seconds of a capture, as the kernel and the server count them: the object `written` of a
/// capture's file of facts. What was not counted is `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredWrites {
    /// The seconds of the capture.
    pub seconds: f64,
    /// Bytes of the pages that the server wrote.
    pub page_bytes: Option<u64>,
    /// Bytes by which the log grew.
    pub log_bytes: Option<u64>,
    /// Bytes that the server's processes sent to files, as the kernel counts them (`write_bytes` of `/proc/PID/io`).
    pub process_bytes: Option<u64>,
    /// What the block device below the server's files took, from all programs.
    pub device: Option<MeasuredDevice>,
}

/// A block device in the seconds of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredDevice {
    /// The kernel's name of the device.
    pub name: String,
    /// Bytes that it took.
    pub bytes: u64,
}

/// What a server wrote, in bytes per day. It is more than its parts where the kernel counted other writes, such as temporary files
/// and parts of the log that were written again.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MeasuredDay {
    /// The seconds in which it was measured.
    pub seconds: f64,
    /// All that was counted.
    pub total: f64,
    /// Pages.
    pub pages: Option<f64>,
    /// The log.
    pub log: Option<f64>,
    /// What the server's processes sent to files besides pages and log; 0 where the kernel has joined several writes of a page, and
    /// counted less than the server.
    pub rest: Option<f64>,
    /// What the device took, from all programs.
    pub device: Option<f64>,
    /// The kernel's name of the device.
    pub device_name: Option<String>,
}

impl MeasuredWrites {
    /// Reads the object `written` of a file of facts.
    ///
    /// # Errors
    ///
    /// [`AdviseError::NoMeasuredWrites`] if the text is no JSON object with such an object, or if its seconds are not above 0.
    pub fn of_facts(facts: &str) -> Result<Self, AdviseError> {
        #[derive(Deserialize)]
        struct Facts {
            written: MeasuredWrites,
        }
        let wrong = |why: String| AdviseError::NoMeasuredWrites(why);
        let facts: Facts = serde_json::from_str(facts).map_err(|error| wrong(error.to_string()))?;
        let seconds = facts.written.seconds;
        match seconds.is_finite() && seconds > 0.0 {
            true => Ok(facts.written),
            false => Err(wrong(format!(
                "nothing can be written in {seconds} seconds"
            ))),
        }
    }

    /// The same in bytes per day.
    pub(super) fn per_day(&self) -> MeasuredDay {
        let daily = |bytes: u64| bytes as f64 * (SECONDS_PER_DAY / self.seconds);
        let parts = self.page_bytes.unwrap_or(0) + self.log_bytes.unwrap_or(0);
        let of_server = [self.page_bytes, self.log_bytes, self.process_bytes];
        let total = match (of_server, &self.device) {
            // A capture of a device sees what all programs write to it.
            ([None, None, None], Some(device)) => device.bytes,
            _ => self.process_bytes.unwrap_or(0).max(parts),
        };
        let rest = self.process_bytes.map(|bytes| bytes.saturating_sub(parts));
        MeasuredDay {
            seconds: self.seconds,
            total: daily(total),
            pages: self.page_bytes.map(daily),
            log: self.log_bytes.map(daily),
            rest: rest.map(daily),
            device: self.device.as_ref().map(|device| daily(device.bytes)),
            device_name: self.device.as_ref().map(|device| device.name.clone()),
        }
    }

    /// What the figures leave out.
    pub(super) fn not_counted(&self) -> Vec<String> {
        match (self.process_bytes, self.log_bytes) {
            (Some(_), _) => Vec::new(),
            (None, None) if self.page_bytes.is_none() && self.device.is_some() => Vec::new(),
            (None, Some(_)) => vec!["files other than pages and log".into()],
            (None, None) => vec!["the log and other files".into()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(page: Option<u64>, log: Option<u64>, process: Option<u64>) -> MeasuredWrites {
        MeasuredWrites {
            // Half a day.
            seconds: 43_200.0,
            page_bytes: page,
            log_bytes: log,
            process_bytes: process,
            device: None,
        }
    }

    #[test]
    fn bytes_of_a_day_are_divided() {
        let day = written(Some(100), Some(50), Some(170)).per_day();
        assert_eq!(
            (day.total, day.pages, day.log, day.rest),
            (340.0, Some(200.0), Some(100.0), Some(40.0))
        );
        // The kernel has joined writes.
        let joined = written(Some(100), Some(50), Some(120)).per_day();
        assert_eq!((joined.total, joined.rest), (300.0, Some(0.0)));
        let total_only = written(None, None, Some(120));
        assert_eq!(total_only.per_day().total, 240.0);
        assert!(total_only.not_counted().is_empty());
        let of_device = MeasuredWrites {
            device: Some(MeasuredDevice {
                name: "vda".into(),
                bytes: 512,
            }),
            ..written(None, None, None)
        };
        assert_eq!(of_device.per_day().total, 1024.0);
        assert!(of_device.not_counted().is_empty());
        assert_eq!(written(Some(1), Some(1), None).not_counted().len(), 1);
        assert_eq!(written(Some(1), None, None).not_counted().len(), 1);
    }

    #[test]
    fn facts_without_measured_bytes_are_refused() {
        let text = r#"{"source": "postgresql", "written": {"seconds": 2.5, "page_bytes": 8192, "log_bytes": null,
            "process_bytes": 9000, "device": {"name": "vda", "bytes": 12288}}}"#;
        let found = MeasuredWrites::of_facts(text).expect("facts");
        assert_eq!((found.page_bytes, found.log_bytes), (Some(8192), None));
        assert_eq!(found.device.map(|device| device.bytes), Some(12288));
        for text in [
            "",
            "[]",
            "{}",
            "{\"written\": 1}",
            "{\"written\": {\"seconds\": 0.0}}",
        ] {
            assert!(MeasuredWrites::of_facts(text).is_err(), "{text}");
        }
    }
}

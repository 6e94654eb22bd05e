//! What the command needs to know of each source.

use ebbpool_capture::sources::device::DeviceSource;
use ebbpool_capture::sources::mysql::MysqlSource;
use ebbpool_capture::sources::postgres::{PostgresSettings, PostgresSource};
use ebbpool_capture::sources::sqlite::SqliteSource;
use ebbpool_capture::sources::system_calls::ProcessSource;
use ebbpool_capture::{CapturedTrace, Recorder, Source};
use serde::Serialize;
use serde_json::{Value, json};

/// A source that the command captures.
pub(super) trait Target: Source {
    /// The word for the source in the file of facts, which is also the server of `ebbpool advise`.
    const NAME: &'static str;

    /// What the capture will do, in a sentence.
    fn sentence(&self) -> String;

    /// The present size of the buffer, in pages.
    fn frames(&self) -> Option<u64> {
        None
    }

    /// The server's policy with its present settings, where the lab's own word for the server is not enough.
    fn policy(&self) -> Option<String> {
        None
    }

    /// Facts for the file beside the trace.
    fn facts(&self) -> Value;

    /// The trace, with the names of all objects if `names`.
    fn into_trace(self, recorder: Recorder, names: bool) -> CapturedTrace;
}

/// Facts about the target, and what the source counted.
fn facts_with(target: Value, counts: impl Serialize) -> Value {
    let mut facts = target;
    if let (Value::Object(facts), Ok(Value::Object(counts))) =
        (&mut facts, serde_json::to_value(counts))
    {
        facts.extend(counts);
    }
    facts
}

/// The lab's policy `postgres` with a server's settings, as far as these are not its defaults. Checkpoints are left to `ebbpool
/// advise`, which adds them to every policy.
fn postgres_policy(major: u32, settings: &PostgresSettings) -> String {
    const VACUUM_RING: u32 = 256;
    let multiplier = settings.bgwriter_lru_multiplier.map(|it| it.round() as u32);
    let vacuum = (major >= 17).then_some(VACUUM_RING);
    let parameters = [
        ("bgwriter_delay", settings.bgwriter_delay, 200),
        ("bgwriter_lru_maxpages", settings.bgwriter_lru_maxpages, 100),
        ("bgwriter_lru_multiplier", multiplier, 2),
        ("vacuum", vacuum, 32),
    ];
    let others = parameters.into_iter().filter_map(|(name, value, usual)| {
        let value = value.filter(|value| *value != usual)?;
        Some(format!("{name}={value}"))
    });
    let others: Vec<String> = others.collect();
    match others.is_empty() {
        true => "postgres".into(),
        false => format!("postgres:{}", others.join(",")),
    }
}

impl Target for PostgresSource {
    const NAME: &'static str = "postgresql";

    fn sentence(&self) -> String {
        self.description()
    }

    fn frames(&self) -> Option<u64> {
        Some(self.server.settings.shared_buffers)
    }

    fn policy(&self) -> Option<String> {
        Some(postgres_policy(self.server.major, &self.server.settings))
    }

    fn facts(&self) -> Value {
        let target = json!({
            "version": self.server.major,
            "data_directory": self.server.data,
            "process": self.process().0,
            "settings": self.server.settings,
            "policy": self.policy(),
            "frames": self.server.settings.shared_buffers,
        });
        facts_with(target, self.counts())
    }

    fn into_trace(self, recorder: Recorder, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for MysqlSource {
    const NAME: &'static str = "innodb";

    fn sentence(&self) -> String {
        self.description()
    }

    fn frames(&self) -> Option<u64> {
        self.server.frames
    }

    fn facts(&self) -> Value {
        let target = json!({
            "data_directory": self.server.data,
            "process": self.process().0,
            "frames": self.server.frames,
        });
        facts_with(target, self.counts())
    }

    fn into_trace(mut self, recorder: Recorder, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for SqliteSource {
    const NAME: &'static str = "sqlite";

    fn sentence(&self) -> String {
        self.description()
    }

    fn facts(&self) -> Value {
        facts_with(json!({ "process": self.process().0 }), self.counts())
    }

    fn into_trace(self, recorder: Recorder, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for ProcessSource {
    const NAME: &'static str = "other";

    fn sentence(&self) -> String {
        self.description()
    }

    fn facts(&self) -> Value {
        facts_with(json!({ "process": self.process().0 }), self.counts())
    }

    fn into_trace(self, recorder: Recorder, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for DeviceSource {
    const NAME: &'static str = "other";

    fn sentence(&self) -> String {
        self.description()
    }

    fn facts(&self) -> Value {
        facts_with(json!({}), self.counts())
    }

    fn into_trace(self, recorder: Recorder, _names: bool) -> CapturedTrace {
        self.trace(recorder)
    }
}

#[cfg(test)]
mod tests {
    use ebbpool_policy::PolicySpec;

    use super::*;

    #[test]
    fn settings_become_parameters_of_the_policy() {
        let usual = PostgresSettings {
            shared_buffers: 16384,
            bgwriter_delay: Some(200),
            bgwriter_lru_maxpages: Some(100),
            bgwriter_lru_multiplier: Some(2.0),
            ..PostgresSettings::default()
        };
        assert_eq!(postgres_policy(15, &usual), "postgres");
        let other = PostgresSettings {
            bgwriter_lru_maxpages: Some(0),
            bgwriter_lru_multiplier: Some(3.6),
            ..usual
        };
        let policy = postgres_policy(17, &other);
        assert_eq!(
            policy,
            "postgres:bgwriter_lru_maxpages=0,bgwriter_lru_multiplier=4,vacuum=256"
        );
        assert!(policy.parse::<PolicySpec>().is_ok());
    }
}

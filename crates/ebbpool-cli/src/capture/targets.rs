//! What the command needs to know of each source.

use ebbpool_capture::sources::device::DeviceSource;
use ebbpool_capture::sources::mysql::MysqlSource;
use ebbpool_capture::sources::postgres::PostgresSource;
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

impl Target for PostgresSource {
    const NAME: &'static str = "postgresql";

    fn sentence(&self) -> String {
        self.description()
    }

    fn frames(&self) -> Option<u64> {
        Some(self.server.settings.shared_buffers)
    }

    fn facts(&self) -> Value {
        let target = json!({
            "version": self.server.major,
            "data_directory": self.server.data,
            "process": self.process().0,
            "settings": self.server.settings,
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

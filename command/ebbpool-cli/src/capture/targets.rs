//! What the command needs to know of each source.

use ebbpool_capture::sources::device::DeviceSource;
use ebbpool_capture::sources::mysql::MysqlSource;
use ebbpool_capture::sources::postgres::{PostgresSettings, PostgresSource};
use ebbpool_capture::sources::sqlite::SqliteSource;
use ebbpool_capture::sources::system_calls::ProcessSource;
use ebbpool_capture::{CaptureBuffer, CaptureSource, CapturedTrace, End, WrittenBytes};
use ebbpool_lab::numbers::grouped;
use ebbpool_lab::{PolicySpec, SpecError};
use serde::Serialize;
use serde_json::{Value, json};

use crate::advise::args::ServerArg;

/// A source that the command captures.
pub(crate) trait Target: CaptureSource {
    /// The server whose buffer has the captured requests.
    const SERVER: ServerArg;

    /// What is to be done where nothing was requested.
    const NOTHING: &str = "start the load, or give more --seconds";

    /// What is to be done where events found no room.
    const MORE_ROOM: &str = "use a larger --ring";

    /// True if standard output is the command's own, and not the target's.
    const HAS_OUTPUT: bool = true;

    /// What the capture will do, in a sentence.
    fn sentence(&self) -> String;

    /// Which other programs pay for the capture, in sentences.
    fn others_that_pay(&self) -> Option<String> {
        None
    }

    /// What was there and was not seen, in a sentence; known after the capture.
    fn unseen(&self) -> Option<String> {
        None
    }

    /// Why the capture is to count as failed although its trace is written: it ended before it was to.
    fn failure(&self, _end: End) -> Option<String> {
        None
    }

    /// The present size of the buffer, in pages.
    fn frames(&self) -> Option<u64> {
        None
    }

    /// The server's policy with its present settings, where the lab's own word for the server is not enough. What was
    /// captured is known after the capture.
    ///
    /// # Errors
    ///
    /// If the lab's policy has no such settings.
    fn policy(&self, _captured: Option<&Captured>) -> Result<Option<PolicySpec>, SpecError> {
        Ok(None)
    }

    /// Facts for the file beside the trace. `policy` is that of [`policy`](Self::policy).
    fn facts(&self, captured: &Captured, policy: Option<&PolicySpec>) -> Value;

    /// The trace, with the names of all objects if `names`.
    fn into_trace(self, recorder: CaptureBuffer, names: bool) -> CapturedTrace;
}

/// What a capture says of the server's settings.
pub(crate) struct Captured<'a> {
    /// References, without those for pages that the buffer had.
    pub(crate) references: u64,
    /// What was written meanwhile.
    pub(crate) written: &'a WrittenBytes,
}

/// Facts about the target, and what the source counted.
pub(crate) fn facts_with(target: Value, counts: impl Serialize) -> Value {
    let mut facts = target;
    if let (Value::Object(facts), Ok(Value::Object(counts))) = (&mut facts, serde_json::to_value(counts)) {
        facts.extend(counts);
    }
    facts
}

/// The seconds between two checkpoints of a server: its timeout, or the time in which the log grows by what its size allows
/// (`CalculateCheckpointSegments`), if that is known and shorter.
fn checkpoint_seconds(settings: &PostgresSettings, written: Option<&WrittenBytes>) -> Option<u64> {
    const MEGABYTE: f64 = (1 << 20) as f64;
    const USUAL_TARGET: f64 = 0.9;
    // A server's longest checkpoint_timeout.
    const MOST_SECONDS: u64 = 86_400;
    let timeout = settings.checkpoint_timeout.map(u64::from);
    let target = settings.checkpoint_completion_target.unwrap_or(USUAL_TARGET);
    let by_log = written.and_then(|written| {
        let rate = written.log_bytes.filter(|bytes| *bytes > 0)? as f64 / written.seconds;
        let grows = f64::from(settings.max_wal_size?) * MEGABYTE / (1.0 + target);
        Some(((grows / rate) as u64).clamp(1, MOST_SECONDS))
    });
    timeout.into_iter().chain(by_log).min()
}

/// The lab's policy `postgres` with a server's settings, as far as these are not its defaults, and with its checkpoints, which
/// `ebbpool advise` charges to every policy.
pub(super) fn postgres_policy(
    major: u32,
    settings: &PostgresSettings,
    written: Option<&WrittenBytes>,
) -> Result<PolicySpec, SpecError> {
    const VACUUM_RING: u64 = 256;
    let multiplier = settings.bgwriter_lru_multiplier.map(|it| it.round() as u64);
    let vacuum = (major >= 17).then_some(VACUUM_RING);
    let parameters = [
        ("bgwriter_delay", settings.bgwriter_delay.map(u64::from), 200),
        ("bgwriter_lru_maxpages", settings.bgwriter_lru_maxpages.map(u64::from), 100),
        ("bgwriter_lru_multiplier", multiplier, 2),
        ("vacuum", vacuum, 32),
        ("checkpoint_timeout", checkpoint_seconds(settings, written), 0),
    ];
    let others = parameters.into_iter().filter_map(|(name, value, usual)| {
        let value = value.filter(|value| *value != usual)?;
        Some(format!("{name}={value}"))
    });
    let others: Vec<String> = others.collect();
    match others.is_empty() {
        true => "postgres".parse(),
        false => format!("postgres:{}", others.join(",")).parse(),
    }
}

/// Facts about a server of this version with these settings: its data directory and process, and what was captured of it.
pub(super) fn postgres_facts(
    (major, settings): (u32, &PostgresSettings),
    (data, process): (&str, Option<i32>),
    (captured, policy): (&Captured, Option<&PolicySpec>),
    counts: impl Serialize,
) -> Value {
    let target = json!({
        "version": major,
        "data_directory": data,
        "process": process,
        "settings": settings,
        "policy": policy.map(PolicySpec::to_string),
        "checkpoint_seconds": checkpoint_seconds(settings, Some(captured.written)),
        "frames": settings.shared_buffers,
    });
    facts_with(target, counts)
}

/// The lab's policy `sqlite` with the commits of a program, evenly spread over its references; `None` if there was none.
pub(crate) fn sqlite_policy(commits: u64, references: u64) -> Result<Option<PolicySpec>, SpecError> {
    let between = references.checked_div(commits);
    let spec = between.map(|between| format!("sqlite:commit={}", between.max(1)).parse());
    spec.transpose()
}

impl Target for PostgresSource {
    const SERVER: ServerArg = ServerArg::Postgresql;

    fn sentence(&self) -> String {
        self.description()
    }

    fn others_that_pay(&self) -> Option<String> {
        let others = Some(self.others().len()).filter(|others| *others > 0)?;
        Some(format!(
            "{others} processes of other servers run the same file: they pay for a trap at each of their requests while the capture runs, which counts for --at-most"
        ))
    }

    fn frames(&self) -> Option<u64> {
        Some(self.server.settings.shared_buffers)
    }

    fn policy(&self, captured: Option<&Captured>) -> Result<Option<PolicySpec>, SpecError> {
        let written = captured.map(|captured| captured.written);
        let server = &self.server;
        postgres_policy(server.major, &server.settings, written).map(Some)
    }

    fn facts(&self, captured: &Captured, policy: Option<&PolicySpec>) -> Value {
        let server = &self.server;
        let of_process = (server.data.as_str(), Some(self.process().0));
        postgres_facts((server.major, &server.settings), of_process, (captured, policy), self.counts())
    }

    fn into_trace(self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for MysqlSource {
    const SERVER: ServerArg = ServerArg::Innodb;

    fn sentence(&self) -> String {
        self.description()
    }

    fn frames(&self) -> Option<u64> {
        self.server.frames
    }

    fn facts(&self, _captured: &Captured, _policy: Option<&PolicySpec>) -> Value {
        let target = json!({
            "data_directory": self.server.data,
            "process": self.process().0,
            "frames": self.server.frames,
        });
        facts_with(target, self.counts())
    }

    fn into_trace(mut self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for SqliteSource {
    const SERVER: ServerArg = ServerArg::Sqlite;

    fn sentence(&self) -> String {
        self.description()
    }

    fn unseen(&self) -> Option<String> {
        let others = Some(self.other_libraries().len()).filter(|others| *others > 0)?;
        Some(format!(
            "the process has SQLite {} times, and the trace what went by the first: `ebbpool capture process` sees what all read and write",
            others + 1
        ))
    }

    fn policy(&self, captured: Option<&Captured>) -> Result<Option<PolicySpec>, SpecError> {
        let references = captured.map_or(0, |captured| captured.references);
        let commits = captured.map_or(0, |_| self.counts().commits);
        sqlite_policy(commits, references)
    }

    fn facts(&self, _captured: &Captured, policy: Option<&PolicySpec>) -> Value {
        let target = json!({
            "process": self.process().0,
            "policy": policy.map(PolicySpec::to_string),
            "other_libraries": self.other_libraries().len(),
        });
        facts_with(target, self.counts())
    }

    fn into_trace(mut self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for ProcessSource {
    const SERVER: ServerArg = ServerArg::Other;

    fn sentence(&self) -> String {
        self.description()
    }

    fn unseen(&self) -> Option<String> {
        let counts = self.counts();
        let unseen = (counts.unseen > 0).then(|| {
            format!(
                "{} requests are not in the trace, since their bytes cannot be seen: sendfile, copy_file_range, splice, io_submit, registered files of io_uring, and 32-bit system calls",
                grouped(counts.unseen)
            )
        });
        let mapped = (counts.mapped > 0).then(|| {
            format!(
                "what is written to {} files by way of memory is not in the trace: the processes have mapped them",
                counts.mapped
            )
        });
        let made_up = (counts.made_up > 0).then(|| {
            format!("{} requests of files that the kernel makes up (/proc, /sys) are not in the trace", grouped(counts.made_up))
        });
        let more = counts.has_more_processes.then(|| "processes beyond the first 16,384 are not in the trace".into());
        let all: Vec<String> = [unseen, mapped, made_up, more].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn facts(&self, _captured: &Captured, _policy: Option<&PolicySpec>) -> Value {
        facts_with(json!({ "process": self.process().0 }), self.counts())
    }

    fn into_trace(self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        self.trace(recorder, names)
    }
}

impl Target for DeviceSource {
    const SERVER: ServerArg = ServerArg::Other;

    fn sentence(&self) -> String {
        self.description()
    }

    fn facts(&self, _captured: &Captured, _policy: Option<&PolicySpec>) -> Value {
        facts_with(json!({}), self.counts())
    }

    fn into_trace(self, recorder: CaptureBuffer, _names: bool) -> CapturedTrace {
        self.trace(recorder)
    }
}

#[cfg(test)]
mod tests {
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
        let policy = |major, settings| {
            let policy = postgres_policy(major, settings, None);
            policy.map(|policy| policy.to_string())
        };
        assert_eq!(policy(15, &usual), Ok("postgres".into()));
        let other = PostgresSettings {
            bgwriter_lru_maxpages: Some(0),
            bgwriter_lru_multiplier: Some(3.6),
            checkpoint_timeout: Some(30),
            ..usual
        };
        let spelled = "postgres:vacuum=256,bgwriter_lru_maxpages=0,bgwriter_lru_multiplier=4,checkpoint_timeout=30";
        assert_eq!(policy(17, &other), Ok(spelled.into()));
        // No server has it, and the lab says which parameter it is.
        let wrong = PostgresSettings { bgwriter_delay: Some(5), ..usual };
        assert!(policy(17, &wrong).is_err_and(|error| error.to_string().contains("bgwriter_delay")));
    }

    #[test]
    fn a_log_that_grows_fast_makes_checkpoints_earlier() {
        let settings = PostgresSettings {
            checkpoint_timeout: Some(300),
            checkpoint_completion_target: Some(0.5),
            max_wal_size: Some(1536),
            ..PostgresSettings::default()
        };
        let written =
            |log_bytes| WrittenBytes { seconds: 10.0, page_bytes: None, log_bytes, process_bytes: None, device: None };
        let seconds = |log_bytes| checkpoint_seconds(&settings, Some(&written(log_bytes)));
        // 1 GiB of log between two checkpoints, at 10 MiB and at 1 MiB a second.
        assert_eq!(seconds(Some(100 << 20)), Some(102));
        assert_eq!(seconds(Some(10 << 20)), Some(300));
        assert_eq!(seconds(Some(1 << 50)), Some(1));
        let unread = PostgresSettings { checkpoint_timeout: None, ..settings };
        let slow = checkpoint_seconds(&unread, Some(&written(Some(1))));
        assert_eq!(slow, Some(86_400));
        assert_eq!((seconds(Some(0)), seconds(None)), (Some(300), Some(300)));
        assert_eq!(checkpoint_seconds(&settings, None), Some(300));
        assert_eq!(checkpoint_seconds(&PostgresSettings::default(), None), None);
    }

    #[test]
    fn commits_are_spread_over_the_references() {
        let policy = |commits, references| {
            let policy = sqlite_policy(commits, references).expect("a policy");
            policy.map(|policy| policy.to_string())
        };
        assert_eq!(policy(10, 705).as_deref(), Some("sqlite:commit=70"));
        assert_eq!(policy(10, 3).as_deref(), Some("sqlite:commit=1"));
        assert_eq!(policy(0, 3), None);
    }
}

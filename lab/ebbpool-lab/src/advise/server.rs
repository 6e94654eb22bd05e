//! The programs whose buffers operators ask about: their policy, their default memory, and their settings.

use ebbpool_cost::ByteSize;
use schemars::JsonSchema;
use serde::Serialize;

/// The program that made the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServerKind {
    /// PostgreSQL.
    Postgresql,
    /// MariaDB's or MySQL's InnoDB.
    Innodb,
    /// SQLite.
    Sqlite,
    /// Another one.
    Other,
}

/// Beginnings of words in the names of traces that suggest a server.
const WORDS: [(&str, ServerKind); 6] = [
    ("pg", ServerKind::Postgresql),
    ("postgres", ServerKind::Postgresql),
    ("innodb", ServerKind::Innodb),
    ("mysql", ServerKind::Innodb),
    ("mariadb", ServerKind::Innodb),
    ("sqlite", ServerKind::Sqlite),
];

impl ServerKind {
    /// The server that a trace's name suggests: a word of the name is, or begins with, a word for the server.
    /// `pg` must be the whole word.
    pub fn guess_from_trace_name(name: &str) -> Self {
        let name = name.to_lowercase();
        let words = name.split(|letter: char| !letter.is_alphanumeric());
        let server = |word: &str| {
            let fits = |(start, _): &&(&str, ServerKind)| match start.len() {
                2 => word == *start,
                _ => word.starts_with(start),
            };
            WORDS.iter().find(fits).map(|(_, server)| *server)
        };
        words.filter_map(server).next().unwrap_or(ServerKind::Other)
    }

    /// The name in sentences; `None` for a server that is not known.
    pub fn name(self) -> Option<&'static str> {
        match self {
            ServerKind::Postgresql => Some("PostgreSQL"),
            ServerKind::Innodb => Some("InnoDB"),
            ServerKind::Sqlite => Some("SQLite"),
            ServerKind::Other => None,
        }
    }

    /// The server's own policy; LRU where it is not known.
    pub fn policy(self) -> &'static str {
        match self {
            ServerKind::Postgresql => "postgres",
            ServerKind::Innodb => "innodb",
            ServerKind::Sqlite => "sqlite",
            ServerKind::Other => "lru",
        }
    }

    /// The buffer of a server whose settings are unchanged: 128 MB of `shared_buffers` (PostgreSQL's
    /// documentation, 19.4.1) and of `innodb_buffer_pool_size` (MySQL's, 17.14), 2,000 KiB of `cache_size` (SQLite's
    /// documentation of PRAGMAs).
    pub(crate) fn default_memory(self) -> Option<ByteSize> {
        match self {
            ServerKind::Postgresql | ServerKind::Innodb => Some(ByteSize::new(128 << 20)),
            ServerKind::Sqlite => Some(ByteSize::new(2000 << 10)),
            ServerKind::Other => None,
        }
    }

    /// The setting for the size of the buffer.
    pub(crate) fn size_setting(self) -> &'static str {
        match self {
            ServerKind::Postgresql => "shared_buffers",
            ServerKind::Innodb => "innodb_buffer_pool_size",
            ServerKind::Sqlite => "cache_size",
            ServerKind::Other => "buffer size",
        }
    }

    /// A size as the server's setting spells it.
    pub(crate) fn size_value(self, frames: u64, page_size: Option<u64>) -> String {
        let bytes = page_size.map(|size| frames.saturating_mul(size));
        match (self, bytes) {
            (ServerKind::Postgresql, Some(bytes)) if bytes.is_multiple_of(1 << 20) => {
                format!("{}MB", bytes >> 20)
            }
            (ServerKind::Postgresql, Some(bytes)) => format!("{}kB", bytes >> 10),
            (ServerKind::Innodb, Some(bytes)) => bytes.to_string(),
            (ServerKind::Sqlite, _) => format!("{frames} pages"),
            (ServerKind::Other, Some(bytes)) => ByteSize::new(bytes).to_string(),
            (_, None) => format!("{frames} frames"),
        }
    }

    /// The setting for the time between two checkpoints, which write all dirty pages.
    pub(crate) fn checkpoint_setting(self) -> Option<&'static str> {
        match self {
            ServerKind::Postgresql => Some("checkpoint_timeout"),
            ServerKind::Innodb | ServerKind::Sqlite | ServerKind::Other => None,
        }
    }

    /// Other settings, and why they have no figures.
    pub(crate) fn other_settings(self) -> &'static [(&'static str, &'static str)] {
        const NO_MODEL: &str = "not simulated: the lab has no model of it";
        match self {
            ServerKind::Postgresql => &[(
                "bgwriter_lru_maxpages",
                "simulated as postgres has it (default 100) where the trace has times: it can only add writes, of pages before they are evicted; 0 turns it off",
            )],
            ServerKind::Innodb => &[
                (
                    "innodb_max_dirty_pages_pct",
                    "simulated as innodb has it (default 90): the policy writes the oldest changes above it",
                ),
                ("innodb_io_capacity", NO_MODEL),
            ],
            ServerKind::Sqlite => &[(
                "wal_autocheckpoint",
                "not simulated: the trace has no transactions, so the lab cannot place the checkpoints",
            )],
            ServerKind::Other => &[(
                "buffer size",
                "this is shared_buffers in PostgreSQL, innodb_buffer_pool_size in InnoDB, and cache_size in SQLite",
            )],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_traces_suggest_servers() {
        for (name, server) in [
            ("pg-tpcc", ServerKind::Postgresql),
            ("traces/pg-tatp.parquet", ServerKind::Postgresql),
            ("postgres15_orders", ServerKind::Postgresql),
            ("MariaDB-sysbench", ServerKind::Innodb),
            ("sqlite3 browser", ServerKind::Sqlite),
            ("upgrade.txt", ServerKind::Other),
            ("zipf:pages=100,refs=200", ServerKind::Other),
            ("", ServerKind::Other),
        ] {
            assert_eq!(ServerKind::guess_from_trace_name(name), server, "{name}");
        }
    }

    #[test]
    fn a_size_is_spelled_as_the_setting_takes_it() {
        let value = |server: ServerKind, frames| server.size_value(frames, Some(8192));
        assert_eq!(value(ServerKind::Postgresql, 16384), "128MB");
        assert_eq!(value(ServerKind::Postgresql, 100), "800kB");
        assert_eq!(value(ServerKind::Innodb, 2), "16384");
        assert_eq!(value(ServerKind::Sqlite, 500), "500 pages");
        assert_eq!(value(ServerKind::Other, 128), "1 MiB");
        assert_eq!(ServerKind::Other.size_value(7, None), "7 frames");
    }
}

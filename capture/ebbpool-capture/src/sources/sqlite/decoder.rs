//! From SQLite's events to references.

use hashbrown::HashMap;
use serde::Serialize;

use super::programs::kind;
use crate::event::PageEvent;
use crate::recorder::CaptureBuffer;

/// What was captured, besides references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SqliteCounts {
    /// Requests; SQLite counts the same as hits and misses.
    pub requests: u64,
    /// Requested pages that became dirty, each once for each request.
    pub writes: u64,
    /// Transactions that wrote, in temporary databases too.
    pub commits: u64,
    /// Pages that became dirty without a request in the capture: a reference each.
    pub unrequested: u64,
    /// Bytes that were written to databases.
    pub database_bytes: u64,
    /// Bytes that were written to logs (`-wal`) and journals.
    pub log_bytes: u64,
    /// Bytes that were written to other files, such as temporary ones.
    pub other_bytes: u64,
}

/// What a file of SQLite is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRole {
    Database,
    Log,
    Other,
}

impl FileRole {
    /// The role of the file with this path; files without one are temporary.
    pub(super) fn of_path(path: Option<&str>) -> FileRole {
        let Some(path) = path.filter(|path| path.starts_with('/')) else {
            return FileRole::Other;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        // A journal of several databases ends with -mj and digits.
        if name.ends_with("-wal") || name.ends_with("-journal") || name.contains("-mj") {
            return FileRole::Log;
        }
        match name.starts_with("etilqs_") {
            true => FileRole::Other,
            false => FileRole::Database,
        }
    }
}

/// The most pagers that are open at the same time; a process that lies about its own may name any number.
const MOST_PAGERS: usize = 1 << 16;

/// Decodes events in the order in which they happened.
#[derive(Debug, Default)]
pub struct SqliteDecoder {
    /// The database of each pager. Every connection has pagers, and several may have the same database.
    databases: HashMap<u64, u32>,
    /// By pager, the position of the latest request of a page.
    latest: HashMap<u64, HashMap<u32, usize>>,
    /// What the events were so far.
    pub counts: SqliteCounts,
}

/// The address of the pager of an event.
pub(super) fn pager(event: &PageEvent) -> u64 {
    u64::from(event.object[0]) | u64::from(event.object[1]) << 32
}

impl SqliteDecoder {
    /// The database of the pager at that address has that number.
    pub fn set_database(&mut self, pager: u64, database: u32) {
        if self.databases.len() >= MOST_PAGERS && !self.knows(pager) {
            self.forget_all();
        }
        if self.databases.insert(pager, database) != Some(database) {
            // The address has another pager now.
            self.latest.remove(&pager);
        }
    }

    /// The pager at that address has ended, or begins: what comes is of another one.
    pub fn forget(&mut self, pager: u64) {
        if self.databases.remove(&pager).is_some() {
            self.latest.remove(&pager);
        }
    }

    /// Any pager may have ended.
    pub fn forget_all(&mut self) {
        self.databases.clear();
        self.latest.clear();
    }

    /// True if the database of the pager is known.
    pub fn knows(&self, pager: u64) -> bool {
        self.databases.contains_key(&pager)
    }

    /// The pagers whose databases are known.
    pub fn pagers(&self) -> Vec<u64> {
        self.databases.keys().copied().collect()
    }

    /// Takes an event and records the references that it stands for.
    pub fn record(&mut self, event: &PageEvent, recorder: &mut CaptureBuffer) {
        let pager = pager(event);
        let database = self.databases.get(&pager).copied().unwrap_or_default();
        // Pages are numbered from 1.
        let page = event.page;
        if event.kind == kind::COMMIT {
            self.counts.commits += 1;
            return;
        }
        let latest = self.latest.entry(pager).or_default();
        let index = u64::from(event.page.saturating_sub(1));
        match event.kind {
            kind::READ => {
                self.counts.requests += 1;
                let object = recorder.object([database, 0, 0, 0]);
                if let Some(position) = recorder.reference(object, index, false, 0) {
                    latest.insert(page, position);
                }
            }
            kind::DIRTY => match latest.get(&page) {
                Some(&position) => {
                    let writes = recorder.writes();
                    recorder.mark_written(position);
                    self.counts.writes += recorder.writes() - writes;
                }
                None => {
                    self.counts.unrequested += 1;
                    let object = recorder.object([database, 0, 0, 0]);
                    if let Some(position) = recorder.reference(object, index, true, 0) {
                        latest.insert(page, position);
                    }
                }
            },
            _ => {}
        }
    }

    /// Counts bytes that were written to a file.
    pub(super) fn write(&mut self, role: FileRole, bytes: u32) {
        let counter = match role {
            FileRole::Database => &mut self.counts.database_bytes,
            FileRole::Log => &mut self.counts.log_bytes,
            FileRole::Other => &mut self.counts.other_bytes,
        };
        *counter += u64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_kind: u32, pager: u64, page: u32) -> PageEvent {
        PageEvent { kind: event_kind, object: [pager as u32, (pager >> 32) as u32, 0, 0], page, ..PageEvent::default() }
    }

    #[test]
    fn a_write_marks_the_latest_request_of_the_page_by_its_pager() {
        let (mut decoder, mut recorder) = (SqliteDecoder::default(), CaptureBuffer::default());
        const ONE: u64 = 0x7f00_0000_1000;
        const OTHER: u64 = 0x7f00_0000_2000;
        decoder.set_database(ONE, 1);
        decoder.set_database(OTHER, 1);
        for event in [
            event(kind::READ, ONE, 1),
            event(kind::READ, OTHER, 1),
            event(kind::DIRTY, ONE, 1),
            event(kind::DIRTY, ONE, 1),
            event(kind::DIRTY, ONE, 7),
            event(kind::COMMIT, ONE, 0),
            event(99, ONE, 1),
            event(kind::READ, ONE, 0),
        ] {
            decoder.record(&event, &mut recorder);
        }
        let expected = SqliteCounts { requests: 3, writes: 1, commits: 1, unrequested: 1, ..SqliteCounts::default() };
        assert_eq!(decoder.counts, expected);
        let found: Vec<(u64, bool)> = recorder.references.iter().map(|it| (it.page(), it.is_write())).collect();
        assert_eq!(found, [(0, true), (0, false), (6, true), (0, false)]);
        assert_eq!(recorder.objects.len(), 1);
    }

    #[test]
    fn written_bytes_are_divided_by_the_files_names() {
        let mut decoder = SqliteDecoder::default();
        for (path, bytes) in [
            (Some("/srv/shop.db"), 1),
            (Some("/srv/shop.db-wal"), 10),
            (Some("/srv/shop.db-journal"), 100),
            (Some("/srv/shop.db-mjF00D9"), 1000),
            (Some("/var/tmp/etilqs_4f5a"), 10_000),
            (Some("no path"), 100_000),
            (None, 1_000_000),
        ] {
            decoder.write(FileRole::of_path(path), bytes);
        }
        let counts = decoder.counts;
        assert_eq!((counts.database_bytes, counts.log_bytes, counts.other_bytes), (1, 1110, 1_110_000));
    }

    #[test]
    fn a_pager_at_the_address_of_another_one_has_requests_of_its_own() {
        let (mut decoder, mut recorder) = (SqliteDecoder::default(), CaptureBuffer::default());
        decoder.set_database(8, 1);
        decoder.record(&event(kind::READ, 8, 2), &mut recorder);
        decoder.set_database(8, 2);
        decoder.record(&event(kind::DIRTY, 8, 2), &mut recorder);
        assert_eq!(decoder.counts.unrequested, 1);
        assert_eq!(recorder.objects[1].key, [2, 0, 0, 0]);
        assert!(decoder.knows(8) && !decoder.knows(9));
        assert_eq!(decoder.pagers(), [8]);
        // The connection closes, and the next one is at the same address and has the same database.
        decoder.forget(8);
        assert!(!decoder.knows(8));
        // The event of an end is lost.
        decoder.set_database(8, 1);
        decoder.record(&event(kind::READ, 8, 2), &mut recorder);
        decoder.forget_all();
        assert!(!decoder.knows(8) && decoder.latest.is_empty());
        for pager in 0..2 * MOST_PAGERS as u64 {
            decoder.set_database(pager << 4, 2);
            decoder.record(&event(kind::COMMIT, pager, 0), &mut recorder);
            assert!(decoder.databases.len() <= MOST_PAGERS && decoder.latest.len() <= MOST_PAGERS);
        }
        decoder.set_database(8, 2);
        decoder.record(&event(kind::DIRTY, 8, 2), &mut recorder);
        assert_eq!(decoder.counts.unrequested, 2);
    }
}

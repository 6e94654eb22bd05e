//! The files beside a database of SQLite's, and its header.
//!
//! Elsewhere than on Linux nothing reads them without SQLite, and the targets accept everything.

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    pub(crate) fn log(_: &[u8]) {}
    pub(crate) fn files(_: &[u8]) {}
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;

#[cfg(target_os = "linux")]
pub(crate) use on_linux::*;

#[cfg(target_os = "linux")]
mod on_linux {
    use std::fs;
    use std::path::Path;

    use ebbpool_sqlite::inspect::{LogFit, SqliteHeader, beside, check_bytes_of_log, inspect, sealed_log, write_recovered};

    /// Bytes of the input that are the begin of the database; the log follows.
    const FIRST: usize = 128;
    /// A copy is made only where the epochs make the database no larger than this, in bytes.
    const MOST_BYTES: u64 = 1 << 22;

    /// A log of deltas, as it is and with checksums that are right: its summary agrees with its bytes, and the part that it
    /// says is used has the same summary.
    pub(crate) fn log(input: &[u8]) {
        let (first, bytes) = input.split_at(input.len().min(FIRST));
        for bytes in [bytes.to_vec(), sealed_log(bytes)] {
            let summary = check_bytes_of_log(&bytes, first);
            assert!(summary.used_bytes <= bytes.len() as u64);
            assert_eq!(summary.has_header, summary.used_bytes >= 64);
            match summary.fit {
                LogFit::Fits | LogFit::NotMarked => assert!(summary.epochs > 0),
                LogFit::NoEpochs => assert_eq!(summary.epochs, 0),
                LogFit::Damaged | LogFit::Foreign | LogFit::LaterVersion(_) => {
                    assert!(!summary.has_header);
                }
                LogFit::OtherDatabase => assert!(summary.has_header),
            }
            assert_eq!(summary.epochs > 0, summary.pages > 0);
            if summary.has_header {
                let used = check_bytes_of_log(&bytes[..summary.used_bytes as usize], first);
                assert_eq!(used.epochs, summary.epochs);
                assert_eq!(used.fit, summary.fit);
                assert_eq!(used.changed_pages, summary.changed_pages);
            }
        }
    }

    /// A database, its `-ebb` and its `-wal`, cut from the input by the first two bytes of it: they are inspected, and
    /// copied as recovery would leave them, without a panic, and the copy has no mark.
    pub(crate) fn files(input: &[u8]) {
        let Some((cuts, rest)) = input.split_at_checked(2) else {
            return;
        };
        let (database, rest) = rest.split_at(rest.len().min(usize::from(cuts[0]) * 16));
        let (wal, log) = rest.split_at(rest.len().min(usize::from(cuts[1]) * 16));
        if let Some(header) = SqliteHeader::decode(database) {
            assert!(header.page_size.is_power_of_two());
        }
        let Ok(directory) = tempfile::tempdir() else {
            return;
        };
        let path = directory.path().join("x.db");
        let log = sealed_log(log);
        let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).is_ok();
        if !write(&path, database) || !write(&beside(&path, "-wal"), wal) || !write(&beside(&path, "-ebb"), &log) {
            return;
        }
        let Ok(inspection) = inspect(&path) else {
            panic!("files that exist are not read");
        };
        inspection.findings();
        let summary = inspection.log.as_ref();
        let bytes = summary.map_or(0, |log| u64::from(log.pages) * u64::from(log.page_size));
        let is_marked = inspection.header.as_ref().is_some_and(|header| header.is_marked);
        let copy = directory.path().join("copy.db");
        if bytes <= MOST_BYTES
            && write_recovered(&inspection, &copy).is_ok()
            && is_marked
            && let Ok(copied) = inspect(&copy)
        {
            assert!(!copied.header.is_some_and(|header| header.is_marked));
        }
    }
}

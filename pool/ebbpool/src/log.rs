//! The write-ahead rule: a page is written only after its log records are durable.

use std::io;

/// A position in a log. Later changes have larger ones; 0 stands for none.
pub type Lsn = u64;

/// A write-ahead log, as far as a pool needs it.
///
/// A page carries the position of its latest change ([`WriteGuard::set_lsn`](crate::WriteGuard::set_lsn)). Before the
/// pool writes the page, it makes the log durable up to there (the write-ahead rule: Mohan et al. 1992, section 2).
pub trait Log: Send + Sync {
    /// The position up to which all changes, inclusive, survive a crash.
    fn durable_lsn(&self) -> Lsn;

    /// Makes all changes up to `lsn`, inclusive, survive a crash.
    ///
    /// # Errors
    ///
    /// If the log cannot be made durable: then the pool does not write the page.
    fn force(&self, lsn: Lsn) -> io::Result<()>;

    /// The position of the latest change so far, durable or not; 0 if there is none yet. A checkpoint begins there, and a page that is ahead
    /// of it is damaged: its log has lost its end.
    fn end_lsn(&self) -> Lsn;
}

/// For pools without a log: every change counts as logged and durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn durable_lsn(&self) -> Lsn {
        Lsn::MAX
    }

    fn force(&self, _lsn: Lsn) -> io::Result<()> {
        Ok(())
    }

    /// No change is ahead of it. A log that has no record yet ends at 0.
    fn end_lsn(&self) -> Lsn {
        Lsn::MAX
    }
}

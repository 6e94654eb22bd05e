//! The write-ahead rule: a page is never written before its log is.

use std::io;

/// A position in a log. Later changes have larger ones; 0 stands for none.
pub type Lsn = u64;

/// A write-ahead log, as far as a pool has to know it.
///
/// A page carries the position of its latest change
/// ([`WriteGuard::set_lsn`](crate::WriteGuard::set_lsn)). Before the pool writes it, it sees to it
/// that the log is durable up to there (the write-ahead rule: Mohan et al. 1992, section 2).
pub trait Log: Send + Sync {
    /// All changes up to this one, inclusive, survive a crash.
    fn durable_lsn(&self) -> Lsn;

    /// Makes all changes up to `lsn`, inclusive, survive a crash.
    ///
    /// # Errors
    ///
    /// Then the pool does not write the page.
    fn force(&self, lsn: Lsn) -> io::Result<()>;

    /// The position of the latest change so far, durable or not. A checkpoint begins there.
    fn end_lsn(&self) -> Lsn;
}

/// For pools without a log: every change counts as logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn durable_lsn(&self) -> Lsn {
        Lsn::MAX
    }

    fn force(&self, _lsn: Lsn) -> io::Result<()> {
        Ok(())
    }

    fn end_lsn(&self) -> Lsn {
        0
    }
}

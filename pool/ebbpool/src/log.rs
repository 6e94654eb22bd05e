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

    /// The position of the latest change so far, durable or not. A checkpoint begins there.
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

    fn end_lsn(&self) -> Lsn {
        0
    }
}

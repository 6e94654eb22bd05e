//! The reference string of a running pool.

use ebbpool_policy::Access;

use crate::sync::Mutex;

/// The caller's function that receives each fix: the page, and whether it is fixed for writing.
pub(crate) type FixSink = Box<dyn FnMut(u64, bool) + Send>;

pub(crate) struct Recorder(Mutex<FixSink>);

impl Recorder {
    pub(crate) fn new(sink: FixSink) -> Self {
        Recorder(Mutex::new(sink))
    }

    pub(crate) fn note(&self, page: u64, access: Access) {
        (self.0.lock())(page, access.is_write());
    }
}

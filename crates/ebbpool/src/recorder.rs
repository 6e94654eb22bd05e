//! The reference string of a running pool.

use ebbpool_policy::Access;

use crate::sync::Mutex;

/// Somebody who is told of fixes: the page, and whether for writing.
pub(crate) type Sink = Box<dyn FnMut(u64, bool) + Send>;

pub(crate) struct Recorder(Mutex<Sink>);

impl Recorder {
    pub(crate) fn new(sink: Sink) -> Self {
        Recorder(Mutex::new(sink))
    }

    pub(crate) fn note(&self, page: u64, access: Access) {
        (self.0.lock())(page, access.is_write());
    }
}

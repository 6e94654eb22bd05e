//! The reference string of a running pool.

use ebbpool_policy::{Access, PageClass};

use crate::sync::Mutex;

/// The caller's function that receives each fix: the page, whether it is fixed for writing, and its class.
pub(crate) type FixSink = Box<dyn FnMut(u64, bool, PageClass) + Send>;

pub(crate) struct FixCallback(Mutex<FixSink>);

impl FixCallback {
    pub(crate) fn new(sink: FixSink) -> Self {
        FixCallback(Mutex::new(sink))
    }

    pub(crate) fn note(&self, (page, class): (u64, PageClass), access: Access) {
        (self.0.lock())(page, access.is_write(), class);
    }
}

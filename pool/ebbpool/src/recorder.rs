//! The reference string of a running pool.

use ebbpool_policy::{Access, PageClass};

use crate::callback::Callback;
use crate::error::PoolError;
use crate::sync::Mutex;

/// The caller's function that receives each fix: the page, whether it is fixed for writing, and its class.
pub(crate) type FixSink = Box<dyn FnMut(u64, bool, PageClass) + Send>;

pub(crate) struct FixCallback {
    sink: Mutex<FixSink>,
    callback: Callback,
}

impl FixCallback {
    pub(crate) fn new(sink: FixSink) -> Self {
        FixCallback { sink: Mutex::new(sink), callback: Callback::default() }
    }

    /// An error if the calling thread is in the sink.
    pub(crate) fn check(&self) -> Result<(), PoolError> {
        self.callback.check()
    }

    pub(crate) fn note(&self, (page, class): (u64, PageClass), access: Access) -> Result<(), PoolError> {
        self.callback.check()?;
        let mut sink = self.sink.lock();
        self.callback.run(|| sink(page, access.is_write(), class));
        Ok(())
    }
}

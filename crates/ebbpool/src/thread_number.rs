//! Small numbers for the threads of the process, so that what belongs to a thread is found without a search.

#[cfg(not(feature = "simulation"))]
mod leased;

#[cfg(not(feature = "simulation"))]
pub(crate) use leased::{get, known};

/// In a simulation, that of the simulated thread: those of the machine's threads differ from run to run.
#[cfg(feature = "simulation")]
pub(crate) fn known() -> usize {
    ebbpool_simulation::thread_number().unwrap_or(usize::MAX)
}

#[cfg(feature = "simulation")]
pub(crate) fn get() -> Option<usize> {
    ebbpool_simulation::thread_number()
}

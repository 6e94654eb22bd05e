//! Small numbers for the threads of the process, so that data that belongs to a thread is found by index.

#[cfg(not(feature = "simulation"))]
mod leased;

#[cfg(not(feature = "simulation"))]
pub(crate) use leased::{current, get};

/// In a simulation, the number of the simulated thread: the numbers of the machine's threads differ from run to run.
#[cfg(feature = "simulation")]
pub(crate) fn current() -> usize {
    ebbpool_simulation::thread_number().unwrap_or(usize::MAX)
}

#[cfg(feature = "simulation")]
pub(crate) fn get() -> Option<usize> {
    ebbpool_simulation::thread_number()
}

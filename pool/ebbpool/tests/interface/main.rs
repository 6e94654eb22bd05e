//! What a pool does, by its public interface.

mod classes;
mod files;
mod fixes;
mod hits;
mod promises;
mod resize;
mod simulator;
mod storage_file;
mod storage_object;
mod storage_simulated;
mod thread_locals;
mod threads;

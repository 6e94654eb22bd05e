//! Checkpoints: the log becomes shorter.

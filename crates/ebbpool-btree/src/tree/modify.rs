//! Putting and removing keys.

//! Key after key.

//! Ways from the root to a leaf.

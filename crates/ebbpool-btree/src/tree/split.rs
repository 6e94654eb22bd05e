//! Nodes that are full are split.

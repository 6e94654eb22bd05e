//! Nodes that became too empty are merged with a neighbour.

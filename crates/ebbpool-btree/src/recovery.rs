//! What follows a crash: redo of everything, undo of transactions that did not commit.

//! Loading an empty tree from sorted records, bottom up, without logging each.

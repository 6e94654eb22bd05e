//! Finding where a log ends, and whether it ends where it should.

//! Programs that showed a difference once, as the judge has printed them.

#[allow(clippy::enum_glob_use)]
use crate::step::{Database::*, OpenedBy::*, Step::*};
use crate::step::{Opening, Program};

/// All of them.
pub fn programs() -> Vec<Program> {
    let open = |c, database, window| {
        Open(Opening {
            c,
            database,
            process: 0,
            how: Ours,
            window,
            options: "",
        })
    };
    vec![
        // A killed process had cut `-wal` off without a sync, and a power cut brings it back.
        Program {
            seed: 30,
            steps: vec![
                open(2, Y, 0),
                Time(2),
                Sql(2, "PRAGMA user_version=7"),
                Kill(0),
            ],
        },
    ]
}

//! What programs consist of. `{:?}` of a step is Rust that can be pasted into a program.

use crate::points::Point;

/// The number of a connection in a program.
pub type C = usize;

/// Connections of a program.
pub const CONNECTIONS: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Database {
    X,
    Y,
}

/// Through which VFS a connection goes in our world. In the other one all go through plain SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    Ours,
    OursReadOnly,
    Plain,
    PlainReadOnly,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opening {
    pub c: C,
    pub database: Database,
    /// The process that opens it.
    pub process: usize,
    pub how: OpenedBy,
    /// Seconds.
    pub window: u32,
    /// More options, such as `log=wal`.
    pub options: &'static str,
}

/// What goes wrong on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub of: Operation,
    pub is_full: bool,
    /// The first operation that fails, from 1 on.
    pub nth: u64,
    pub forever: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Write,
    Sync,
    /// A sync that fails and drops what it had to write.
    DroppingSync,
    Change,
}

/// What a thread does while its sync takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Sql(C, &'static str),
    Close(C),
    /// Seconds pass, and the windows that are over end.
    Time(u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Open(Opening),
    Close(C),
    Sql(C, &'static str),
    /// Begins a statement, and holds it back at a point.
    Park(C, &'static str, Point),
    /// The statement that was held back goes on to its end.
    Resume(C),
    Time(u32),
    Fault(Wrong),
    /// The disk has room for this many bytes more.
    Full(u64),
    Heal,
    /// The power fails, with a seed.
    Cut(u64),
    /// The power fails in a later change of the disk.
    CutLater(u64, u64),
    /// A process is killed; the other one closes its connections.
    Kill(usize),
    /// Copies the database after `wal_checkpoint(TRUNCATE)`, as programs do that make backups.
    Copy(C),
    /// Copies the file as it is, which no program has made ready for that.
    Snatch(Database),
    /// Stores the file of a closed database.
    Store(Database),
    /// Puts the stored file with a number back.
    PutBack(Database, usize),
    /// Deletes `-ebb` of a database that is not open.
    Unlink(Database),
    /// Stores `-ebb` as it is, in place of the one that was stored before.
    StoreLog(Database),
    /// Puts the stored `-ebb` beside a database that a crash has left.
    PutLogBack(Database),
    /// SQLite's backup API.
    Backup(C),
    /// In the sync of one thread's work another one runs a statement.
    WhileSync(Work, u32, C, &'static str),
    /// Compares the bytes and syncs so far.
    Traffic,
}

/// A program: its steps, and the seed of everything that they do not say.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    pub steps: Vec<Step>,
}

impl Step {
    /// The connection that acts.
    pub fn connection(&self) -> Option<C> {
        match self {
            Step::Open(opening) => Some(opening.c),
            Step::Close(c)
            | Step::Sql(c, _)
            | Step::Park(c, ..)
            | Step::Resume(c)
            | Step::Copy(c)
            | Step::Backup(c)
            | Step::WhileSync(_, _, c, _) => Some(*c),
            _ => None,
        }
    }
}

impl Program {
    /// The program as Rust.
    pub fn show(&self) -> String {
        let steps = self.steps.iter().map(|step| format!("    {step:?},\n"));
        format!("Program {{ seed: {}, steps: vec![\n{}] }}", self.seed, steps.collect::<String>())
    }
}

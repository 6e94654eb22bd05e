//! The connections of one world, and the threads whose statements are held back.

use std::ffi::CStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::points::{self, Plan, Point};
use crate::sql::{self, Outcome};
use crate::step::{C, CONNECTIONS, Database, OpenedBy, Opening};

/// After this time of a statement that takes milliseconds something waits for ever.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A statement, or other work of a connection, in a thread of its own.
pub struct Held {
    signals: Receiver<Signal>,
    /// Dropped to let it go on.
    resume: Option<Sender<()>>,
}

enum Signal {
    Reached,
    Done(Option<Connection>, Outcome),
}

/// What has become of work that was to be held back.
pub enum Progress {
    Held(Held),
    Done(Option<Connection>, Outcome),
    /// Neither the point nor the end within the patience.
    Hung,
}

impl Held {
    /// Begins work in a thread of its own, and waits until it reaches a point or its end.
    pub fn begin(
        database: Option<Connection>,
        point: Option<Point>,
        work: impl FnOnce(Option<Connection>) -> (Option<Connection>, Outcome) + Send + 'static,
    ) -> Progress {
        let (to, signals) = channel();
        let (resume, resumed) = channel();
        std::thread::spawn(move || {
            let reached = to.clone();
            points::set(point.map(|point| Plan {
                point,
                reached: Box::new(move || drop(reached.send(Signal::Reached))),
                resume: resumed,
            }));
            let (database, outcome) = work(database);
            points::set(None);
            let _ = to.send(Signal::Done(database, outcome));
        });
        let held = Held { signals, resume: Some(resume) };
        held.wait()
    }

    fn wait(self) -> Progress {
        match self.signals.recv_timeout(PATIENCE) {
            Ok(Signal::Reached) => Progress::Held(self),
            Ok(Signal::Done(database, outcome)) => Progress::Done(database, outcome),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Progress::Hung,
        }
    }

    /// Lets it go on to its end.
    pub fn resume(mut self) -> Progress {
        self.resume = None;
        self.wait()
    }
}

enum Slot {
    Closed,
    Open(Connection),
    Held(Held),
}

/// The connections of a program in one of the two worlds.
pub struct World {
    /// The VFS of each process for connections of ours, and for plain ones.
    names: [[&'static CStr; 2]; 2],
    directory: String,
    slots: Vec<Slot>,
}

/// A thread waits for ever.
#[derive(Debug)]
pub struct Hang;

impl World {
    pub fn new(names: [[&'static CStr; 2]; 2], directory: &str) -> World {
        World { names, directory: directory.to_owned(), slots: (0..CONNECTIONS).map(|_| Slot::Closed).collect() }
    }

    /// The path of a database.
    pub fn path(&self, database: Database) -> String {
        let name = match database {
            Database::X => "x",
            Database::Y => "y",
        };
        format!("{}/{name}.db", self.directory)
    }

    fn connect(&self, opening: &Opening) -> rusqlite::Result<Connection> {
        let process = opening.process;
        let vfs = match opening.how {
            OpenedBy::Ours | OpenedBy::OursReadOnly => self.names[0][process],
            OpenedBy::Plain | OpenedBy::PlainReadOnly => self.names[1][process],
        };
        let access = match opening.how {
            OpenedBy::Ours | OpenedBy::Plain => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            _ => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let name = format!("file:{}?window={}&{}", self.path(opening.database), opening.window, opening.options);
        let database = Connection::open_with_flags_and_vfs(name, access | OpenFlags::SQLITE_OPEN_URI, vfs)?;
        database.busy_timeout(Duration::ZERO)?;
        // SQLite writes pages of a transaction before its end.
        database.execute_batch("PRAGMA cache_size=8")?;
        Ok(database)
    }

    pub fn open(&mut self, opening: &Opening) -> Outcome {
        let answer = match self.connect(opening) {
            Ok(database) => {
                self.slots[opening.c] = Slot::Open(database);
                Ok(Vec::new())
            }
            Err(error) => Err(sql::code(&error)),
        };
        Outcome { answer, is_idle: true }
    }

    /// Runs a statement on a connection of its own.
    pub fn run_once(&self, opening: &Opening, text: &str) -> Outcome {
        match self.connect(opening) {
            Ok(database) => sql::run(&database, text),
            Err(error) => Outcome { answer: Err(sql::code(&error)), is_idle: true },
        }
    }

    pub fn is_open(&self, c: C) -> bool {
        matches!(self.slots[c], Slot::Open(_))
    }

    pub fn is_held(&self, c: C) -> bool {
        matches!(self.slots[c], Slot::Held(_))
    }

    /// The connection, if it is open and not held back.
    pub fn get(&self, c: C) -> Option<&Connection> {
        match &self.slots[c] {
            Slot::Open(database) => Some(database),
            _ => None,
        }
    }

    /// Takes the connection out.
    pub fn take(&mut self, c: C) -> Option<Connection> {
        match std::mem::replace(&mut self.slots[c], Slot::Closed) {
            Slot::Open(database) => Some(database),
            other => {
                self.slots[c] = other;
                None
            }
        }
    }

    /// Puts the connection back, or what has become of its statement.
    pub fn put(&mut self, c: C, database: Option<Connection>) {
        self.slots[c] = database.map_or(Slot::Closed, Slot::Open);
    }

    pub fn run(&self, c: C, text: &str) -> Outcome {
        let database = self.get(c).expect("the caller has asked whether it is open");
        sql::run(database, text)
    }

    /// Begins a statement; `None` if it is held back now.
    pub fn park(&mut self, c: C, text: &'static str, point: Point) -> Result<Option<Outcome>, Hang> {
        let database = self.take(c);
        let progress = Held::begin(database, Some(point), statement(text));
        self.note(c, progress)
    }

    /// Lets the statement of a connection run to its end.
    pub fn resume(&mut self, c: C) -> Result<Option<Outcome>, Hang> {
        match std::mem::replace(&mut self.slots[c], Slot::Closed) {
            Slot::Held(held) => self.note(c, held.resume()),
            other => {
                self.slots[c] = other;
                Ok(None)
            }
        }
    }

    fn note(&mut self, c: C, progress: Progress) -> Result<Option<Outcome>, Hang> {
        match progress {
            Progress::Held(held) => {
                self.slots[c] = Slot::Held(held);
                Ok(None)
            }
            Progress::Done(database, outcome) => {
                self.put(c, database);
                Ok(Some(outcome))
            }
            Progress::Hung => Err(Hang),
        }
    }

    /// Closes a connection; what is open of a transaction is rolled back.
    pub fn close(&mut self, c: C) {
        self.slots[c] = Slot::Closed;
    }
}

/// Work that runs one statement.
pub fn statement(text: &'static str) -> impl FnOnce(Option<Connection>) -> (Option<Connection>, Outcome) + Send + 'static {
    move |database| {
        let outcome = sql::run(database.as_ref().expect("a statement has a connection"), text);
        (database, outcome)
    }
}

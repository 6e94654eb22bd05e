//! Random programs. A seed makes the same program each time.

use std::sync::LazyLock;

use fastrand::Rng;

use crate::points::{Event, Point};
use crate::step::{C, CONNECTIONS, Database, OpenedBy, Opening, Operation, Program, Step, Work, Wrong};

/// What a program is mainly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Mixed,
    /// Statements between the calls of others.
    Interleaved,
    Faults,
    /// Programs that open, write and close.
    Brief,
    /// Copies, restored and deleted files.
    Files,
    /// Readers beside syncs.
    Readers,
    /// Connections that only read, and other processes.
    Company,
}

const THEMES: [(Theme, u32); 7] = [
    (Theme::Mixed, 30),
    (Theme::Interleaved, 25),
    (Theme::Faults, 15),
    (Theme::Brief, 4),
    (Theme::Files, 8),
    (Theme::Readers, 8),
    (Theme::Company, 10),
];

/// The seed's theme, or that of all programs, which `EBBPOOL_THEME` names.
pub fn theme(seed: u64) -> Theme {
    static ONLY: LazyLock<Option<Theme>> = LazyLock::new(|| {
        let name = std::env::var("EBBPOOL_THEME").ok()?.to_lowercase();
        let mut themes = THEMES.iter().map(|(theme, _)| *theme);
        themes.find(|theme| format!("{theme:?}").to_lowercase() == name)
    });
    if let Some(theme) = *ONLY {
        return theme;
    }
    let mut left = Rng::with_seed(seed ^ 0x7e).u32(0..100);
    for (theme, weight) in THEMES {
        if left < weight {
            return theme;
        }
        left -= weight;
    }
    Theme::Mixed
}

struct Generator {
    random: Rng,
    theme: Theme,
    steps: Vec<Step>,
    openings: [Option<Opening>; CONNECTIONS],
    held: [bool; CONNECTIONS],
    in_transaction: [bool; CONNECTIONS],
    has_fault: bool,
    /// The journal mode that the program prefers, and options of all its connections.
    mode: &'static str,
    options: &'static str,
    window: Option<u32>,
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut random = Rng::with_seed(seed);
    let theme = theme(seed);
    let modes = ["delete", "truncate", "persist", "memory", "wal", "wal", "wal"];
    let mode = match theme {
        Theme::Interleaved if random.u32(0..4) > 0 => "wal",
        // Plain SQLite saves half of its bytes where nothing protects the database.
        Theme::Brief => ["delete", "truncate", "persist", "wal"][random.usize(0..4)],
        _ => modes[random.usize(0..modes.len())],
    };
    let logs = ["log=deltas", "log=deltas", "log=wal"];
    let options = format!(
        "{}&log_limit={}&memory=1M&checkpoint_age={}",
        logs[random.usize(0..logs.len())],
        [20_000, 100_000, 1_000_000][random.usize(0..3)],
        [3600, 20][random.usize(0..2)]
    );
    let mut generator = Generator {
        theme,
        steps: Vec::new(),
        openings: [None; CONNECTIONS],
        held: [false; CONNECTIONS],
        in_transaction: [false; CONNECTIONS],
        has_fault: false,
        mode,
        options: leak(options),
        // Many programs have one window for all connections, often none.
        window: [Some(0), Some(0), Some(3), Some(30), None][random.usize(0..5)],
        random,
    };
    let steps = generator.random.usize(50..90);
    match theme {
        Theme::Brief => generator.brief(steps),
        _ => generator.begin(),
    }
    while generator.steps.len() < steps {
        generator.next();
    }
    if theme == Theme::Brief {
        generator.steps.push(Step::Traffic);
    }
    Program { seed, steps: generator.steps }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl Generator {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(0..of.len())]
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.u32(0..one_in) == 0
    }

    fn sql(&mut self, c: C, text: impl Into<String>) {
        self.steps.push(Step::Sql(c, leak(text.into())));
    }

    // Opening.

    fn opening(&mut self, c: C) -> Opening {
        let is_other = self.theme == Theme::Company && self.chance(3);
        let theme = self.theme;
        let how = match theme {
            Theme::Company if is_other => self.pick(&[OpenedBy::Ours, OpenedBy::Plain, OpenedBy::PlainReadOnly]),
            Theme::Company | Theme::Mixed if self.chance(3) => OpenedBy::OursReadOnly,
            _ => OpenedBy::Ours,
        };
        Opening {
            c,
            database: if self.chance(5) { Database::Y } else { Database::X },
            process: usize::from(is_other),
            how,
            window: match self.window {
                Some(window) => window,
                None => self.pick(&[0, 3, 10, 30]),
            },
            options: self.options,
        }
    }

    fn open(&mut self, c: C) {
        let opening = self.opening(c);
        self.steps.push(Step::Open(opening));
        self.openings[c] = Some(opening);
        self.in_transaction[c] = false;
        if self.mode == "memory" {
            self.sql(c, "PRAGMA journal_mode=memory");
        }
        if self.chance(6) {
            self.sql(c, "PRAGMA wal_autocheckpoint=3");
        }
    }

    /// The first connection makes tables.
    fn begin(&mut self) {
        let opening = Opening {
            c: 0,
            database: Database::X,
            process: 0,
            how: OpenedBy::Ours,
            window: self.window.unwrap_or(0),
            options: self.options,
        };
        self.steps.push(Step::Open(opening));
        self.openings[0] = Some(opening);
        let size = self.pick(&[512, 1024, 4096]);
        let vacuum = self.random.u32(0..3);
        self.sql(0, format!("PRAGMA page_size={size}"));
        self.sql(0, format!("PRAGMA auto_vacuum={vacuum}"));
        let mode = self.mode;
        self.sql(0, format!("PRAGMA journal_mode={mode}"));
        self.tables(0);
    }

    fn tables(&mut self, c: C) {
        self.sql(c, "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, n INT, v TEXT)");
        self.sql(c, "CREATE INDEX IF NOT EXISTS t_n ON t(n)");
    }

    /// Cycles of opening, writing a little, and closing.
    fn brief(&mut self, steps: usize) {
        self.begin();
        self.steps.push(Step::Close(0));
        while self.steps.len() + 4 < steps {
            let opening = Opening {
                c: 0,
                database: Database::X,
                process: 0,
                how: OpenedBy::Ours,
                window: self.window.unwrap_or(30),
                options: self.options,
            };
            self.steps.push(Step::Open(opening));
            let key = self.random.u32(0..1000);
            self.sql(0, format!("INSERT OR REPLACE INTO t VALUES ({key}, {key}, 'row')"));
            self.steps.push(Step::Close(0));
        }
        self.openings = [None; CONNECTIONS];
    }

    // Steps.

    fn next(&mut self) {
        let c = self.random.usize(
            0..match self.theme {
                Theme::Company | Theme::Mixed => CONNECTIONS,
                Theme::Brief => 1,
                _ => 3,
            },
        );
        if self.held[c] {
            self.steps.push(Step::Resume(c));
            self.held[c] = false;
            self.in_transaction[c] = false;
            return;
        }
        if self.theme == Theme::Brief {
            return self.steps.push(Step::Time(1));
        }
        if self.openings[c].is_none() {
            return self.open(c);
        }
        match self.random.u32(0..100) {
            0..=3 => {
                self.steps.push(Step::Close(c));
                self.openings[c] = None;
            }
            4..=11 => {
                let seconds = self.pick(&[0, 1, 2, 5, 31]);
                self.steps.push(Step::Time(seconds));
            }
            12..=15 => self.crash(),
            16..=40 => self.special(c),
            _ => self.statement(c),
        }
    }

    fn statement(&mut self, c: C) {
        let text = self.text(c);
        self.steps.push(Step::Sql(c, text));
    }

    /// What makes the theme.
    fn special(&mut self, c: C) {
        match self.theme {
            Theme::Interleaved => self.park(c),
            Theme::Mixed => match self.random.u32(0..6) {
                0 => self.park(c),
                1 => self.steps.push(Step::Backup(c)),
                2 => self.steps.push(Step::Copy(c)),
                3 => self.beside_sync(c),
                4 => self.attach(c),
                _ => self.statement(c),
            },
            Theme::Faults => self.fault(c),
            Theme::Files => self.files(c),
            Theme::Readers => self.beside_sync(c),
            Theme::Company | Theme::Brief => self.statement(c),
        }
    }

    fn park(&mut self, c: C) {
        let text = match self.random.u32(0..3) {
            0 => self
                .pick(&["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(RESTART)", "PRAGMA wal_checkpoint(PASSIVE)"]),
            _ => self.text(c),
        };
        let event = self.pick(&[
            Event::PhaseTwo,
            Event::AfterWriter,
            Event::Call,
            Event::Call,
            Event::Read,
            Event::Write,
            Event::ShmLock,
            Event::Lock,
            Event::Unlock,
            Event::Sync,
            Event::Truncate,
            Event::Delete,
        ]);
        let most = match event {
            Event::PhaseTwo | Event::AfterWriter | Event::Delete | Event::Truncate => 2,
            Event::Call => 40,
            _ => 6,
        };
        let nth = self.random.u32(1..=most);
        self.steps.push(Step::Park(c, text, Point(event, nth)));
        self.held[c] = true;
        let others = self.random.u32(1..4);
        for _ in 0..others {
            let other = self.random.usize(0..3);
            if self.openings[other].is_none() {
                self.open(other);
            } else if !self.held[other] {
                let text = match self.random.u32(0..3) {
                    0 => self.pick(&["BEGIN IMMEDIATE", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(FULL)"]),
                    _ => self.text(other),
                };
                self.steps.push(Step::Sql(other, text));
            }
        }
        if !self.chance(4) {
            self.steps.push(Step::Resume(c));
            self.held[c] = false;
        }
    }

    fn beside_sync(&mut self, c: C) {
        let other = (c + 1 + self.random.usize(0..2)) % 3;
        if self.openings[other].is_none() || self.held[other] || other == c {
            return self.statement(c);
        }
        let work = match self.random.u32(0..5) {
            0 => Work::Time(31),
            1 => Work::Close(other),
            _ => Work::Sql(other, self.write()),
        };
        if let Work::Close(_) = work {
            self.openings[other] = None;
        }
        let read = self.pick(&["SELECT count(*), sum(n) FROM t", "SELECT k, n FROM t ORDER BY n LIMIT 5"]);
        let nth = self.random.u32(1..4);
        self.steps.push(Step::WhileSync(work, nth, c, read));
    }

    fn attach(&mut self, c: C) {
        self.statement(c);
    }

    fn fault(&mut self, c: C) {
        if self.has_fault {
            if self.chance(3) {
                self.steps.push(Step::Heal);
                self.has_fault = false;
                return;
            }
            return self.statement(c);
        }
        self.has_fault = true;
        if self.chance(3) {
            let bytes = self.pick(&[0, 0, 3000, 20_000, 100_000]);
            return self.steps.push(Step::Full(bytes));
        }
        let wrong = Wrong {
            of: self.pick(&[Operation::Write, Operation::Sync, Operation::DroppingSync, Operation::Change]),
            is_full: self.random.bool(),
            nth: self.random.u64(1..12),
            forever: self.random.bool(),
        };
        self.steps.push(Step::Fault(wrong));
    }

    fn files(&mut self, c: C) {
        let database = Database::X;
        match self.random.u32(0..11) {
            0 => {
                self.close_all();
                self.steps.push(Step::Store(database));
            }
            1 => self.steps.push(Step::Copy(c)),
            2 => self.steps.push(Step::Snatch(database)),
            3 => {
                self.crash();
                let number = self.random.usize(0..4);
                self.steps.push(Step::PutBack(database, number));
            }
            4 => {
                self.crash();
                self.steps.push(Step::Unlink(database));
            }
            5 => {
                self.close_all();
                let number = self.random.usize(0..4);
                self.steps.push(Step::PutBack(database, number));
            }
            6 => self.steps.push(Step::StoreLog(database)),
            7 => {
                self.steps.push(Step::StoreLog(database));
                for _ in 0..self.random.u32(0..4) {
                    self.statement(c);
                }
                self.steps.push(Step::Sql(c, "PRAGMA ebbpool_checkpoint"));
                self.statement(c);
                self.crash();
                self.steps.push(Step::PutLogBack(database));
            }
            _ => self.statement(c),
        }
    }

    fn close_all(&mut self) {
        for c in 0..CONNECTIONS {
            if self.held[c] {
                self.steps.push(Step::Resume(c));
                self.held[c] = false;
            }
            if self.openings[c].take().is_some() {
                self.steps.push(Step::Close(c));
            }
        }
    }

    fn crash(&mut self) {
        let seed = self.random.u64(0..1000);
        match self.random.u32(0..4) {
            0 => {
                let changes = self.random.u64(1..30);
                return self.steps.push(Step::CutLater(changes, seed));
            }
            1 => self.steps.push(Step::Cut(seed)),
            _ => self.steps.push(Step::Kill(0)),
        }
        self.openings = [None; CONNECTIONS];
        self.held = [false; CONNECTIONS];
        self.in_transaction = [false; CONNECTIONS];
        self.has_fault = false;
        if self.chance(5) {
            // Recovery is cut short.
            let changes = self.random.u64(1..12);
            self.steps.push(Step::CutLater(changes, seed));
        }
    }

    // Statements.

    fn text(&mut self, c: C) -> &'static str {
        if self.in_transaction[c] && self.chance(4) {
            self.in_transaction[c] = false;
            return self.pick(&["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]);
        }
        match self.random.u32(0..100) {
            0..=9 => {
                self.in_transaction[c] = true;
                self.pick(&["BEGIN", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
            }
            10..=14 => self.pick(&["SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "COMMIT", "ROLLBACK"]),
            15..=34 => self.read(),
            35..=39 => self.pick(&[
                "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(FULL)", "PRAGMA wal_checkpoint(RESTART)",
                "PRAGMA wal_checkpoint(TRUNCATE)",
            ]),
            40..=42 => self.pick(&["PRAGMA ebbpool_flush", "PRAGMA ebbpool_checkpoint"]),
            43..=47 => self.unusual(),
            _ => self.write(),
        }
    }

    fn read(&mut self) -> &'static str {
        self.pick(&[
            "SELECT count(*), sum(n), total(length(v)) FROM t", "SELECT k, n FROM t ORDER BY n LIMIT 5",
            "SELECT sum(n) FROM t INDEXED BY t_n WHERE n > 3", "SELECT name FROM sqlite_master ORDER BY name",
            "SELECT count(*) FROM u", "PRAGMA integrity_check", "PRAGMA user_version", "PRAGMA page_count",
        ])
    }

    fn unusual(&mut self) -> &'static str {
        let mode = self.mode;
        match self.random.u32(0..12) {
            0 => "VACUUM",
            1 => "PRAGMA incremental_vacuum(2)",
            2 => "PRAGMA user_version=7",
            3 => "PRAGMA locking_mode=EXCLUSIVE",
            4 => "PRAGMA locking_mode=NORMAL",
            5 => "PRAGMA journal_size_limit=2000",
            6 => "CREATE INDEX IF NOT EXISTS t_v ON t(v)",
            7 => "DROP INDEX IF EXISTS t_v",
            8 => "DROP TABLE IF EXISTS u",
            9 => leak(format!("PRAGMA journal_mode={mode}")),
            10 if mode != "memory" => self.pick(&["PRAGMA journal_mode=wal", "PRAGMA journal_mode=delete"]),
            _ => "PRAGMA synchronous",
        }
    }

    fn write(&mut self) -> &'static str {
        let (key, n) = (self.random.u32(0..60), self.random.u32(0..100));
        let length = match self.random.u32(0..12) {
            0 => 3000,
            1 => 900,
            _ => self.random.u32(0..120),
        };
        let text = match self.random.u32(0..14) {
            0..=5 => format!("INSERT OR REPLACE INTO t VALUES ({key}, {n}, printf('%.{length}c', char(97 + {n} % 26)))"),
            6 | 7 => format!("UPDATE t SET n = n + 1 WHERE k % 7 = {}", key % 7),
            8 => format!("UPDATE t SET v = printf('%.{length}c', 'u') WHERE k = {key}"),
            9 => format!("DELETE FROM t WHERE k BETWEEN {key} AND {}", key + 5),
            10 => {
                format!("INSERT INTO t (n, v) SELECT n + 1, substr(v, 1, {length}) FROM t LIMIT 12")
            }
            11 => "CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t".into(),
            12 => format!("DELETE FROM t WHERE k > {}", key + 30),
            _ => "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, n INT, v TEXT)".into(),
        };
        leak(text)
    }
}

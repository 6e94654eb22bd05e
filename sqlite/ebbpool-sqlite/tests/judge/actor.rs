//! A process of a program: it does what the judge says through a socket, and so do the children that it forks.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::sql::{self, Outcome};

/// What the judge asks for. Numbers name connections, and processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    Open {
        c: usize,
        path: PathBuf,
        options: String,
        is_read_only: bool,
    },
    Close(usize),
    Sql(usize, String),
    /// Forks; the child goes on as another process, of a parent that is gone if it is a daemon.
    Fork {
        name: usize,
        is_daemon: bool,
    },
    /// Opens a file, reads it, and closes it; copies it if there is another path.
    Read(PathBuf, Option<PathBuf>),
    /// From now on the process has no more rights than anyone.
    LoseRights,
    /// Ends without closing anything.
    Exit,
    /// Closes everything, and ends.
    Quit,
}

/// What a process answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    pub answer: Result<Vec<String>, i32>,
    pub is_idle: bool,
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Outcome {
        Outcome { answer: reply.answer, is_idle: reply.is_idle }
    }
}

struct Actor {
    socket: PathBuf,
    /// Closed in a child, so that the judge sees when its parent ends.
    descriptor: i32,
    connections: BTreeMap<usize, Connection>,
}

/// The life of a process that the judge has started: `EBBPOOL_ACTOR` has its number and the judge's socket.
pub fn live() {
    let Ok(text) = std::env::var("EBBPOOL_ACTOR") else {
        return;
    };
    let (name, socket) = text.split_once(' ').unwrap();
    let mut actor = Actor { socket: socket.into(), descriptor: -1, connections: BTreeMap::new() };
    actor.serve(name.parse().unwrap());
}

impl Actor {
    /// Greets the judge, and does what it says until it hangs up.
    fn serve(&mut self, name: usize) {
        let Ok(mut stream) = UnixStream::connect(&self.socket) else {
            end(1);
        };
        self.descriptor = stream.as_raw_fd();
        // SAFETY: the stream lives until this process ends, or closes the descriptor as the child of a fork.
        let mut lines = BufReader::new(unsafe { File::from_raw_fd(self.descriptor) }).lines();
        let _ = writeln!(stream, "{name} {}", std::process::id());
        while let Some(Ok(line)) = lines.next() {
            let request: Request = serde_json::from_str(&line).unwrap();
            let reply = self.act(request);
            let Some(reply) = reply else {
                // A child that goes on by itself.
                return;
            };
            if writeln!(stream, "{}", serde_json::to_string(&reply).unwrap()).is_err() {
                break;
            }
        }
        end(0);
    }

    fn act(&mut self, request: Request) -> Option<Reply> {
        let outcome = match request {
            Request::Open { c, path, options, is_read_only } => self.open(c, &path, &options, is_read_only),
            Request::Close(c) => {
                self.connections.remove(&c);
                done(Ok(Vec::new()))
            }
            Request::Sql(c, text) => match self.connections.get(&c) {
                Some(database) => sql::run(database, &text),
                None => done(Err(rusqlite::ffi::SQLITE_MISUSE)),
            },
            Request::Fork { name, is_daemon } => return self.fork(name, is_daemon),
            Request::Read(path, copy) => done(read(&path, copy.as_deref())),
            Request::LoseRights => {
                // SAFETY: the calls only change the rights of this process.
                let answer = unsafe { libc::setgid(65534) | libc::setuid(65534) };
                done(if answer == 0 { Ok(Vec::new()) } else { Err(answer) })
            }
            Request::Exit => {
                std::mem::forget(std::mem::take(&mut self.connections));
                std::process::exit(0);
            }
            Request::Quit => {
                self.connections.clear();
                std::process::exit(0);
            }
        };
        Some(Reply { answer: outcome.answer, is_idle: outcome.is_idle })
    }

    fn open(&mut self, c: usize, path: &Path, options: &str, is_read_only: bool) -> Outcome {
        let _ = ebbpool_sqlite::register(false);
        let access = match is_read_only {
            true => OpenFlags::SQLITE_OPEN_READ_ONLY,
            false => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let name = format!("file:{}?vfs=ebbpool&{options}", path.display());
        let opened = Connection::open_with_flags(name, access | OpenFlags::SQLITE_OPEN_URI);
        match opened {
            Ok(database) => {
                let _ = database.busy_timeout(Duration::ZERO);
                let _ = database.execute_batch("PRAGMA cache_size=8");
                self.connections.insert(c, database);
                done(Ok(Vec::new()))
            }
            Err(error) => done(Err(sql::code(&error))),
        }
    }

    /// The parent answers; the child speaks for itself from now on.
    fn fork(&mut self, name: usize, is_daemon: bool) -> Option<Reply> {
        // SAFETY: only this thread uses what the child has got; the library's own are what is tested.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the child never returns to those who use the descriptor.
            unsafe { libc::close(self.descriptor) };
            // SAFETY: as above.
            if is_daemon && unsafe { libc::fork() } != 0 {
                end(0);
            }
            self.serve(name);
            end(0);
        }
        if is_daemon {
            // SAFETY: the child is this process's, and ends at once.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
        Some(Reply { answer: if child > 0 { Ok(Vec::new()) } else { Err(child) }, is_idle: true })
    }
}

fn done(answer: Result<Vec<String>, i32>) -> Outcome {
    Outcome { answer, is_idle: true }
}

/// Reads a file as a program does that knows nothing of SQLite.
fn read(path: &Path, copy: Option<&Path>) -> Result<Vec<String>, i32> {
    let content = std::fs::read(path).map_err(|_| rusqlite::ffi::SQLITE_CANTOPEN)?;
    if let Some(copy) = copy {
        std::fs::write(copy, content).map_err(|_| rusqlite::ffi::SQLITE_IOERR)?;
    }
    Ok(Vec::new())
}

/// Ends the process at once, with nothing of what it does at a usual end.
fn end(code: i32) -> ! {
    // SAFETY: the process is gone.
    unsafe { libc::_exit(code) }
}

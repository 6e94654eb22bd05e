//! A process of a program: it does what the judge says through a socket, and so do the children that it forks.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebbpool_sqlite::preload::{OpenV2, real};
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
    /// Opens a database through another copy of SQLite, runs a statement there, or closes it again.
    Second(Second),
    /// From now on the process has no more rights than anyone. Where it is not root's, this changes nothing.
    LoseRights,
    /// Ends without closing anything.
    Exit,
    /// Closes everything, and ends.
    Quit,
}

/// What another copy of SQLite in a process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Second {
    Open(PathBuf),
    Sql(String),
    Close,
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
    second: Option<SecondCopy>,
}

/// The life of a process that the judge has started: `EBBPOOL_ACTOR` has its number and the judge's socket.
pub fn live() {
    let Ok(text) = std::env::var("EBBPOOL_ACTOR") else {
        return;
    };
    let (name, socket) = text.split_once(' ').unwrap();
    let mut actor = Actor { socket: socket.into(), descriptor: -1, connections: BTreeMap::new(), second: None };
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
            Request::Second(what) => done(self.use_second(what)),
            Request::LoseRights => {
                // SAFETY: the calls only change the rights of this process.
                let answer = unsafe { libc::setgid(65534) | libc::setuid(65534) };
                done(if answer == 0 { Ok(Vec::new()) } else { Err(answer) })
            }
            Request::Exit => {
                std::mem::forget(self.second.take());
                std::mem::forget(std::mem::take(&mut self.connections));
                exit();
            }
            Request::Quit => {
                self.second = None;
                self.connections.clear();
                exit();
            }
        };
        Some(Reply { answer: outcome.answer, is_idle: outcome.is_idle })
    }

    fn use_second(&mut self, what: Second) -> Result<Vec<String>, i32> {
        match what {
            Second::Open(path) => {
                // As in a process where a package brings SQLite along, and another one uses the system's.
                drop(SecondCopy::open(Path::new(":memory:"), SYSTEM)?);
                self.second = Some(SecondCopy::open(&path, &copied(&self.socket)?)?);
            }
            Second::Sql(text) => {
                self.second.as_ref().ok_or(rusqlite::ffi::SQLITE_MISUSE)?.run(&text)?;
            }
            Second::Close => self.second = None,
        }
        Ok(Vec::new())
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

type Exec = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, *const c_void, *const c_void) -> i32;
type Close = unsafe extern "C" fn(*mut c_void) -> i32;

/// The library of the system's SQLite.
const SYSTEM: &CStr = c"libsqlite3.so.0";

/// A database that another copy of SQLite has open, which knows nothing of the one in this program.
struct SecondCopy {
    database: *mut c_void,
    exec: Exec,
    close: Close,
}

/// A function of a library with SQLite; `None` if there is none.
fn function_of(library: &CStr, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the names end with a zero; loading the library again does no harm.
    let found = unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) }
    };
    (!found.is_null()).then_some(found)
}

/// True if the system has an SQLite of its own.
pub fn has_second() -> bool {
    function_of(SYSTEM, c"sqlite3_open_v2").is_some()
}

/// A copy of the system's library, which is loaded, beside a file.
fn copied(beside: &Path) -> Result<CString, i32> {
    let copy = beside.with_extension("so");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let system = maps.split_ascii_whitespace().find(|word| word.contains("/libsqlite3.so"));
    if !copy.exists() {
        std::fs::copy(system.unwrap_or_default(), &copy).map_err(|_| rusqlite::ffi::SQLITE_NOTFOUND)?;
    }
    Ok(CString::new(copy.as_os_str().as_encoded_bytes()).unwrap())
}

impl SecondCopy {
    /// Opens a database as functions that are preloaded do for a caller in a library.
    fn open(path: &Path, library: &CStr) -> Result<SecondCopy, i32> {
        let function = |name| function_of(library, name).ok_or(rusqlite::ffi::SQLITE_NOTFOUND);
        let caller = function(c"sqlite3_exec")?;
        // SAFETY: these are SQLite's functions, with the types that its interface says.
        let (own, exec, close) = unsafe {
            (
                std::mem::transmute::<*const c_void, OpenV2>(rusqlite::ffi::sqlite3_open_v2 as *const c_void),
                std::mem::transmute::<*mut c_void, Exec>(caller),
                std::mem::transmute::<*mut c_void, Close>(function(c"sqlite3_close")?),
            )
        };
        let open = real(caller, own).ok_or(rusqlite::ffi::SQLITE_NOTFOUND)?.open_v2;
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let mut second = SecondCopy { database: std::ptr::null_mut(), exec, close };
        // SAFETY: the name ends with a zero, and the handle is closed once.
        let code = unsafe { open(name.as_ptr(), &mut second.database, rusqlite::ffi::SQLITE_OPEN_READWRITE, std::ptr::null()) };
        if code == 0 { Ok(second) } else { Err(code) }
    }

    fn run(&self, text: &str) -> Result<(), i32> {
        let (text, null) = (CString::new(text).unwrap(), std::ptr::null());
        // SAFETY: the database is open, and the text ends with a zero.
        match unsafe { (self.exec)(self.database, text.as_ptr(), null, null, null.cast()) } {
            0 => Ok(()),
            code => Err(code),
        }
    }
}

impl Drop for SecondCopy {
    fn drop(&mut self) {
        // SAFETY: the database is not used afterwards.
        unsafe { (self.close)(self.database) };
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

/// Ends the process as a program in C does. In a child of `fork` Rust's own way waits for locks that other threads had.
fn exit() -> ! {
    // SAFETY: exit handlers of the library, and destructors of this thread, may run here.
    unsafe { libc::exit(0) }
}

/// Ends the process at once, with nothing of what it does at a usual end.
fn end(code: i32) -> ! {
    // SAFETY: the process is gone.
    unsafe { libc::_exit(code) }
}

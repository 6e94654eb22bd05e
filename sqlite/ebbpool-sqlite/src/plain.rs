//! The system's own SQLite, loaded while the program runs: it judges a database, and recovers one through the VFS.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::ffi::{self, Api};
use crate::{NAME, register_with};

/// The name under which the system's loader finds SQLite.
const LIBRARY: &str = "libsqlite3.so.0";
/// Findings of an integrity check that are read: SQLite itself ends it after 100.
const MOST_FINDINGS: usize = 100;

/// SQLite as a shared library of the system.
pub struct PlainSqlite {
    api: Api,
    version: String,
    error: unsafe extern "C" fn(*mut c_void) -> *const c_char,
}

/// Why SQLite could not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainSqliteError(String);

impl fmt::Display for PlainSqliteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for PlainSqliteError {}

/// Finds the functions of SQLite in a library that is loaded.
///
/// # Safety
///
/// `library` is a handle of the loader, or one of its special ones.
// The type of each function is that of its field.
#[allow(clippy::missing_transmute_annotations)]
pub(crate) unsafe fn functions_of(library: *mut c_void) -> Option<Api> {
    use std::mem::transmute;
    // SAFETY: the names end with a zero, and each function has the type of its field, as sqlite3.h declares it.
    unsafe {
        let find = |name: &CStr| {
            let found = libc::dlsym(library, name.as_ptr());
            (!found.is_null()).then_some(found.cast_const())
        };
        Some(Api {
            vfs_find: transmute::<*const c_void, _>(find(c"sqlite3_vfs_find")?),
            vfs_register: transmute::<*const c_void, _>(find(c"sqlite3_vfs_register")?),
            open_v2: transmute::<*const c_void, _>(find(c"sqlite3_open_v2")?),
            exec: transmute::<*const c_void, _>(find(c"sqlite3_exec")?),
            close: transmute::<*const c_void, _>(find(c"sqlite3_close")?),
            mprintf: transmute::<*const c_void, _>(find(c"sqlite3_mprintf")?),
            log: transmute::<*const c_void, _>(find(c"sqlite3_log")?),
            uri_parameter: transmute::<*const c_void, _>(find(c"sqlite3_uri_parameter")?),
        })
    }
}

/// Registers the VFS `ebbpool` with the SQLite that this process has loaded already: the one whose functions a module, such
/// as Python's, has inside or calls in a library that it links. Without a module it is the one of the program itself. Where
/// the VFS is registered, also by a library that was preloaded, this does nothing.
///
/// # Errors
///
/// If the module is not loaded, shows no functions of SQLite, or SQLite refuses the VFS.
pub fn register_with_module(module: Option<&Path>) -> Result<(), PlainSqliteError> {
    let name = module.map_or("the program".into(), |module| module.display().to_string());
    let failed = |why: &str| PlainSqliteError(format!("{name}: {why}"));
    let text = module.map(|module| CString::new(module.as_os_str().as_bytes()));
    let text = text.transpose().map_err(|_| failed("no file has this name"))?;
    // SAFETY: the name ends with a zero or is null, for the program; only a library that is loaded already is opened. It
    // stays so from then on, since its functions are called.
    let library = unsafe {
        let name = text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD)
    };
    if library.is_null() {
        return Err(failed("it is not loaded"));
    }
    // SAFETY: a handle of the loader, whose functions have the types of sqlite3.h; the name ends with a zero.
    unsafe {
        let api = functions_of(library).ok_or_else(|| failed("it shows no functions of SQLite"))?;
        if (api.vfs_find)(NAME.as_ptr()).is_null() {
            register_with(api, false).map_err(|code| failed(&code.to_string()))?;
        }
    }
    Ok(())
}

impl PlainSqlite {
    /// Loads SQLite: a library by its path, or the system's.
    ///
    /// # Errors
    ///
    /// If there is none, or the library is not SQLite.
    pub fn load(path: Option<&Path>) -> Result<PlainSqlite, PlainSqliteError> {
        let name = path.map_or(OsStr::new(LIBRARY), Path::as_os_str);
        let missing = |why: &str| PlainSqliteError(format!("{}: {why}", name.display()));
        let text = CString::new(name.as_bytes()).map_err(|_| missing("no file has this name"))?;
        // SAFETY: the name ends with a zero; a library of SQLite runs nothing when it is loaded.
        let library = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(missing("the system finds no such library"));
        }
        // SAFETY: the library is loaded, and stays so; the two functions have these types in sqlite3.h.
        unsafe {
            let api = functions_of(library).ok_or_else(|| missing("it is not SQLite"))?;
            let version = libc::dlsym(library, c"sqlite3_libversion".as_ptr());
            let error = libc::dlsym(library, c"sqlite3_errmsg".as_ptr());
            if version.is_null() || error.is_null() {
                return Err(missing("it is not SQLite"));
            }
            let version: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(version);
            Ok(PlainSqlite {
                api,
                version: CStr::from_ptr(version()).to_string_lossy().into_owned(),
                error: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> *const c_char>(error),
            })
        }
    }

    /// The version, such as `3.40.1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What `PRAGMA integrity_check` finds in a database that no other process uses; nothing if all is well. SQLite opens
    /// it without this project's VFS, rolls a journal back, and may write beside it.
    ///
    /// # Errors
    ///
    /// If SQLite cannot read it, because it is encrypted for example.
    pub fn integrity_check(&self, path: &Path) -> Result<Vec<String>, PlainSqliteError> {
        let mut rows = self.run(path, None, c"PRAGMA integrity_check")?;
        rows.retain(|row| row != "ok");
        Ok(rows)
    }

    /// Opens a database through the VFS, which recovers it, and closes it again, which leaves a plain database behind.
    ///
    /// # Errors
    ///
    /// SQLite's error: the database is busy, its log belongs to another version, or it cannot be read.
    pub fn recover(&self, path: &Path) -> Result<(), PlainSqliteError> {
        // SAFETY: the functions are those of the library that was loaded.
        let registered = unsafe { register_with(self.api, false) };
        registered.map_err(|code| PlainSqliteError(code.to_string()))?;
        let statement = c"SELECT count(*) FROM sqlite_master";
        self.run(path, Some(NAME), statement).map(drop)
    }

    /// Runs a statement, and returns the first column of its rows.
    fn run(&self, path: &Path, vfs: Option<&CStr>, statement: &CStr) -> Result<Vec<String>, PlainSqliteError> {
        let text = CString::new(path.as_os_str().as_bytes()).map_err(|_| PlainSqliteError("no file has this name".into()))?;
        let mut rows: Vec<String> = Vec::new();
        let mut database = std::ptr::null_mut();
        let api = &self.api;
        // SAFETY: texts end with a zero; SQLite calls `take_row` with the vector, which outlives the call; the connection is
        // closed once, also where opening it failed, and its error is read before.
        unsafe {
            let vfs = vfs.map_or(std::ptr::null(), CStr::as_ptr);
            let mut code = (api.open_v2)(text.as_ptr(), &mut database, ffi::OPEN_READWRITE, vfs);
            if code == ffi::OK {
                let each = take_row as unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
                let rows: *const c_void = (&raw mut rows).cast();
                code = (api.exec)(database, statement.as_ptr(), each as *const c_void, rows, std::ptr::null());
            }
            let message = match database.is_null() {
                true => "there is no memory".to_owned(),
                false => CStr::from_ptr((self.error)(database)).to_string_lossy().into_owned(),
            };
            let closed = (api.close)(database);
            match (code, closed) {
                (ffi::OK, ffi::OK) => Ok(rows),
                (ffi::OK, code) => {
                    Err(PlainSqliteError(format!("the database cannot be closed (SQLite's result code {code})")))
                }
                (code, _) => Err(PlainSqliteError(format!("{message} (SQLite's result code {code})"))),
            }
        }
    }
}

/// Takes the first column of a row.
///
/// # Safety
///
/// SQLite calls this, with the vector that `run` has passed.
unsafe extern "C" fn take_row(rows: *mut c_void, columns: c_int, values: *mut *mut c_char, _names: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's; a value that is not null ends with a zero.
    unsafe {
        let rows = &mut *rows.cast::<Vec<String>>();
        if columns > 0 && !(*values).is_null() && rows.len() < MOST_FINDINGS {
            rows.push(CStr::from_ptr(*values).to_string_lossy().into_owned());
        }
    }
    0
}

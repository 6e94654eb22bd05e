//! SQLite on flash: a VFS that merges transactions into *epochs* before it writes them.
//!
//! Consecutive transactions merged are a transaction. So an epoch logs the latest committed content of every page that
//! changed since the last one, once, as one commit. Between checkpoints only what changed within pages is written. The
//! database stays one of SQLite's: closed, it is a plain file.
//!
//! ```
//! use rusqlite::{Connection, OpenFlags};
//!
//! ebbpool_sqlite::register(false)?;
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("home.db");
//! let name = format!("file:{}?vfs=ebbpool&window=30", path.display());
//! let database = Connection::open_with_flags(name, OpenFlags::default())?;
//! database.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);")?;
//! let status: String = database.query_row("PRAGMA ebbpool_status", [], |row| row.get(0))?;
//! assert!(status.contains("oldest_unsaved_seconds"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Programs whose commits are small and many write fewer bytes, 1.0 to 5.3 times in seven loads with a window of 30 seconds; those
//! that open a database, write a row and close it save little. A power cut or a killed process loses at most the commits of the
//! *window*, in seconds of running time, and never the database. One process at a time may have the database open, and a child of
//! `fork` opens databases of its own. `docs/sqlite.md` of the project says how to use the library from programs that cannot be changed.
//!
//! # What it relies on
//!
//! The library has a database to itself only as long as these hold. Each is looked at before something relies on it:
//!
//! 1. **It calls the SQLite of its caller.** A process may have several copies, under any name. Each call of `sqlite3_open*` through the
//!    preloaded library finds the copy by its return address (`dlopen` with `RTLD_NOLOAD`). A caller that is hidden by a tail call is
//!    refused where there are several copies. `each_copy_of_sqlite_in_a_process_opens_databases_of_its_own`
//! 2. **No other opener has the database locked**, in this process or another. Before anything is recovered or opened
//!    `fcntl(F_OFD_GETLK)` asks, with which locks of every kind conflict; the owner has such a lock. Otherwise `SQLITE_BUSY`.
//!    `a_second_copy_of_sqlite_that_came_first_loses_nothing`
//! 3. **Closing a descriptor drops no lock of another copy.** Before it is closed, `/proc/thread-self/fdinfo` says whether this process
//!    has locks of the usual kind on the file; then it stays open, for the next use. The same test, and
//!    `a_lock_is_found_while_other_files_are_locked`
//! 4. **No other program writes the file.** `stat`, and the header, before each commit, epoch, slice of a checkpoint and write in place,
//!    when another connection is opened, and before a read, at most every 10 ms. Where only the time differs, the pages in memory are
//!    compared with the file. Otherwise `SQLITE_IOERR` and words on standard error: the file stays as it is, the logs get names in
//!    `.stale`. `a_backup_that_is_copied_over_an_open_database_stays`,
//!    `a_backup_that_is_copied_over_in_the_middle_of_a_checkpoint_stays`,
//!    `what_is_written_into_the_middle_of_an_open_database_stays`, `who_reads_an_open_database_does_it_no_harm`
//! 5. **The file keeps its name.** `stat`, at the same times. Commits go to where the file is, and a new connection opens what has the name.
//!    A copy with the mark of the log gets the log, too. Where no name is left and another file has this one, commits are refused
//!    (`SQLITE_READONLY_DBMOVED`), the logs get names that end in `.stale`, and words stand on standard error. `a_database_that_is_moved_while_open_takes_its_commits_along`,
//!    `a_copy_that_takes_the_name_of_an_open_database_has_its_log`,
//!    `commits_to_a_file_without_a_name_are_refused_while_another_has_its_name`
//! 6. **The logs keep theirs, and their length.** `stat`, before each epoch: what a lost one held goes in place from its open file. One that
//!    was cut off, and had what is not in memory, is as 4. `nothing_is_lost_after_the_log_was_deleted_under_its_owner`,
//!    `a_database_whose_log_is_cut_off_is_no_mixture`
//! 7. **File and directory are one mount, and the directory can be written.** `statx` (`STATX_MNT_ID`) and `faccessat`, at opening.
//!    Otherwise SQLite's own VFS serves the database, and `status` says why.
//!    `a_database_that_is_mounted_without_its_directory_has_no_logs_there`
//! 8. **There is room.** `fallocate`, before each commit; otherwise `SQLITE_FULL`. What exceeds memory goes to a file without a name beside
//!    the database (`O_TMPFILE`). `a_transaction_larger_than_memory_needs_no_directory_for_temporary_files`
//! 9. **The process is the one that opened the database.** `getpid`, at each call: a child of `fork` gets `SQLITE_MISUSE`.
//!    `a_child_cannot_use_what_it_inherited`
//! 10. **The process runs.** A window is one of running time (`CLOCK_MONOTONIC`): while the process is stopped, or the machine suspended,
//!     nothing is written, and a kill then loses what was not durable before.
//!
//! Not noticed: a log that is deleted and a file that is written over within milliseconds of each other; another program's write
//! during one of this process; and, as long as length and header stay as they were, a write within one tick of the system's clock
//! (4 ms) after one of this process, to pages that are not in memory, or on a file system of another computer, where times do
//! not count. A backup that is byte for byte what is in place changes nothing, and the newer
//! commits stay.
//!
//! # The price
//!
//! `sqlite3_snapshot_open`, which few builds of SQLite have, may get `SQLITE_IOERR` for a snapshot that no connection holds.
//! Otherwise each line is a difference from plain SQLite and the test that shows it, in `sqlite/ebbpool-sqlite/tests` or
//! `command/ebbpool-cli/tests`. The *judge* there runs random programs over both in lock step; its `price.rs` has the
//! differences that it allows, here `Price::…`.
//!
//! - One process at a time has the database open; another one gets `SQLITE_BUSY`
//!   (`another_process_waits_until_the_database_is_closed`), as do SQLite's own VFS and another copy of SQLite in the same
//!   process (`plain_sqlite_in_the_same_process_finds_it_busy`, `a_second_copy_of_sqlite_that_came_first_loses_nothing`).
//! - A child of `fork` gets `SQLITE_MISUSE` from inherited connections, and `SQLITE_BUSY` from new ones until the parent has
//!   closed the database (`a_child_cannot_use_what_it_inherited`,
//!   `a_child_has_a_database_as_soon_as_its_parent_has_closed_it`).
//! - Where read-only connections in WAL mode come before the first writer, SQLite's own VFS serves both, and nothing is saved
//!   (`connections_that_only_read_work_beside_a_writer`).
//! - A database that another program writes meanwhile, such as a restored backup, stays so: connections get `SQLITE_IOERR`,
//!   logs get other names, and stderr says so (`a_backup_that_is_copied_over_an_open_database_stays`).
//! - A second name (hard link) of an open database finds it locked (`another_name_of_an_open_database_finds_it_locked`).
//! - A path that is not UTF-8, a name longer than 247 bytes, and a file that is mounted without its directory are left to
//!   SQLite's own VFS (`names_that_are_not_utf_8_are_read_and_not_recovered`,
//!   `a_name_that_is_too_long_for_a_journal_is_left_to_sqlite`,
//!   `a_database_that_is_mounted_without_its_directory_has_no_logs_there`).
//! - The smallest window of a process's connections counts (`the_smallest_window_counts`,
//!   `a_handle_with_a_shorter_window_leaves_it_to_its_commits`).
//! - In rollback modes a reader finds the database locked while a commit syncs, at other moments (`Price::Committing`).
//! - A power cut loses up to the window, in seconds of running time: nothing is written while the machine sleeps or the process
//!   is stopped (`a_power_cut_damages_nothing_and_loses_no_more_than_the_window`).
//! - So does a process that a signal ends (SIGTERM too, without a handler), that calls `_exit`, `quick_exit` (workers of
//!   `multiprocessing`, the parent of daemon(3)) or `exec`, or `exit` in a signal handler, or closes descriptors that it does
//!   not know (`a_process_that_ends_at_once_or_closes_everything_loses_its_window`,
//!   `a_killed_process_leaves_files_that_are_checked_and_recovered`, `a_process_ends_whose_signal_handler_calls_exit`).
//! - After a crash, and in a copy made without a checkpoint, SQLite without the library reads the older, whole database of the
//!   last checkpoint (with `log=wal` what the `-wal` has), and cannot write it ("attempt to write a readonly database") until
//!   the library has recovered it (`without_the_library_there_is_an_older_database_that_cannot_be_written`,
//!   `a_copy_that_was_not_asked_for_can_be_read`).
//! - A transaction over attached databases is atomic for each file: after a crash they may differ by the commits of a window,
//!   with plain SQLite's WAL by one transaction (`both_files_are_whole_after_a_power_cut`).
//! - A database whose `-ebb` is of another time, or gone though it is needed, gives `SQLITE_CANTOPEN`; not noticed where a
//!   `-wal` has commits of a killed program, which come first (`an_older_copy_beside_a_newer_log_is_refused`,
//!   `a_log_that_lacks_what_a_checkpoint_has_placed_is_refused`, `a_database_without_its_log_is_refused`).
//! - Without room for its log a transaction gets `SQLITE_FULL` before it is committed
//!   (`what_is_acknowledged_stays_and_what_is_refused_is_not_there`).
//! - A checkpoint needs room in `-wal` for the pages changed since the last one: 64 MiB, or what one transaction changes
//!   (`on_a_disk_that_stays_full_nothing_acknowledged_is_lost`).
//! - `sqlite3_close` reports no error: the process tries again every second, and at its end. If that fails, commits since the
//!   last epoch are lost, and stderr says so (`what_closing_could_not_sync_waits_in_the_process`,
//!   `closing_is_tried_again_by_itself`).
//! - A crash may leave a commit that was refused: after the disk has failed its sync and all that would have taken it back, as
//!   with plain SQLite's WAL (`Price::InDoubt`); with `window=0` also the part in one file of what an attached database
//!   refused, while the disk has no room to take it back (`what_an_attached_database_refuses_is_taken_back_on_a_full_disk`),
//!   and until the next commit what SQLite takes back after it was durable
//!   (`a_commit_that_sqlite_takes_back_after_its_last_frame_is_not_there`; both tests without a crash).
//! - After the disk has failed a close's sync and forgotten its writes, and the process has ended, a power cut may leave the
//!   mark: plain SQLite only reads the database until the library has opened it (`Price::Dropped`).
//! - 32 MiB for each database beside SQLite's cache, or `memory`; a larger transaction goes to a file without a name beside the
//!   database, and may be written there once more (`a_transaction_larger_than_memory_goes_to_a_temporary_file`).
//! - No `-shm`; a `-wal` only in checkpoints, first epochs and with `log=wal`
//!   (`a_default_vfs_takes_the_databases_of_its_scope`); `PRAGMA mmap_size` has no effect (`mmap1.test`, in SQLite's own suite,
//!   `sqlite/suite/differs.txt`).
//! - A connection has 9 descriptors, each further one 1 more; plain SQLite in WAL mode 3, and 2 more, in others 1, and 1 more
//!   (`a_connection_has_more_descriptors_than_with_plain_sqlite`).
//! - Unknown parameters beside `vfs=ebbpool` are refused (`parameters_that_nothing_knows_are_refused`).
//! - After `sqlite3_shutdown` and `sqlite3_initialize` the default VFS is SQLite's
//!   (`after_a_shutdown_the_default_vfs_is_sqlites_own`).
//!
//! As with plain SQLite: the lock outlives a foreign `close` of the file, and a process that ends without closing loses
//! nothing.

mod code;
mod counters;
mod database_state;
mod delta_log;
#[cfg(target_os = "linux")]
pub mod discard;
mod disk;
mod drive;
mod encrypted;
pub mod ffi;
mod fork;
mod handle;
mod health;
#[cfg(target_os = "linux")]
pub mod inspect;
mod instance;
mod locks;
#[cfg(target_os = "linux")]
pub mod measure;
mod memory;
#[cfg(not(all(feature = "test-kit", debug_assertions)))]
mod mirror;
// For SQLite's own test suite. It is not among the files of the package.
#[cfg(all(feature = "test-kit", debug_assertions))]
#[path = "../tests/mirror/mod.rs"]
mod mirror;
mod options;
mod owner;
#[cfg(target_os = "linux")]
pub mod plain;
mod pragma;
#[cfg(target_os = "linux")]
pub mod preload;
#[cfg(target_os = "linux")]
pub mod requests;
mod scope;
mod shared;
mod status;
mod store;
mod sync;
mod vfs;
mod wal_log;

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::time::Duration;

pub use code::{SqliteCode, SqliteResult};
pub use instance::Instance;
pub use options::{LogKind, OptionError, Options};
pub use scope::{FILES_VARIABLE, Scope, ScopeError};
pub use status::{LEAST_SECONDS, USUAL_CARD};
use sync::{lock, lock_within};

/// The name under which SQLite finds the VFS: `vfs=ebbpool` in a URI.
pub const NAME: &CStr = c"ebbpool";

/// The VFS's instances, one for each copy of SQLite, for the end of the process.
static INSTANCES: Mutex<Vec<&'static Instance>> = Mutex::new(Vec::new());

/// Registers the VFS `ebbpool` with the SQLite that the program is linked with, over SQLite's default VFS. With
/// `as_default` every database is opened through it that names no VFS. Doing so again does no harm.
///
/// # Errors
///
/// SQLite's answer, if it refuses.
#[inline(always)]
#[allow(unsafe_code)]
pub fn register(as_default: bool) -> SqliteResult<&'static Instance> {
    // SAFETY: these are SQLite's functions.
    unsafe { register_with(linked_api(), as_default) }
}

/// The functions of the SQLite that the program is linked with.
// Only a program that calls this needs SQLite's symbols: the loadable library has none, and is not to ask for them.
#[inline(always)]
#[allow(unsafe_code)]
pub fn linked_api() -> ffi::Api {
    use ffi::Vfs;
    use std::ffi::c_char;

    unsafe extern "C" {
        fn sqlite3_vfs_find(name: *const c_char) -> *mut Vfs;
        fn sqlite3_vfs_register(vfs: *mut Vfs, as_default: c_int) -> c_int;
        fn sqlite3_open_v2(path: *const c_char, database: *mut *mut c_void, flags: c_int, vfs: *const c_char) -> c_int;
        fn sqlite3_exec(
            database: *mut c_void,
            text: *const c_char,
            each: *const c_void,
            of: *const c_void,
            error: *const c_void,
        ) -> c_int;
        fn sqlite3_close(database: *mut c_void) -> c_int;
        fn sqlite3_mprintf(format: *const c_char, ...) -> *mut c_char;
        fn sqlite3_log(code: c_int, format: *const c_char, ...);
        fn sqlite3_uri_parameter(name: *const c_char, key: *const c_char) -> *const c_char;
        fn sqlite3_initialize() -> c_int;
    }

    // SAFETY: SQLite may be initialized any number of times.
    unsafe { sqlite3_initialize() };
    ffi::Api {
        vfs_find: sqlite3_vfs_find,
        vfs_register: sqlite3_vfs_register,
        open_v2: sqlite3_open_v2,
        exec: sqlite3_exec,
        close: sqlite3_close,
        mprintf: sqlite3_mprintf,
        log: sqlite3_log,
        uri_parameter: sqlite3_uri_parameter,
    }
}

/// Registers the VFS `ebbpool` with the SQLite whose functions are passed, as [`register`] does.
///
/// # Errors
///
/// SQLite's answer, if it refuses.
///
/// # Safety
///
/// The functions are SQLite's.
#[allow(unsafe_code)]
pub unsafe fn register_with(api: ffi::Api, as_default: bool) -> SqliteResult<&'static Instance> {
    // SAFETY: the caller's.
    let instance = unsafe { vfs::register(api, NAME, None, as_default) }?;
    if as_default {
        scope::apply_to_default();
    }
    let mut instances = lock(&INSTANCES);
    if instances.is_empty() {
        // SAFETY: the function may be called at any time until the process ends.
        unsafe { libc::atexit(end_of_process) };
    }
    if !instances.iter().any(|known| std::ptr::eq(*known, instance)) {
        instances.push(instance);
    }
    Ok(instance)
}

/// Registers the VFS under another name, over the VFS called `below`: for tests on simulated disks.
///
/// # Errors
///
/// `ERROR` if there is no such VFS below, otherwise SQLite's answer.
///
/// # Safety
///
/// The functions are SQLite's.
#[allow(unsafe_code)]
pub unsafe fn register_over(api: ffi::Api, name: &'static CStr, below: &CStr) -> SqliteResult<&'static Instance> {
    // SAFETY: the caller's.
    unsafe { vfs::register(api, name, Some(below), false) }
}

/// Runs after the exit handlers and destructors of the program, which may still use databases.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
#[used]
// SAFETY: the dynamic loader calls the functions of this section when the process ends, and this one may be called at any time.
#[unsafe(link_section = ".fini_array")]
static AT_THE_VERY_END: extern "C" fn() = end_of_process;

extern "C" fn end_of_process() {
    let is_inside = code::is_inside();
    // A signal handler may have interrupted the thread that adds one, and end the process.
    let Some(instances) = lock_within(&INSTANCES, Duration::from_secs(1)).map(|instances| instances.clone()) else {
        return;
    };
    if !is_inside && !instances.is_empty() {
        scope::say_what_was_left();
    }
    for instance in instances {
        code::guarded(|| {
            instance.end_of_process(is_inside);
            Ok(())
        });
    }
}

/// Registers the VFS `ebbpool` with the SQLite whose functions are passed, as [`register`] does: for a program in C that is
/// linked with SQLite and with this library as `libebbpool_sqlite.a`. The functions are, in this order,
/// `sqlite3_vfs_find`, `sqlite3_vfs_register`, `sqlite3_open_v2`, `sqlite3_exec`, `sqlite3_close`, `sqlite3_mprintf`,
/// `sqlite3_log` and `sqlite3_uri_parameter`. Returns SQLite's result code.
///
/// It may be called from the function that SQLite is compiled with as `SQLITE_EXTRA_INIT`.
///
/// # Safety
///
/// The functions are SQLite's.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_sqlite_register(api: *const ffi::Api, as_default: c_int) -> c_int {
    // SAFETY: the caller's.
    match unsafe { register_with(*api, as_default != 0) } {
        Ok(_) => ffi::OK,
        Err(code) => code.0,
    }
}

/// Where SQLite enters the library when it is loaded: `.load libebbpool_sqlite`.
///
/// # Safety
///
/// SQLite calls this, with the table of its functions.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _database: *mut c_void,
    _error: *mut *mut c_void,
    table: *const *const c_void,
) -> c_int {
    if table.is_null() {
        // A SQLite that is built without loadable extensions passes none to automatic ones.
        return ffi::ERROR;
    }
    // SAFETY: the caller's.
    let api = unsafe { ffi::Api::from_routines(table) };
    // SAFETY: the functions are SQLite's, and the name ends with a zero.
    if !unsafe { (api.vfs_find)(NAME.as_ptr()) }.is_null() {
        // `ebbpool sqlite run` has registered it, perhaps as the default. One over the other would merge twice.
        return ffi::OK_LOAD_PERMANENTLY;
    }
    // SAFETY: the functions are SQLite's.
    match unsafe { register_with(api, false) } {
        // The VFS must stay when the connection that loaded it is closed.
        Ok(_) => ffi::OK_LOAD_PERMANENTLY,
        Err(code) => code.0,
    }
}

/// What a program in C passes to `sqlite3_auto_extension`: it registers the VFS `ebbpool` when the program opens its first
/// database. [`sqlite3_extension_init`] is for loading only: it returns `SQLITE_OK_LOAD_PERMANENTLY`, with which every opening
/// would fail.
///
/// # Safety
///
/// SQLite calls this, with the table of its functions.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbpool_sqlite_auto_init(
    database: *mut c_void,
    error: *mut *mut c_void,
    table: *const *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    match unsafe { sqlite3_extension_init(database, error, table) } {
        ffi::OK_LOAD_PERMANENTLY => ffi::OK,
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The modules from the bottom up, with what they own: each imports only those of earlier lines.
    const LAYERS: [(&str, &str); 12] = [
        ("SQLite's interface and codes", "ffi options sync code plain"),
        ("the files below, and their formats", "disk delta_log locks requests preload scope"),
        ("who has the files to itself", "owner mirror wal_log"),
        ("what is in memory only", "memory"),
        ("the log, the pool and the file in place", "store"),
        ("what others are to know", "counters encrypted health"),
        ("transactions and epochs", "database_state"),
        ("looking from outside", "inspect"),
        ("the locks of a database", "shared discard measure status"),
        ("all databases of a process", "instance"),
        ("what is done when", "drive fork pragma"),
        ("what SQLite calls", "handle vfs"),
    ];

    fn sources(directory: &Path, text: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, text),
                // Tests may look at anything.
                false => *text += fs::read_to_string(&path).unwrap().split("mod tests {").next().unwrap(),
            }
        }
    }

    #[test]
    fn modules_import_only_those_below() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let place = |module: &str| {
            let layer = LAYERS.iter().position(|(_, modules)| modules.split(' ').any(|it| it == module))?;
            Some((layer, LAYERS[layer].1.split(' ').position(|it| it == module)?))
        };
        let (mut seen, mut wrong) = (0, Vec::new());
        for module in LAYERS.iter().flat_map(|(_, modules)| modules.split(' ')) {
            let mut text = fs::read_to_string(root.join(format!("{module}.rs"))).unwrap();
            text.truncate(text.find("mod tests {").unwrap_or(text.len()));
            if root.join(module).is_dir() {
                sources(&root.join(module), &mut text);
            }
            for import in text.split("crate::").skip(1) {
                let end = import.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(import.len());
                let import = &import[..end];
                if import != module && place(import).is_some() {
                    seen += 1;
                    if place(import) > place(module) {
                        wrong.push(format!("{module} imports {import}"));
                    }
                }
            }
        }
        assert!(seen > 50 && wrong.is_empty(), "of {seen} imports these lead up: {wrong:?}");
    }
}

//! Running MySQL and MariaDB servers.

use std::path::Path;

use super::programs::{FUNCTIONS, RequestFunction};
use crate::elf::ElfProgram;
use crate::error::CaptureError;
use crate::foreign::{self, ProgramFile};
use crate::target::Process;

/// InnoDB's page size unless a server says another one.
const DEFAULT_PAGE_SIZE: u64 = 16384;

/// Sizes of the buffer pool from this one on are no sizes.
const MAX_POOL_BYTES: u64 = 1 << 48;

/// A function that requests pages, and its address in the file.
#[derive(Clone, Debug)]
pub(super) struct RequestSite {
    pub(super) symbol: String,
    pub(super) address: u64,
    pub(super) function: RequestFunction,
}

/// A running server.
#[derive(Debug)]
pub struct MysqlServer {
    /// The server's process.
    pub process: Process,
    /// The data directory, as the server sees it.
    pub data: String,
    /// Bytes of a page.
    pub page_size: u64,
    /// `innodb_buffer_pool_size` in pages, where the program says it.
    pub frames: Option<u64>,
    /// The program's file, as the server sees it.
    pub program_name: String,
    pub(super) file: ProgramFile,
    pub(super) program: ElfProgram,
    pub(super) displacement: u64,
    pub(super) sites: Vec<RequestSite>,
}

/// Processes that run `mysqld` or `mariadbd`.
pub fn servers() -> Vec<Process> {
    let mut all = Process::all();
    all.retain(|process| {
        let command = process.command();
        command.is_some_and(|name| matches!(name.as_str(), "mysqld" | "mariadbd"))
    });
    all
}

/// True if the program is called as those of the servers are.
fn is_server(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    name.starts_with("mysqld") || name.starts_with("mariadbd")
}

/// The server with this number, or the only one.
pub(super) fn choose(pid: Option<i32>) -> Result<Process, CaptureError> {
    if let Some(pid) = pid {
        return Ok(Process(pid));
    }
    Process::only("MySQL", &servers())
}

/// The functions that request pages, by the symbols of a program or of a file with its debug symbols.
///
/// # Errors
///
/// [`CaptureError::Build`] if the symbols are missing.
pub(super) fn request_sites(program_name: &str, symbols: &ElfProgram) -> Result<Vec<RequestSite>, CaptureError> {
    let is_mariadb = symbols.symbol_beginning("_Z16buf_page_get_gen9page_id_t").is_some();
    let sites: Vec<RequestSite> = FUNCTIONS
        .into_iter()
        .filter_map(|name| {
            let prefix = format!("_Z{}{name}", name.len());
            let (symbol, address) = symbols.symbol_beginning(&prefix)?;
            let function = RequestFunction::of_symbol(symbol, is_mariadb)?;
            Some(RequestSite { symbol: symbol.to_owned(), address, function })
        })
        .collect();
    if sites.iter().any(|site| site.symbol.contains(FUNCTIONS[0])) {
        return Ok(sites);
    }
    let identity = match symbols.build_id() {
        "" => String::new(),
        identity => format!(" (build-id {identity})"),
    };
    Err(CaptureError::Build {
        program: program_name.to_owned(),
        problem: format!(
            "it hides buf_page_get_gen{identity}, as MariaDB does and MySQL from 8.0 on does not"
        ),
        remedy: "give --symbols with the file of debug symbols of the same build, which Debian has in its packages *-dbgsym; or set the smallest innodb_buffer_pool_size, and let `ebbpool capture process` see the reads and writes".into(),
    })
}

/// Reads the file of debug symbols of a program.
fn debug_symbols(path: &Path, program: &ElfProgram) -> Result<ElfProgram, CaptureError> {
    let name = path.display().to_string();
    let symbols = ElfProgram::read(&name)?;
    if symbols.build_id().is_empty() || symbols.build_id() != program.build_id() {
        return Err(CaptureError::malformed(
            name,
            format!("it is of another build: its build-id is '{}', the server's '{}'", symbols.build_id(), program.build_id()),
        ));
    }
    Ok(symbols)
}

impl MysqlServer {
    /// Looks at a server; `symbols` is a file with the debug symbols of its program.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if there is no such process, if its program hides what is needed, if the file of symbols is of
    /// another build, or if the program was replaced since it started.
    pub fn open(process: Process, symbols: Option<&Path>) -> Result<MysqlServer, CaptureError> {
        let program_name = process.program()?;
        let exe = process.path("exe");
        let file = ProgramFile::open(&exe, &process.path("mountinfo")).map_err(CaptureError::read(exe))?;
        let program = ElfProgram::of_file(&file, &program_name)?;
        let separate = match symbols {
            Some(path) => Some(debug_symbols(path, &program)?),
            None => None,
        };
        let symbols = separate.as_ref().unwrap_or(&program);
        let sites = request_sites(&program_name, symbols).map_err(|error| match is_server(&program_name) {
            true => error,
            false => CaptureError::NotFound(format!("process {} is no MySQL server: it runs {program_name}", process.0)),
        })?;
        let displacement = process.displacement(&program, &program_name).ok_or_else(|| CaptureError::Build {
            program: program_name.clone(),
            problem: "the running program is not the one in this file".into(),
            remedy: "restart the server, which was upgraded while it ran".into(),
        })?;
        let number = |symbol: &str| {
            let address = symbols.symbol(symbol)?.wrapping_add(displacement);
            let mut bytes = [0; 8];
            let read = process.read_memory(address, &mut bytes);
            read.then_some(u64::from_le_bytes(bytes))
        };
        let page_size = number("srv_page_size")
            .filter(|size| size.is_power_of_two() && (4096..=65536).contains(size))
            .unwrap_or(DEFAULT_PAGE_SIZE);
        // The first one is the size that the server has now. A server that starts has neither yet: 0, or all bits set.
        let pool = ["srv_buf_pool_curr_size", "srv_buf_pool_size"]
            .into_iter()
            .filter_map(number)
            .find(|&bytes| bytes > 0 && bytes < MAX_POOL_BYTES);
        let data = foreign::link_text(&process.path("cwd")).map_err(CaptureError::read("cwd"))?;
        Ok(MysqlServer {
            process,
            data,
            page_size,
            frames: pool.map(|bytes| bytes / page_size),
            program_name,
            file,
            displacement,
            sites,
            program,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_hide_their_functions_are_refused_with_a_remedy() {
        let own = ElfProgram::read("/proc/self/exe").expect("a program");
        let error = request_sites("/usr/sbin/mariadbd", &own).expect_err("none");
        let text = error.to_string();
        assert!(text.starts_with("/usr/sbin/mariadbd: it hides"), "{text}");
        assert!(text.contains("--symbols") && text.contains("capture process"));
    }

    #[test]
    fn other_programs_are_no_servers() {
        let error = MysqlServer::open(Process::current(), None).expect_err("no server");
        let text = error.to_string();
        assert!(text.contains("is no MySQL server: it runs /"), "{text}");
        assert!(is_server("/usr/sbin/mysqld (deleted)") && !is_server("/usr/bin/mysql"));
    }

    #[test]
    fn symbols_of_another_build_are_refused() {
        let own = ElfProgram::read("/proc/self/exe").expect("a program");
        let mappings = Process::current().mappings();
        let library = mappings.iter().find(|it| it.path.contains("libc.so"));
        if let Some(library) = library {
            let error = debug_symbols(Path::new(&library.path), &own);
            let error = error.expect_err("another build").to_string();
            assert!(error.contains("of another build"), "{error}");
        }
        assert!(debug_symbols(Path::new("/dev/null"), &own).is_err());
    }
}

//! `ebbpool sqlite run`: starts a program with the VFS preloaded.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ebbpool_sqlite::preload::{LIBRARY, VARIABLE, can_be_loaded};
use ebbpool_sqlite::{FILES_VARIABLE, Options, Scope};

use super::args::SqliteRunArgs;
use super::error::SqliteError;
use super::libraries;
use super::program::{obstacle, stands_before_sqlite};
use crate::progress::report_note;

/// The environment variable with the options of the VFS.
const OPTIONS: &str = "EBBPOOL_SQLITE";
/// The environment variable with the library to preload.
const LIBRARY_VARIABLE: &str = "EBBPOOL_SQLITE_LIBRARY";
const PRELOAD: &str = "LD_PRELOAD";
/// Seconds: where the program cannot say what it can lose, the user calls this command because a card wears out.
const USUAL_WINDOW: &str = "30";

pub(super) fn run(args: &SqliteRunArgs) -> Result<(), SqliteError> {
    let options = options(args, &variable(OPTIONS)?.unwrap_or_default())?;
    let library = match &args.library {
        Some(path) => library(Some(path))?,
        None => library(env::var_os(LIBRARY_VARIABLE).map(PathBuf::from).as_deref())?,
    };
    let mut variables = vec![(PRELOAD, preload(&library)?), (VARIABLE, "1".into()), (OPTIONS, options.into())];
    variables.extend(files(&args.only)?.map(|files| (FILES_VARIABLE, files.into())));
    let Some((program, arguments)) = args.program.split_first() else {
        if libraries::is_private(&library) {
            report_note(&format!(
                "only this user can load {}; for a program of another one write the libraries where all can, with: ebbpool sqlite libraries /usr/local/lib, and name that with --library",
                library.display()
            ));
        } else if libraries::is_cached(&library) {
            report_note(&format!(
                "{} is among cached files, which may be removed at any time; for a service write the libraries where they stay, with: ebbpool sqlite libraries /usr/local/lib, and name that with --library",
                library.display()
            ));
        }
        return show(&variables);
    };
    if !args.force
        && let Some(found) = obstacle(&args.program, &library)
    {
        return Err(SqliteError::NotPreloaded { path: found.path, why: found.obstacle.to_string() });
    }
    #[cfg(all(feature = "capture", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if let Some(output) = &args.capture {
        let preload = (PRELOAD, preload(&library)?);
        let captured = super::captured::run(&args.program, preload, output, args.references);
        return captured.map_err(|failure| SqliteError::Passed(Box::new(failure)));
    }
    // The program takes this process over, so that its signals and its exit code are its own.
    let source = Command::new(program).args(arguments).envs(variables).exec();
    Err(not_started(&program.to_string_lossy(), source))
}

pub(super) fn not_started(program: &str, source: io::Error) -> SqliteError {
    let program = program.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => SqliteError::NoProgram { program, source },
        _ => SqliteError::Program { program, source },
    }
}

/// The text of an environment variable, if it is set.
fn variable(name: &'static str) -> Result<Option<String>, SqliteError> {
    let text = env::var_os(name).map(OsString::into_string).transpose();
    text.map_err(|_| SqliteError::NotUnicode { name })
}

/// The databases that go through the VFS: those of the command line, or those of the environment.
fn files(only: &[String]) -> Result<Option<String>, SqliteError> {
    for pattern in only {
        let wrong = |why| SqliteError::Only { pattern: pattern.clone(), why };
        Scope::parse(pattern).map_err(|error| wrong(error.why()))?;
        if pattern.starts_with('/') && Path::new(pattern).is_dir() {
            return Err(wrong(Scope::OF_DIRECTORY));
        }
    }
    let files = match only {
        [] => variable(FILES_VARIABLE)?,
        only => Some(only.join(":")),
    };
    if let Some(files) = &files {
        Scope::parse(files)?;
    }
    Ok(files)
}

/// Prints the variables, a line for each, as `Environment=` of systemd takes them.
fn show(variables: &[(&'static str, OsString)]) -> Result<(), SqliteError> {
    let mut text = Vec::new();
    for (name, value) in variables {
        let value = value.as_bytes();
        if value.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return Err(SqliteError::LineBreak { name });
        }
        text.extend(shown(name, value));
        text.push(b'\n');
    }
    io::stdout().lock().write_all(&text).map_err(SqliteError::Output)
}

/// A variable as a word of `Environment=`, in quotes where it needs some.
fn shown(name: &str, value: &[u8]) -> Vec<u8> {
    let is_special = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\');
    let needs_quotes = value.iter().any(is_special);
    let mut word = format!("{name}=").into_bytes();
    for byte in value {
        match byte {
            b'"' | b'\\' => word.extend([b'\\', *byte]),
            // Otherwise it begins one of systemd's specifiers.
            b'%' => word.extend(b"%%"),
            byte => word.push(*byte),
        }
    }
    match needs_quotes {
        true => [&b"\""[..], &word, b"\""].concat(),
        false => word,
    }
}

/// The options of the environment, then those of the command line, of which the last one counts.
fn options(args: &SqliteRunArgs, environment: &str) -> Result<String, SqliteError> {
    let mut text = environment.trim_matches('&').to_owned();
    let has_window = text.split('&').any(|option| option.starts_with("window="));
    let usual_window = (!has_window).then_some(USUAL_WINDOW);
    let named = [
        ("window", args.window.as_deref().or(usual_window)),
        ("log", args.log.as_deref()),
        ("memory", args.memory.as_deref()),
        ("log_limit", args.log_limit.as_deref()),
        ("checkpoint_age", args.checkpoint_age.as_deref()),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            let separator = if text.is_empty() { "" } else { "&" };
            text += &format!("{separator}{name}={value}");
        }
    }
    Options::default().set_from_text(&text)?;
    Ok(text)
}

/// The library to preload: the one that the user names, else the one that this program carries, which always fits it.
fn library(named: Option<&Path>) -> Result<PathBuf, SqliteError> {
    let absolute = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    if let Some(path) = named {
        let missing = || SqliteError::MissingLibrary { path: path.into() };
        let library = absolute(path).ok_or_else(missing)?;
        if !stands_before_sqlite(&library) {
            return Err(SqliteError::OtherLibrary { path: path.into() });
        }
        let loaded = File::open(&library).and_then(|file| can_be_loaded(&file));
        return match loaded {
            Ok(()) => Ok(library),
            Err(source) => Err(SqliteError::NotLoadable { path: library, source }),
        };
    }
    if let Some(carried) = libraries::preloaded() {
        return carried.file();
    }
    let mut found = libraries::installed(LIBRARY).into_iter();
    found.next().ok_or(SqliteError::NoLibrary)
}

/// The library before those that are preloaded already.
fn preload(library: &Path) -> Result<OsString, SqliteError> {
    if libraries::has_separator(library) {
        return Err(SqliteError::UnusablePath { path: library.into() });
    }
    let mut list = OsString::from(library);
    if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

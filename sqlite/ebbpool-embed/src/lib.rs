//! Puts shared libraries into a program: those that cargo builds in the same build, for the same processor and with the same
//! profile, since the program depends on their packages.
//!
//! A package with the crate types `cdylib` and `rlib` becomes both files when it is a dependency, one beside the other, and
//! cargo names the second one to the compiler. Which directory that is only the compiler's arguments say, so this is a macro,
//! not a build script: when one of those runs, the libraries are not there yet.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro::{TokenStream, TokenTree};

/// The bytes of the shared library that cargo has built for a dependency, as `Option<&'static [u8]>`: its crate is named as
/// in code, `embedded_library!(my_library)`. `None` where there is no such file: when the code is only checked, and for
/// targets without shared libraries.
#[proc_macro]
pub fn embedded_library(input: TokenStream) -> TokenStream {
    let mut tokens = input.into_iter();
    let (Some(TokenTree::Ident(name)), None) = (tokens.next(), tokens.next()) else {
        return code("::core::compile_error!(\"name one crate: embedded_library!(my_library)\")");
    };
    let arguments = with_files(env::args_os());
    let name = name.to_string();
    let code_of = |library: &Path| {
        let path = library.canonicalize().ok()?;
        // `{:?}` of a text is a literal of Rust.
        Some(format!(
            "{{ const BYTES: &[u8] = ::core::include_bytes!({:?}); ::core::option::Option::Some(BYTES) }}",
            path.to_str()?
        ))
    };
    let none = "::core::option::Option::<&'static [u8]>::None";
    let found = library(&name, &arguments);
    code(&found.and_then(|it| code_of(&it)).unwrap_or(none.into()))
}

fn code(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

/// The arguments, with those that are in files (`@FILE`), where a command line would be too long.
fn with_files(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all = Vec::new();
    for argument in arguments {
        let file = argument.to_str().and_then(|it| it.strip_prefix('@'));
        match file.and_then(|file| fs::read_to_string(file).ok()) {
            Some(text) => all.extend(text.lines().map(OsString::from)),
            None => all.push(argument),
        }
    }
    all
}

/// The shared library beside the one that the compiler's arguments name for a crate.
fn library(name: &str, arguments: &[OsString]) -> Option<PathBuf> {
    let mut after_extern = false;
    let mut paths = Vec::new();
    for argument in arguments {
        let Some(text) = argument.to_str() else {
            after_extern = false;
            continue;
        };
        let value = match text.strip_prefix("--extern=") {
            Some(value) => Some(value),
            None => after_extern.then_some(text),
        };
        after_extern = text == "--extern";
        let Some((options, path)) = value.and_then(|value| value.split_once('=')) else {
            continue;
        };
        // Options come before the name: `--extern noprelude:name=path`.
        if options.rsplit(':').next() == Some(name) {
            paths.push(PathBuf::from(path));
        }
    }
    // Where code is only checked, the file is one of names and types. A shared library beside it is of another build.
    let is_built = |path: &PathBuf| path.extension() != Some(OsStr::new("rmeta"));
    let mut libraries = paths.into_iter().filter(is_built).map(|path| path.with_extension("so"));
    libraries.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, arguments: &[&str]) -> Option<PathBuf> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        library(name, &arguments)
    }

    #[test]
    fn the_library_is_beside_the_file_that_the_compiler_reads() {
        let directory = env::temp_dir().join(format!("ebbpool-embed-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let at = |name: &str| directory.join(name).display().to_string();
        fs::write(at("liba_b-12.so"), "").expect("a file");
        let (rlib, rmeta) = (at("liba_b-12.rlib"), at("liba_b-12.rmeta"));
        let wanted = Some(directory.join("liba_b-12.so"));
        assert_eq!(found("a_b", &["--extern", &format!("a_b={rlib}")]), wanted);
        assert_eq!(found("a_b", &[&format!("--extern=a_b={rlib}")]), wanted);
        let with_options = format!("priv,noprelude:a_b={rlib}");
        assert_eq!(found("a_b", &["--extern", &with_options]), wanted);
        for other in [
            &["--extern", &format!("b={rlib}")][..],
            &["--extern", &format!("a_b={rmeta}")],
            &["--extern", &format!("a_b={}", at("libc.rlib"))],
            &["--cfg", &format!("a_b={rlib}")],
            &["--extern", "a_b"],
            &[],
        ] {
            assert_eq!(found("a_b", other), None, "{other:?}");
        }
        // A command line that was too long.
        let file = at("arguments");
        fs::write(&file, format!("--extern\na_b={rlib}\n")).expect("a file");
        let arguments = with_files([OsString::from(format!("@{file}"))].into_iter());
        assert_eq!(library("a_b", &arguments), wanted);
        fs::remove_dir_all(&directory).expect("the directory is there");
    }
}

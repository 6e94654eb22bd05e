//! Completions and manual pages, as a shell and `man` take them.
#![cfg(unix)]

use std::fs;
use std::process::Command;

fn ebbpool(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_ebbpool"))
        .args(args)
        .output()
        .expect("ebbpool starts")
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// What bash offers for the last of `words`.
fn bash_offers(words: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("ebbpool.bash");
    fs::write(&script, ebbpool(&["completions", "bash"]).stdout).expect("a script");
    let code = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; \
         _ebbpool ebbpool \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words
            .iter()
            .map(|word| format!("'{word}' "))
            .collect::<String>(),
        words.len() - 1
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &code])
        .output()
        .expect("bash starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let offered = String::from_utf8(output.stdout).expect("text");
    offered.lines().map(str::to_string).collect()
}

#[test]
fn bash_offers_commands_policies_and_formats() {
    if !runs("bash") {
        return;
    }
    assert_eq!(
        bash_offers(&["ebbpool", "comp"]),
        ["compare", "completions"]
    );
    let policies = bash_offers(&["ebbpool", "run", "--policy", "fd-"]);
    assert_eq!(policies, ["fd-static", "fd-buffer", "fd-exact"]);
    assert_eq!(
        bash_offers(&["ebbpool", "policies", "cflru-"]),
        ["cflru-c", "cflru-e"]
    );
    let formats = bash_offers(&["ebbpool", "compare", "--trace-format", "u3"]);
    assert_eq!(formats, ["u32"]);
    assert_eq!(bash_offers(&["ebbpool", "trace", "con"]), ["convert"]);
}

#[test]
fn every_shell_has_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = ebbpool(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).expect("text");
        for word in ["compare", "policies", "--asymmetry", "cluster-size"] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(ebbpool(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn manual_pages_are_written_and_man_shows_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path in UTF-8");
    let output = ebbpool(&["man", path]);
    assert!(output.status.success());
    let pages = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = pages
        .lines()
        .filter_map(|page| page.rsplit('/').next())
        .collect();
    for name in ["ebbpool.1", "ebbpool-compare.1", "ebbpool-trace-convert.1"] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    assert_eq!(
        fs::read_dir(directory.path()).expect("pages").count(),
        names.len()
    );
    if !runs("man") {
        return;
    }
    for page in pages.lines() {
        let shown = Command::new("man")
            .args(["--warnings", "-l", page])
            .env("LC_ALL", "C.UTF-8")
            .env("MANPAGER", "cat")
            .env("MANWIDTH", "80")
            .output()
            .expect("man starts");
        let errors = String::from_utf8_lossy(&shown.stderr);
        assert!(
            shown.status.success() && errors.is_empty(),
            "{page}: {errors}"
        );
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(
            text.contains("SYNOPSIS") && text.contains("xample"),
            "{page}"
        );
    }
}

#[test]
fn manual_pages_need_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("a file");
    for path in [file, directory.path().join("missing")] {
        let output = ebbpool(&["man", path.to_str().expect("a path in UTF-8")]);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("is no directory"), "{message}");
    }
}

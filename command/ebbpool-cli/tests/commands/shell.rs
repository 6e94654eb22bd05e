//! Tests of completions in a shell, and of manual pages in `man`.
#![cfg(unix)]

use std::process::Command;

use crate::harness::Ebbpool;

crate::table::table!("completions");

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// The completions that bash offers for the last of `words`.
fn bash_offers(words: &[&str]) -> Vec<String> {
    let ebbpool = Ebbpool::in_scratch();
    let script = ebbpool.file("ebbpool.bash", ebbpool.stdout(&["completions", "bash"]));
    let code = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; \
         _ebbpool ebbpool \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script,
        words.iter().map(|word| format!("'{word}' ")).collect::<String>(),
        words.len() - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &code]).output().expect("bash starts");
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
    assert_eq!(bash_offers(&["ebbpool", "comp"]), ["compare", "completions"]);
    let policies = bash_offers(&["ebbpool", "run", "--policy", "fd-"]);
    assert_eq!(policies, ["fd-static", "fd-buffer", "fd-exact"]);
    assert_eq!(bash_offers(&["ebbpool", "policies", "cflru-"]), ["cflru-c", "cflru-e"]);
    let formats = bash_offers(&["ebbpool", "compare", "--trace-format", "u3"]);
    assert_eq!(formats, ["u32"]);
    assert_eq!(bash_offers(&["ebbpool", "trace", "con"]), ["convert"]);
    let lists = bash_offers(&["ebbpool", "compare", "--policies", "lru,cflru-"]);
    assert_eq!(lists, ["lru,cflru-c", "lru,cflru-e"]);
    for words in [&["ebbpool", "devices", "sd-a"][..], &["ebbpool", "advise", "--device", "sd-a"]] {
        assert!(bash_offers(words).contains(&"sd-a1".into()), "{words:?}");
    }
    assert_eq!(bash_offers(&["ebbpool", "schema", "trace"]), ["trace-info"]);
    assert_eq!(bash_offers(&["ebbpool", "trace", "generate", "scan-m"]), ["scan-mix"]);
    assert!(bash_offers(&["ebbpool", "reproduce", "cikm-"]).contains(&"cikm-table2".into()));
}

#[test]
fn manual_pages_are_written_and_man_shows_them() {
    let ebbpool = Ebbpool::in_scratch();
    let pages = ebbpool.stdout(&["man", &ebbpool.named("")]);
    let names: Vec<&str> = pages.lines().filter_map(|page| page.rsplit('/').next()).collect();
    for name in ["ebbpool.1", "ebbpool-compare.1", "ebbpool-trace-convert.1"] {
        assert!(names.contains(&name), "{name} is missing from {names:?}");
    }
    assert_eq!(ebbpool.names().len(), names.len());
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
        assert!(shown.status.success() && errors.is_empty(), "{page}: {errors}");
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains("SYNOPSIS") && text.contains("xample"), "{page}");
    }
}

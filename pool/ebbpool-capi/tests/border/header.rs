//! The header says what the library has.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use ebbpool_capi::log::LogCallbacks;
use ebbpool_capi::options::{FileSettings, PoolSettings};
use ebbpool_capi::pages::FixedPage;
use ebbpool_capi::policy::EvictionPlan;
use ebbpool_capi::stats::PoolFigures;
use ebbpool_capi::storage::StorageCallbacks;

use crate::programs::{CRATE, is_there, run, skipped};

fn header() -> String {
    fs::read_to_string(Path::new(CRATE).join("include/ebbpool.h")).expect("the header")
}

fn sources() -> String {
    let files = fs::read_dir(Path::new(CRATE).join("src")).expect("the sources");
    let paths = files.map(|file| file.expect("a file").path());
    paths.map(|path| fs::read_to_string(path).expect("a source")).collect()
}

/// The number of arguments of each function, where the name stands after `before` and in front of a parenthesis.
fn functions(text: &str, before: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for rest in text.split(before).skip(1) {
        let name: String = rest.chars().take_while(|&it| it.is_alphanumeric() || it == '_').collect();
        let Some(list) = rest[name.len()..].strip_prefix('(') else {
            continue;
        };
        let (mut depth, mut commas, mut last) = (1, 0, ' ');
        for it in list.chars() {
            match it {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 1 => commas += 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if !it.is_whitespace() {
                last = it;
            }
        }
        let arguments = match last {
            ' ' => 0,
            // Rust's last argument may have a comma behind it.
            ',' => commas,
            _ if list.starts_with("void)") => 0,
            _ => commas + 1,
        };
        found.insert(name, arguments);
    }
    found
}

#[test]
fn the_header_has_every_function_with_its_arguments() {
    let declared: BTreeMap<_, _> = ["ebbpool_status ", "char *", "uint32_t ", "int32_t "]
        .iter()
        .flat_map(|before| functions(&header(), before))
        .filter(|(name, _)| name.starts_with("ebbpool_"))
        .collect();
    let defined = functions(&sources(), "extern \"C\" fn ");
    let defined: BTreeMap<_, _> = defined.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    assert_eq!(declared, defined, "run cbindgen as cbindgen.toml says, and commit the header");
    assert!(defined.len() > 35);
}

#[test]
fn the_header_has_every_constant_with_its_value() {
    let declared: BTreeMap<String, String> = header()
        .lines()
        .filter_map(|line| line.strip_prefix("#define EBBPOOL_")?.split_once(' '))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let defined: BTreeMap<String, String> = sources()
        .lines()
        .filter_map(|line| line.strip_prefix("pub const EBBPOOL_"))
        .filter_map(|rest| {
            let (name, rest) = rest.split_once(':')?;
            let (_, value) = rest.split_once(" = ")?;
            Some((name.into(), value.trim_end_matches(';').into()))
        })
        .collect();
    assert_eq!(declared, defined);
    assert!(defined.len() > 30);
}

macro_rules! layout {
    ($text:ident, $type:ty, $name:literal: $($field:ident)*) => {
        let size = size_of::<$type>();
        let (name, alignment) = ($name, align_of::<$type>());
        writeln!($text, "_Static_assert(sizeof({name}) == {size}, \"size of {name}\");").expect("text");
        writeln!($text, "_Static_assert(_Alignof({name}) == {alignment}, \"alignment of {name}\");").expect("text");
        $(
            let (field, offset) = (stringify!($field), offset_of!($type, $field));
            writeln!($text, "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");")
                .expect("text");
        )*
    };
}

#[test]
fn structs_have_the_layout_of_the_header() {
    if !is_there("cc") {
        return;
    }
    let mut text = String::from("#include <stddef.h>\n#include <ebbpool.h>\n");
    layout!(text, FixedPage, "ebbpool_page": token number lsn data length);
    layout!(text, EvictionPlan, "ebbpool_eviction":
        frame together_count also_evicted_count block_pages together also_evicted);
    layout!(text, FileSettings, "ebbpool_file_options": struct_size flags page_size queue_depth);
    layout!(text, PoolSettings, "ebbpool_pool_options":
        struct_size flags frames memory_bytes policy read_cost write_cost log double_write_path identity patience_ms
        max_dirty_age_ms dirty_budget most_delay_us clean_reserve batch dense_pages);
    layout!(text, StorageCallbacks, "ebbpool_storage":
        struct_size context page_size read_at write_at sync length set_length release);
    layout!(text, LogCallbacks, "ebbpool_log": struct_size context durable_lsn flush_to end_lsn release);
    layout!(text, PoolFigures, "ebbpool_stats":
        struct_size page_size payload_size pages frames resident dirty fixed hits misses pages_read read_for_misses
        read_ahead pages_written written_for_evictions written_by_checkpoints written_in_background flushed
        double_write_pages write_calls syncs log_flushes failed_reads failed_writes waits_for_latches waits_for_writes
        waits_for_frames delays delayed_us sync_failed read_cost write_cost);
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("layout.c");
    fs::write(&source, text).expect("a file");
    let compile = |compiler: &str, arguments: &[&str]| {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        command.arg("-I").arg(Path::new(CRATE).join("include")).args(arguments);
        run(command.arg(&source));
    };
    compile("cc", &["-std=c11", "-pedantic"]);
    if is_there("c++") {
        let defines = ["-D_Static_assert=static_assert", "-D_Alignof=alignof"];
        compile("c++", &[&["-x", "c++", "-std=c++11", "-pedantic"][..], &defines].concat());
    }
}

/// Where the version of cbindgen that wrote the header is installed, the header is exactly what it writes.
#[test]
fn the_header_is_up_to_date() {
    let version = Command::new("cbindgen").arg("--version").output();
    let is_right = |text: &[u8]| text.starts_with(b"cbindgen 0.29.");
    if !version.is_ok_and(|output| is_right(&output.stdout)) {
        skipped("there is no program cbindgen of version 0.29");
        return;
    }
    run(Command::new("cbindgen")
        .current_dir(CRATE)
        .args(["-q", "--config", "cbindgen.toml", "--verify", "--output", "include/ebbpool.h"]));
}

//! The header says what the library has.

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

use crate::programs::{CRATE, is_there, run};

fn header() -> String {
    fs::read_to_string(Path::new(CRATE).join("include/ebbpool.h")).expect("the header")
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
        max_dirty_age_ms dirty_budget most_delay_us clean_reserve batch dense_pages most_pages on_fix
        on_fix_context most_frames);
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

/// The header is exactly what cbindgen writes.
#[test]
fn the_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(format!("{CRATE}/cbindgen.toml")).unwrap();
    let mut written = Vec::new();
    cbindgen::generate_with_config(CRATE, config).unwrap().write(&mut written);
    assert!(header() == String::from_utf8(written).unwrap(), "run cbindgen as cbindgen.toml says, and commit the header");
}

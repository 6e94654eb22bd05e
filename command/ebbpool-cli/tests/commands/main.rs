//! Tests of the command from the outside: results, one-line errors, exit codes, and files that it must not
//! change. All modules are in one program, because linking a test program takes long.

mod advise;
mod bound;
mod cache;
mod capture;
mod compare;
mod curve;
mod db;
mod devices;
mod diff;
mod documents_picture;
mod examples;
mod harness;
mod informed;
mod measure;
mod policies;
mod recipes;
mod release_script;
mod replay;
mod reproduce;
mod run;
mod schema;
mod shell;
mod sizes {
    crate::table::table!("sizes");
}
mod sqlite;
mod sqlite_capture;
mod sqlite_check;
mod sqlite_health;
mod sqlite_libraries;
mod sqlite_names;
mod sqlite_program;
mod sqlite_system;
mod table;
mod test_script;
mod trace;

/// What takes long, and what hardly a mutant needs.
#[path = "."]
mod slow {
    mod documents;
    mod kill;
    mod texts;
}

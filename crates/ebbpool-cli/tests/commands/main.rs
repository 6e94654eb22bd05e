//! The command as its users meet it: results, errors of one line, exit codes, files left alone. A module for
//! each command, in one program, since each test program takes long to link.

mod bound;
mod cache;
mod compare;
mod curve;
mod db;
mod devices;
mod documents;
mod examples;
mod harness;
mod kill;
mod measure;
mod policies;
mod replay;
mod reproduce;
mod run;
mod shell;
mod texts;
mod trace;

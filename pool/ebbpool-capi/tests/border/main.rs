//! The library as a program in C has it: its header, its functions, and what it refuses.

#![cfg(unix)]

mod any_calls;
mod header;
mod policies;
mod programs;
mod regions;

//! The library as a program in C has it: its header, its functions, and what it refuses.

mod any_calls;
mod header;
mod policies;
mod programs;
mod regions;

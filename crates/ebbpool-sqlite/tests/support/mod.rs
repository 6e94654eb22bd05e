//! What the tests share.
#![allow(dead_code)]

pub mod cases;
pub mod faulty_vfs;
pub mod workload;

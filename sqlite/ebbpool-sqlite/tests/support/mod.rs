//! What the tests share.
#![allow(dead_code)]

pub mod actor;
pub mod between;
pub mod cases;
pub mod faulty_vfs;
pub mod ledger;
pub mod real;
pub mod shim;
pub mod workload;

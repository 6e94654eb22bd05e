//! The machines of both worlds, with the VFSes of their processes.

use std::ffi::CStr;

use ebbpool_sqlite::Instance;

use crate::machine::Machine;
use crate::points;

/// The machines of both worlds, and one on which states are looked at.
pub struct Bench {
    pub ours: &'static Machine,
    pub plain: &'static Machine,
    pub scratch: &'static Machine,
    pub instances: [&'static Instance; 2],
    pub ours_names: [[&'static CStr; 2]; 2],
    pub plain_names: [[&'static CStr; 2]; 2],
    pub scratch_name: &'static CStr,
}

impl Bench {
    pub fn new() -> Bench {
        let [ours, plain, scratch] = [true, false, false].map(Machine::new);
        let mut instances = Vec::new();
        let mut ours_names = [[c""; 2]; 2];
        let mut plain_names = ours_names;
        for process in 0..2 {
            let below = ours.register(process, &format!("judge-disk-{process}"));
            let name: &'static CStr = match process {
                0 => c"judge-library-0",
                _ => c"judge-library-1",
            };
            // SAFETY: the functions are those of the SQLite that the tests are linked with.
            #[allow(unsafe_code)]
            let instance = unsafe { ebbpool_sqlite::register_over(ebbpool_sqlite::linked_api(), name, below) };
            instances.push(instance.unwrap());
            ours_names[0][process] = points::register(&format!("judge-ours-{process}"), name);
            ours_names[1][process] = points::register(&format!("judge-other-{process}"), below);
            let below = plain.register(process, &format!("judge-plain-disk-{process}"));
            let name = points::register(&format!("judge-plain-{process}"), below);
            (plain_names[0][process], plain_names[1][process]) = (name, name);
        }
        Bench {
            ours,
            plain,
            scratch,
            instances: [instances[0], instances[1]],
            ours_names,
            plain_names,
            scratch_name: scratch.register(0, "judge-scratch"),
        }
    }
}

//! The system calls that transfer bytes, by their numbers, and where the kernel stores their arguments.

use crate::arch::Arch;

/// System calls of an architecture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    /// `read`, `pread64`, `readv`, `preadv`, `preadv2`.
    pub(super) reads: &'static [i32],
    /// `write`, `pwrite64`, `writev`, `pwritev`, `pwritev2`.
    pub(super) writes: &'static [i32],
    /// Those of them that have a position of their own: `pread64`, `pwrite64`, `preadv`, `pwritev`.
    pub(super) positioned: &'static [i32],
    /// Those of them that have one unless it is -1: `preadv2`, `pwritev2`.
    pub(super) perhaps_positioned: &'static [i32],
    /// `fsync`, `fdatasync`, `sync_file_range`, `msync`, `syncfs`, `sync`.
    pub(super) syncs: &'static [i32],
    /// Those whose transfers are not seen: `io_submit`, `sendfile`, `copy_file_range`.
    pub(super) unseen: &'static [i32],
    /// What the names of the kernel's functions for calls begin with.
    pub(super) prefix: &'static str,
    /// The calls of `syncs` by their names.
    pub(super) named_syncs: &'static [&'static str],
    /// Those whose transfers are not seen, by their names, and bytes to the descriptor that decides whether a file is transferred. Of
    /// `splice` one of two is a pipe.
    pub(super) named_unseen: &'static [(&'static str, Option<i32>)],
    /// Bytes from the start of `struct pt_regs` to the number of the call.
    pub(super) number: i32,
    /// To the first argument as it was at the call's beginning: the descriptor.
    pub(super) descriptor: i32,
    /// To the fourth argument: the position.
    pub(super) position: i32,
    /// To the third and the fifth argument.
    pub(super) third: i32,
    pub(super) fifth: i32,
    /// `mmap`, and `splice`.
    pub(super) map: i32,
    pub(super) splice: i32,
    /// The member of `thread_info` that says whether the call is a 32-bit one, whose number means something else, and the bit.
    pub(super) compat: (&'static str, i32),
    /// The 32-bit calls that transfer bytes: those above, in the same order, and `io_submit`.
    pub(super) compat_transfers: &'static [i32],
}

const NAMED_SYNCS: &[&str] = &["fsync", "fdatasync", "sync_file_range", "msync", "syncfs", "sync"];

const X86_64: Calls = Calls {
    reads: &[0, 17, 19, 295, 327],
    writes: &[1, 18, 20, 296, 328],
    positioned: &[17, 18, 295, 296],
    perhaps_positioned: &[327, 328],
    syncs: &[74, 75, 277, 26, 306, 162],
    unseen: &[209, 40, 326],
    prefix: "__x64_sys_",
    named_syncs: NAMED_SYNCS,
    named_unseen: &[
        ("io_submit", None),
        ("sendfile64", None),
        ("copy_file_range", None),
        ("splice", Some(112)),
        ("splice", Some(96)),
    ],
    number: 120,
    descriptor: 112,
    position: 56,
    third: 96,
    fifth: 72,
    map: 9,
    splice: 275,
    // TS_COMPAT.
    compat: ("status", 2),
    compat_transfers: &[3, 180, 145, 333, 378, 4, 181, 146, 334, 379, 248],
};

const AARCH64: Calls = Calls {
    reads: &[63, 67, 65, 69, 286],
    writes: &[64, 68, 66, 70, 287],
    positioned: &[67, 68, 69, 70],
    perhaps_positioned: &[286, 287],
    syncs: &[82, 83, 84, 227, 267, 81],
    unseen: &[2, 71, 285],
    prefix: "__arm64_sys_",
    named_syncs: NAMED_SYNCS,
    named_unseen: &[
        ("io_submit", None),
        ("sendfile64", None),
        ("copy_file_range", None),
        ("splice", Some(272)),
        ("splice", Some(16)),
    ],
    number: 280,
    descriptor: 272,
    position: 24,
    third: 16,
    fifth: 32,
    map: 222,
    splice: 76,
    // TIF_32BIT.
    compat: ("flags", 1 << 22),
    compat_transfers: &[3, 180, 145, 361, 392, 4, 181, 146, 362, 393, 246],
};

impl Calls {
    pub(super) fn for_arch(arch: Arch) -> Calls {
        match arch {
            Arch::X86_64 => X86_64,
            Arch::Aarch64 => AARCH64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_system() {
        let calls = Calls::for_arch(Arch::THIS);
        let numbers = |numbers: &[libc::c_long]| -> Vec<i32> { numbers.iter().map(|&number| number as i32).collect() };
        use libc::*;
        assert_eq!(calls.reads, numbers(&[SYS_read, SYS_pread64, SYS_readv, SYS_preadv, SYS_preadv2]));
        assert_eq!(calls.writes, numbers(&[SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_pwritev2]));
        assert_eq!(calls.positioned, numbers(&[SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev]));
        assert_eq!(calls.perhaps_positioned, numbers(&[SYS_preadv2, SYS_pwritev2]));
        assert_eq!(calls.syncs, numbers(&[SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_msync, SYS_syncfs, SYS_sync]));
        assert_eq!(calls.unseen, numbers(&[SYS_io_submit, SYS_sendfile, SYS_copy_file_range]));
        assert_eq!([calls.map, calls.splice].to_vec(), numbers(&[SYS_mmap, SYS_splice]));
    }
}

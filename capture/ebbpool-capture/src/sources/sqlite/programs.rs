//! What runs at SQLite's probes.

use crate::arch::Arch;
use crate::assembler::{Assembler, R1, R6, R7};
use crate::event::{self, EVENT_BYTES, Maps, field};

/// Kinds of events.
pub mod kind {
    /// A page is requested.
    pub const READ: u32 = 1;
    /// A page becomes dirty.
    pub const DIRTY: u32 = 2;
    /// A transaction that writes commits.
    pub const COMMIT: u32 = 3;
    /// Bytes are written to a file.
    pub const WRITE: u32 = 4;
    /// A connection has opened a database: its pager is new.
    pub const OPEN: u32 = 5;
    /// A connection closes a database: its pager ends.
    pub const CLOSE: u32 = 6;
}

/// `struct PgHdr` of `pcache.h`: its pager and its page number, the same since 2007.
const PAGE_PAGER: i32 = 40;
const PAGE_NUMBER: i32 = 48;

/// The entry of `sqlite3PagerGet(pager, number, …)`, `sqlite3PagerWrite(page)` or `sqlite3PagerCommitPhaseTwo(pager)`. The
/// first two words of an event's object are the pager's address.
pub(super) fn request(arch: Arch, maps: Maps, address: u64, event_kind: u32) -> Vec<u64> {
    let mut program = Assembler::default();
    let p = &mut program;
    event::begin(p, arch, maps, address);
    event::reserve(p, maps, event_kind);
    if event_kind == kind::DIRTY {
        event::copy_memory(p, field::OBJECT, 8, arch.argument(0), PAGE_PAGER);
        event::copy_memory(p, field::PAGE, 4, arch.argument(0), PAGE_NUMBER);
    } else {
        p.load64(R1, R6, arch.argument(0)).store64(R7, field::OBJECT, R1);
    }
    if event_kind == kind::READ {
        event::copy_register(p, field::PAGE, arch.argument(1));
    }
    if event_kind != kind::COMMIT {
        event::sample(p, maps);
    }
    event::submit(p, maps)
}

/// Bytes that follow the event of a pager that begins or ends: a copy of its memory. SQLite allocates the pager, its files and
/// the name of its database in one piece, in this order.
pub(super) const PAGER_COPY: i32 = 2048;

/// The entry of `sqlite3PagerReadFileheader(pager, …)`, which each connection calls once, when the pager is made, or of
/// `sqlite3PagerClose(pager, …)`. By the time that the event is read, another pager may be at the address.
pub(super) fn lifetime(arch: Arch, maps: Maps, address: u64, event_kind: u32) -> Vec<u64> {
    const PART: i32 = 512;
    let mut program = Assembler::default();
    let p = &mut program;
    event::begin(p, arch, maps, address);
    event::reserve_with(p, maps, event_kind, PAGER_COPY);
    p.load64(R1, R6, arch.argument(0)).store64(R7, field::OBJECT, R1);
    // The piece may end before: what is not there is zero.
    for distance in (0..PAGER_COPY).step_by(PART as usize) {
        let to = EVENT_BYTES as i16 + distance as i16;
        event::copy_memory(p, to, PART, arch.argument(0), distance);
    }
    event::submit(p, maps)
}

/// `struct unixFile` of `os_unix.c`: the address of its path, on 64-bit machines the same since 2011.
const FILE_PATH: i32 = 56;

/// The entry of `sqlite3OsWrite(file, bytes, count, position)`. The first two words of an event's object are the address of the
/// file's path, its detail is the number of bytes.
pub(super) fn write(arch: Arch, maps: Maps, address: u64) -> Vec<u64> {
    let mut program = Assembler::default();
    let p = &mut program;
    event::begin(p, arch, maps, address);
    event::reserve(p, maps, kind::WRITE);
    event::copy_memory(p, field::OBJECT, 8, arch.argument(0), FILE_PATH);
    event::copy_register(p, field::DETAIL, arch.argument(2));
    event::submit(p, maps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ProgramKind, load_program};

    #[test]
    fn the_kernel_accepts_the_programs() {
        let Some(channel) = crate::probes::test_channel() else {
            return;
        };
        let maps = channel.maps();
        for kind in [kind::READ, kind::DIRTY, kind::COMMIT] {
            let code = request(Arch::THIS, maps, 0x1234, kind);
            load_program(ProgramKind::Kprobe, &code).expect("accepted");
        }
        let code = lifetime(Arch::THIS, maps, 0x1234, kind::CLOSE);
        load_program(ProgramKind::Kprobe, &code).expect("accepted");
        let code = write(Arch::THIS, maps, 0x1234);
        load_program(ProgramKind::Kprobe, &code).expect("accepted");
    }
}

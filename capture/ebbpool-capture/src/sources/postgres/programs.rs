//! What runs at PostgreSQL's probes.

use crate::arch::Arch;
use crate::assembler::{Assembler, R1, R2, R3, R7, R8, R9};
use crate::assembler::{Helper, R6};
use crate::event::{self, Maps, Owner, field};
use crate::operands::{Location, Operand};

/// Kinds of events.
pub(super) mod kind {
    /// A page is requested.
    pub(in super::super) const READ: u32 = 1;
    /// Pages are added at the end of a relation.
    pub(in super::super) const EXTEND: u32 = 2;
    /// A page becomes dirty.
    pub(in super::super) const DIRTY: u32 = 3;
    /// A backend takes a ring of buffers of its own.
    pub(in super::super) const RING: u32 = 4;
    /// A backend gives a ring back.
    pub(in super::super) const RING_END: u32 = 5;
    /// A backend has executed a statement.
    pub(in super::super) const STATEMENT_END: u32 = 6;
    /// A backend finds a page whose log is not written yet, and may give it up.
    pub(in super::super) const UNLOGGED_VICTIM: u32 = 7;
    /// A page was written from the buffer.
    pub(in super::super) const FLUSH: u32 = 8;
}

/// In the detail of a `READ` event: the page is new; the page was in the buffer.
pub(super) const IS_NEW: u32 = 1;
pub(super) const IS_HIT: u32 = 2;
/// The backend has requested a page that was left out of the sample since its latest captured request.
pub(super) const AFTER_LEFT_OUT: u32 = 4;

/// A probe of the server: where it is in its memory, and what its processes alone have there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerProbe {
    pub(super) arch: Arch,
    pub(super) maps: Maps,
    pub(super) address: u64,
    pub(super) owner: Option<Owner>,
}

impl ServerProbe {
    fn begin(&self) -> Assembler {
        let mut program = Assembler::default();
        event::begin_for(&mut program, self.arch, self.maps, self.address, self.owner);
        program
    }
}

/// The backend of relations that all backends share (`InvalidBackendId`); others are temporary, and not in the buffer.
const SHARED: u64 = 0xffff_ffff;

/// The words of an event that operands of a probe fill: tablespace, database, relation, fork, page, detail.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadOperands {
    pub(super) tablespace: Operand,
    pub(super) database: Operand,
    pub(super) relation: Operand,
    pub(super) backend: Operand,
    pub(super) fork: Operand,
    pub(super) page: Operand,
    /// The number of new pages.
    pub(super) count: Option<Operand>,
    /// Whether the page is new, and whether it was in the buffer.
    pub(super) flags: Option<(Operand, Operand)>,
}

impl ReadOperands {
    /// Of `buffer__read__start` and `buffer__read__done`: fork, page, tablespace, database, relation, backend, and up to
    /// PostgreSQL 15 whether the relation is extended, and whether the page was in the buffer.
    pub(super) fn of_read(found: &[Option<Operand>], has_flags: bool) -> Option<ReadOperands> {
        let at = |index: usize| found.get(index).copied().flatten();
        Some(ReadOperands {
            fork: at(0)?,
            page: at(1)?,
            tablespace: at(2)?,
            database: at(3)?,
            relation: at(4)?,
            backend: at(5)?,
            count: None,
            flags: match has_flags {
                true => Some((at(6)?, at(7)?)),
                false => None,
            },
        })
    }

    /// Of `buffer__extend__done`: fork, tablespace, database, relation, backend, number of pages, first page.
    pub(super) fn of_extend(found: &[Option<Operand>]) -> Option<ReadOperands> {
        let at = |index: usize| found.get(index).copied().flatten();
        Some(ReadOperands {
            fork: at(0)?,
            tablespace: at(1)?,
            database: at(2)?,
            relation: at(3)?,
            backend: at(4)?,
            count: Some(at(5)?),
            page: at(6)?,
            flags: None,
        })
    }
}

/// Copies operands to words of the event; neighbours in memory are copied at once.
fn copy_operands(program: &mut Assembler, operands: &[(Operand, i16)]) {
    let mut at = 0;
    while let Some(&(operand, to)) = operands.get(at) {
        let mut count = 1;
        match operand.location {
            Location::Constant(number) => {
                program.store32_value(R7, to, number as i32);
            }
            Location::Register(register) => {
                program.load64(R1, R6, register);
                if operand.size == 1 {
                    program.and_value(R1, 0xff);
                }
                program.store32(R7, to, R1);
            }
            Location::Memory(register, distance) => {
                let follows = |count: usize| {
                    let next = operands.get(at + count);
                    let wanted = Location::Memory(register, distance.wrapping_add(4 * count as i32));
                    next.is_some_and(|(next, next_to)| {
                        (next.size, next.location) == (4, wanted) && *next_to == to + 4 * count as i16
                    })
                };
                while operand.size == 4 && follows(count) {
                    count += 1;
                }
                // A flag of one byte leaves the zeros above it.
                let bytes = match operand.size {
                    1 => 1,
                    2 => 2,
                    _ => 4 * count as i32,
                };
                event::copy_memory(program, to, bytes, register, distance);
            }
        }
        at += count;
    }
}

/// A request of a page, at a USDT probe.
pub(super) fn read(probe: ServerProbe, event_kind: u32, operands: &ReadOperands) -> Vec<u64> {
    const FORK: i16 = field::OBJECT + 12;
    let maps = probe.maps;
    let mut program = probe.begin();
    event::reserve(&mut program, maps, event_kind);
    // In most builds the backend is behind the relation in memory. It goes where the fork comes later.
    let locator = [
        (operands.tablespace, field::OBJECT),
        (operands.database, field::OBJECT + 4),
        (operands.relation, field::OBJECT + 8),
        (operands.backend, FORK),
    ];
    copy_operands(&mut program, &locator);
    program.load32(R1, R7, FORK).set64(R2, SHARED).jump_unless_equal(R1, R2, "drop");
    copy_operands(&mut program, &[(operands.fork, FORK), (operands.page, field::PAGE)]);
    if let Some(count) = operands.count {
        copy_operands(&mut program, &[(count, field::DETAIL)]);
        return event::submit(&mut program, maps);
    }
    event::sample_request(&mut program, maps);
    if let Some((is_new, is_hit)) = operands.flags {
        copy_operands(&mut program, &[(is_hit, field::DETAIL)]);
        program.load32(R8, R7, field::DETAIL).shift_left(R8, 1);
        program.store32_value(R7, field::DETAIL, 0);
        copy_operands(&mut program, &[(is_new, field::DETAIL)]);
        program.load32(R1, R7, field::DETAIL).add(R1, R8).store32(R7, field::DETAIL, R1);
    }
    event::mark_after_left_out(&mut program, maps, AFTER_LEFT_OUT as i32);
    event::submit(&mut program, maps)
}

/// `rd_backend` of `RelationData`, PostgreSQL 13 to 16: behind the locator, a pointer and a count.
const RELATION_BACKEND: i32 = 28;

/// A request of a page in a build without USDT probes, up to PostgreSQL 16: the entry of `ReadBufferExtended(relation, fork,
/// page, mode, strategy)`. A relation begins with its locator; `ReadBuffer` and `ReleaseAndReadBuffer` jump there.
pub(super) fn read_at_entry(probe: ServerProbe) -> Vec<u64> {
    let ServerProbe { arch, maps, .. } = probe;
    let mut program = probe.begin();
    event::reserve(&mut program, maps, kind::READ);
    // The backend of a temporary relation goes where the fork comes later.
    const FORK: i16 = field::OBJECT + 12;
    event::copy_memory(&mut program, FORK, 4, arch.argument(0), RELATION_BACKEND);
    program.load32(R1, R7, FORK).set64(R2, SHARED).jump_unless_equal(R1, R2, "drop");
    event::copy_memory(&mut program, field::OBJECT, 12, arch.argument(0), 0);
    event::copy_register(&mut program, FORK, arch.argument(1));
    event::copy_register(&mut program, field::PAGE, arch.argument(2));
    event::sample_request(&mut program, maps);
    event::mark_after_left_out(&mut program, maps, AFTER_LEFT_OUT as i32);
    event::submit(&mut program, maps)
}

/// A page that becomes dirty: the entry of `MarkBufferDirty(buffer)` and `MarkBufferDirtyHint(buffer, …)`. Buffers of shared
/// relations are numbered from 1; their descriptors have 64 bytes each and begin with the page's tag.
pub(super) fn dirty(probe: ServerProbe, descriptors: u64) -> Vec<u64> {
    const DESCRIPTOR: i32 = 64;
    const TAG: i32 = 20;
    let ServerProbe { arch, maps, .. } = probe;
    let mut program = probe.begin();
    program
        .load64(R8, R6, arch.argument(0))
        .shift_left(R8, 32)
        .shift_right_signed(R8, 32)
        .jump_if_at_most(R8, 0, "out")
        .add_value(R8, -1)
        .multiply_value(R8, DESCRIPTOR)
        .set64(R9, descriptors)
        .add(R9, R8);
    event::reserve(&mut program, maps, kind::DIRTY);
    program.copy(R1, R7).add_value(R1, field::OBJECT.into()).set(R2, TAG).copy(R3, R9).call(Helper::ReadUser);
    event::sample(&mut program, maps);
    event::submit(&mut program, maps)
}

/// A victim whose log is not written yet: the entry of `StrategyRejectBuffer(strategy, buffer, from ring)`. The third argument,
/// from PostgreSQL 16 on, is also a field of the strategy up to 15 (`current_was_in_ring`). The event's page is the type of the
/// ring, its detail is 1 if the victim is from the ring.
pub(super) fn unlogged_victim(probe: ServerProbe, major: u32) -> Vec<u64> {
    const WAS_IN_RING: i32 = 12;
    let ServerProbe { arch, maps, .. } = probe;
    let mut program = probe.begin();
    event::reserve(&mut program, maps, kind::UNLOGGED_VICTIM);
    event::copy_memory(&mut program, field::PAGE, 4, arch.argument(0), 0);
    match major {
        ..=15 => {
            let strategy = arch.argument(0);
            event::copy_memory(&mut program, field::DETAIL, 1, strategy, WAS_IN_RING);
        }
        _ => {
            program.load64(R1, R6, arch.argument(2)).and_value(R1, 0xff);
            program.store32(R7, field::DETAIL, R1);
        }
    }
    event::submit(&mut program, maps)
}

/// The end of a statement: the entry of `standard_ExecutorEnd`.
pub(super) fn statement_end(probe: ServerProbe) -> Vec<u64> {
    bare(probe, kind::STATEMENT_END)
}

/// A page that was written, by a backend, the background writer or a checkpoint: the USDT probe `buffer__flush__done`.
pub(super) fn flush(probe: ServerProbe) -> Vec<u64> {
    bare(probe, kind::FLUSH)
}

/// An event without any particulars.
fn bare(probe: ServerProbe, event_kind: u32) -> Vec<u64> {
    let maps = probe.maps;
    let mut program = probe.begin();
    event::reserve(&mut program, maps, event_kind);
    event::submit(&mut program, maps)
}

/// A ring: the entry of `GetAccessStrategy(type)`, whose argument is the type, and of `FreeAccessStrategy(strategy)`, whose
/// argument is the address of a structure that begins with the type.
pub(super) fn ring(probe: ServerProbe, event_kind: u32) -> Vec<u64> {
    let ServerProbe { arch, maps, .. } = probe;
    let mut program = probe.begin();
    event::reserve(&mut program, maps, event_kind);
    match event_kind {
        kind::RING => event::copy_register(&mut program, field::DETAIL, arch.argument(0)),
        _ => event::copy_memory(&mut program, field::DETAIL, 4, arch.argument(0), 0),
    }
    event::submit(&mut program, maps)
}

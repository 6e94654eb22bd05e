//! What runs in the kernel: at the end of its functions for files, else at the tracepoint `sys_exit`, and at `io_uring_submit_req` and
//! `sched_process_fork`.

use super::calls::Calls;
use crate::arch::Arch;
use crate::assembler::{Assembler, Helper, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Register};
use crate::btf::{KernelFunction, KernelTypes};
use crate::error::CaptureError;
use crate::event::{self, Maps, field as event_field};
use crate::kernel;
use crate::sources::file_event::{field, kind};
use crate::sources::kernel_memory::{clear, follow, to_event, to_stack};

/// Places on a program's stack, of 8 bytes each.
mod slot {
    pub(super) const NUMBER: i16 = -8;
    pub(super) const DESCRIPTOR: i16 = -16;
    pub(super) const SCRATCH: i16 = -24;
    pub(super) const POSITION: i16 = -32;
    pub(super) const KIND: i16 = -40;
    pub(super) const BYTES: i16 = -48;
    pub(super) const ALL: [i16; 6] = [NUMBER, DESCRIPTOR, SCRATCH, POSITION, KIND, BYTES];
}

/// Parts of a request of io_uring whose lengths are added; longer vectors are not seen.
const MOST_PARTS: i32 = 8;

/// Operations of io_uring (`enum io_uring_op`).
mod operation {
    pub(super) const READ_VECTOR: i32 = 1;
    pub(super) const WRITE_VECTOR: i32 = 2;
    pub(super) const FSYNC: i32 = 3;
    pub(super) const READ_FIXED: i32 = 4;
    pub(super) const WRITE_FIXED: i32 = 5;
    pub(super) const SYNC_FILE_RANGE: i32 = 8;
    pub(super) const READ: i32 = 22;
    pub(super) const WRITE: i32 = 23;
    /// `SPLICE`, `READV_FIXED`, `WRITEV_FIXED`.
    pub(super) const UNSEEN: [i32; 3] = [30, 60, 61];
}

/// Offsets in the kernel's structures.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    files: i32,
    table: i32,
    descriptors: i32,
    position: i32,
    flags: i32,
    inode: i32,
    mode: i32,
    inode_number: i32,
    generation: i32,
    file_system: i32,
    magic: i32,
    /// What stands behind the inode of an overlay or FUSE, and the inode of a directory's entry.
    behind_inode: i32,
    entry: i32,
    device: i32,
    process: i32,
    thread: i32,
    /// Processor time of a thread, where its process is, and in that the time of threads that have ended.
    runtime: i32,
    signal: i32,
    runtime_of_ended: i32,
    bytes: i32,
    /// Where a task says that it is in a 32-bit call, and the bit.
    compat: (i32, i32),
}

impl FileLayout {
    pub(super) fn new(types: &KernelTypes) -> Result<FileLayout, CaptureError> {
        let (member, bit) = Calls::for_arch(Arch::THIS).compat;
        let compat = types.offset("task_struct", "thread_info")?;
        let compat = compat.saturating_add(types.offset("thread_info", member)?);
        Ok(FileLayout {
            bytes: types.offset("inode", "i_size")?,
            compat: (compat, bit),
            files: types.offset("task_struct", "files")?,
            table: types.offset("files_struct", "fdt")?,
            descriptors: types.offset("fdtable", "fd")?,
            position: types.offset("file", "f_pos")?,
            flags: types.offset("file", "f_flags")?,
            inode: types.offset("file", "f_inode")?,
            mode: types.offset("inode", "i_mode")?,
            inode_number: types.offset("inode", "i_ino")?,
            generation: types.offset("inode", "i_generation")?,
            file_system: types.offset("inode", "i_sb")?,
            magic: types.offset("super_block", "s_magic")?,
            behind_inode: types.size("inode")?,
            entry: types.offset("dentry", "d_inode")?,
            device: types.offset("super_block", "s_dev")?,
            process: types.offset("task_struct", "tgid")?,
            thread: types.offset("task_struct", "pid")?,
            runtime: types.offset("task_struct", "se")?.saturating_add(types.offset("sched_entity", "sum_exec_runtime")?),
            signal: types.offset("task_struct", "signal")?,
            runtime_of_ended: types.offset("signal_struct", "sum_sched_runtime")?,
        })
    }
}

/// The kernel's functions for files, which other calls do not reach, so that these cost nothing more.
#[derive(Clone, Debug)]
pub(super) struct FileFunctions {
    /// Those that transfer bytes, and the kind of their events.
    transfers: Vec<(KernelFunction, i32)>,
    /// Calls that are counted, the kind of their events, and where the descriptor of the file is that must be a regular one.
    calls: Vec<(KernelFunction, i32, Option<i32>)>,
}

impl FileFunctions {
    /// `None` if the kernel lets no program run at their ends, or does not have all that transfer bytes, as where a compiler has put
    /// one into its callers.
    pub(super) fn new(types: &KernelTypes, arch: Arch) -> Option<FileFunctions> {
        const TRANSFERS: [(&str, i32); 4] =
            [("vfs_read", kind::READ), ("vfs_write", kind::WRITE), ("vfs_readv", kind::READ), ("vfs_writev", kind::WRITE)];
        let calls = Calls::for_arch(arch);
        let names: Vec<String> = TRANSFERS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let found = types.functions(&names)?;
        if !kernel::can_watch(found.first()?.number) {
            return None;
        }
        let has_arguments = |it: &KernelFunction| it.argument("file").is_some() && it.argument("pos").is_some();
        // A kernel without one of the calls has none to count.
        let syncs = calls.named_syncs.iter().map(|name| (*name, kind::SYNC, None));
        let unseen = calls.named_unseen.iter().map(|(name, descriptor)| (*name, kind::UNSEEN, *descriptor));
        let calls = syncs.chain(unseen).filter_map(|(name, kind, descriptor)| {
            let found = types.functions(&[format!("{}{name}", calls.prefix)])?;
            Some((found.into_iter().next()?, kind, descriptor))
        });
        let transfers = found.iter().all(has_arguments).then(|| found.into_iter().zip(TRANSFERS.map(|(_, kind)| kind)));
        Some(FileFunctions { transfers: transfers?.collect(), calls: calls.collect() })
    }

    /// What runs where.
    pub(super) fn programs(&self, maps: Maps, followed: Followed, layout: &FileLayout) -> Vec<(KernelFunction, Vec<u64>)> {
        let transfers = self.transfers.iter();
        let transfers =
            transfers.map(|(function, kind)| (function.clone(), transfer_end(function, *kind, maps, followed, layout)));
        let calls = self.calls.iter();
        let calls = calls.map(|(function, kind, descriptor)| {
            (function.clone(), counted_end(function, (*kind, *descriptor), maps, followed, layout))
        });
        transfers.chain(calls).collect()
    }
}

/// Offsets in a request of io_uring, from Linux 6.0 on.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingLayout {
    /// The tracepoint at which a request is submitted.
    pub(super) tracepoint: &'static str,
    operation: i32,
    flags: i32,
    descriptor: i32,
    position: i32,
    address: i32,
    length: i32,
}

impl RingLayout {
    /// `None` if the kernel has no such requests.
    pub(super) fn new(types: &KernelTypes) -> Option<RingLayout> {
        // Renamed in Linux 6.4. Before 6.0 there is no `io_rw` that begins every request.
        let names = ["io_uring_submit_req", "io_uring_submit_sqe"];
        let tracepoint = names.into_iter().find(|name| types.has_tracepoint(name))?;
        let offset = |structure: &str, member: &str| types.offset(structure, member).ok();
        Some(RingLayout {
            tracepoint,
            operation: offset("io_kiocb", "opcode")?,
            flags: offset("io_kiocb", "flags")?,
            descriptor: offset("io_kiocb", "cqe")?.checked_add(offset("io_cqe", "fd")?)?,
            position: offset("io_rw", "kiocb")?.checked_add(offset("kiocb", "ki_pos")?)?,
            address: offset("io_rw", "addr")?,
            length: offset("io_rw", "len")?,
        })
    }
}

/// Which processes are captured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Followed {
    /// This one.
    One(i32),
    /// Those in the map with this descriptor.
    Set(i32),
}

/// Begins a program: R6 is its context. In other processes it goes on at `outside`.
fn begin(program: &mut Assembler, followed: Followed, maps: Option<Maps>, outside: &'static str) {
    program.copy(R6, R1).call(Helper::CurrentPidTgid).shift_right(R0, 32);
    match followed {
        Followed::One(process) => {
            program.jump_unless_value(R0, process, outside);
        }
        Followed::Set(map) => {
            program
                .store32(R10, slot::NUMBER, R0)
                .map(R1, map)
                .copy(R2, R10)
                .add_value(R2, slot::NUMBER.into())
                .call(Helper::MapLookup)
                .jump_if_value(R0, 0, outside);
        }
    }
    if let Some(maps) = maps {
        event::count_run(program, maps);
    }
}

/// From the descriptor on the stack to the file: R9 is its address.
fn find_file(program: &mut Assembler, layout: &FileLayout) {
    program.call(Helper::CurrentTask).copy(R9, R0);
    for distance in [layout.files, layout.table, layout.descriptors] {
        follow(program, slot::SCRATCH, R9, distance);
    }
    program.load32(R1, R10, slot::DESCRIPTOR).shift_left(R1, 3).add(R9, R1);
    follow(program, slot::SCRATCH, R9, 0);
}

/// The bits of a file's mode that say its kind, and that of regular files.
const TYPE: i32 = 0xf000;
const REGULAR: i32 = 0x8000;

/// Sets R9 to the inode of the file in R9, and ends the program unless the file is a regular one.
fn find_inode(program: &mut Assembler, layout: &FileLayout) {
    follow(program, slot::SCRATCH, R9, layout.inode);
    jump_unless_regular(program, layout, R9, "out");
}

/// Goes on at `label` unless the inode is that of a regular file.
fn jump_unless_regular(program: &mut Assembler, layout: &FileLayout, inode: Register, label: &'static str) {
    clear(program, &[slot::SCRATCH]);
    to_stack(program, slot::SCRATCH, 2, inode, layout.mode);
    program.load64(R1, R10, slot::SCRATCH).and_value(R1, TYPE).jump_unless_value(R1, REGULAR, label);
}

/// The most bytes that a call transfers (`MAX_RW_COUNT`).
const MOST_BYTES: i32 = 0x7fff_f000;

/// Leaves of the bytes on the stack those that a call can transfer, and of a read those that the file in R9 has; ends the
/// program if none is left. A request of io_uring may ask for any number.
fn limit_bytes(program: &mut Assembler, layout: &FileLayout) {
    clear(program, &[slot::SCRATCH]);
    to_stack(program, slot::SCRATCH, 8, R9, layout.bytes);
    program
        .load64(R1, R10, slot::BYTES)
        .set(R2, MOST_BYTES)
        .jump_if_not_below(R2, R1, "movable")
        .copy(R1, R2)
        .label("movable")
        .load64(R2, R10, slot::KIND)
        .jump_unless_value(R2, kind::READ, "limited")
        .load64(R2, R10, slot::SCRATCH)
        .load64(R3, R10, slot::POSITION)
        .jump_if_not_below(R3, R2, "out")
        .subtract(R2, R3)
        .jump_if_not_below(R2, R1, "limited")
        .copy(R1, R2)
        .label("limited")
        .store64(R10, slot::BYTES, R1);
}

/// Fills an event from the stack and the inode in R9.
fn fill(program: &mut Assembler, layout: &FileLayout) {
    program.load64(R1, R10, slot::POSITION).store64(R7, field::POSITION, R1).load32(R1, R10, slot::BYTES).store32(
        R7,
        field::BYTES,
        R1,
    );
    find_real_inode(program, layout);
    to_event(program, field::INODE, 8, R9, layout.inode_number);
    to_event(program, field::GENERATION, 4, R9, layout.generation);
    program.store64(R7, field::ADDRESS, R9).copy(R8, R9);
    follow(program, slot::SCRATCH, R9, layout.file_system);
    to_event(program, field::DEVICE, 4, R9, layout.device);
    to_event(program, field::MAGIC, 4, R9, layout.magic);
    program.load32(R1, R7, field::MAGIC).jump_unless_value(R1, magic::FUSE, "addressed");
    to_event(program, field::ADDRESS, 8, R8, layout.behind_inode);
    program.label("addressed");
}

/// Kinds of file systems whose inodes have more behind them: FUSE the number of its node, an overlay the entry of the file in
/// its upper layer (`struct ovl_inode`), since Linux 4.10.
mod magic {
    pub(super) const FUSE: i32 = 0x6573_5546;
    pub(super) const OVERLAY: i32 = 0x794c_7630;
}

/// Sets R9 to the inode of the file in the upper layer, if R9 is that of an overlay which has it there: an overlay gives files no
/// generations, and their numbers are those of its layers.
fn find_real_inode(program: &mut Assembler, layout: &FileLayout) {
    program.copy(R8, R9);
    follow(program, slot::SCRATCH, R8, layout.file_system);
    clear(program, &[slot::NUMBER]);
    to_stack(program, slot::NUMBER, 4, R8, layout.magic);
    program.load32(R1, R10, slot::NUMBER).jump_unless_value(R1, magic::OVERLAY, "real").copy(R8, R9);
    follow(program, slot::SCRATCH, R8, layout.behind_inode);
    program.jump_if_value(R8, 0, "real");
    follow(program, slot::SCRATCH, R8, layout.entry);
    jump_unless_regular(program, layout, R8, "real");
    program.copy(R9, R8).label("real");
}

/// Hands an event over with its kind, and ends the program.
fn finish(program: &mut Assembler, maps: Maps) -> Vec<u64> {
    program.load32(R1, R10, slot::KIND).store32(R7, event_field::KIND, R1);
    event::submit(program, maps)
}

/// An event without a file: the kernel wants all bytes written.
fn without_file(program: &mut Assembler) {
    program.set(R1, 0).store64(R7, field::GENERATION, R1).store64(R7, field::ADDRESS, R1);
}

/// Fills an event from the stack and the inode in R9, and ends the program. Events without bytes begin at "count".
fn hand_over(program: &mut Assembler, maps: Maps, layout: &FileLayout) -> Vec<u64> {
    event::reserve_with(program, maps, 0, field::MORE);
    fill(program, layout);
    program.jump("finish").label("count");
    event::reserve_with(program, maps, 0, field::MORE);
    without_file(program);
    program.label("finish");
    finish(program, maps)
}

/// Stores the kind of the event, and goes on at `next`.
fn set_kind(program: &mut Assembler, label: &'static str, kind: i32, next: &'static str) {
    program.label(label).set(R1, kind).store64(R10, slot::KIND, R1).jump(next);
}

/// Goes on at "32 bits" in a 32-bit call, whose number means another one. Afterwards R1 is the number.
fn find_compat(program: &mut Assembler, layout: &FileLayout) {
    let (distance, bit) = layout.compat;
    program.call(Helper::CurrentTask).copy(R7, R0);
    to_stack(program, slot::SCRATCH, 4, R7, distance);
    program.load32(R1, R10, slot::SCRATCH).and_value(R1, bit).jump_if_value(R1, bit, "32 bits").load32(R1, R10, slot::NUMBER);
}

/// A 32-bit call: if it has transferred bytes, it is counted as one that is not seen.
fn count_compat(program: &mut Assembler, calls: &Calls) {
    program.label("32 bits").jump_if_at_most(R8, 0, "out").load32(R1, R10, slot::NUMBER);
    for &number in calls.compat_transfers {
        program.jump_if_value(R1, number, "unseen");
    }
    program.jump("out");
}

/// The end of a function that has transferred bytes of a file. Its context: the arguments, among them the file and where its position
/// is, which the function has moved behind the bytes; and the result.
fn transfer_end(function: &KernelFunction, kind: i32, maps: Maps, followed: Followed, layout: &FileLayout) -> Vec<u64> {
    let at = |name| function.argument(name).unwrap_or(0);
    let mut program = Assembler::default();
    let p = &mut program;
    begin(p, followed, Some(maps), "out");
    p.load64(R8, R6, function.result()).jump_if_at_most(R8, 0, "out");
    event::count_at(p, maps, event::LOOKED);
    p.load64(R9, R6, at("pos"));
    clear(p, &slot::ALL);
    to_stack(p, slot::POSITION, 8, R9, 0);
    p.load64(R1, R10, slot::POSITION).subtract(R1, R8).store64(R10, slot::POSITION, R1).store64(R10, slot::BYTES, R8);
    p.set(R1, kind).store64(R10, slot::KIND, R1).load64(R9, R6, at("file"));
    find_inode(p, layout);
    event::reserve_with(p, maps, 0, field::MORE);
    fill(p, layout);
    finish(p, maps)
}

/// The end of a system call that is counted. Its context: the address of the registers, and the result.
fn counted_end(
    function: &KernelFunction,
    (kind, descriptor): (i32, Option<i32>),
    maps: Maps,
    followed: Followed,
    layout: &FileLayout,
) -> Vec<u64> {
    let mut program = Assembler::default();
    let p = &mut program;
    begin(p, followed, Some(maps), "out");
    // Calls that transfer nothing are none that are not seen.
    let least = if kind == kind::SYNC { 0 } else { 1 };
    p.load64(R8, R6, function.result()).jump_if_at_most(R8, least - 1, "out");
    clear(p, &slot::ALL);
    if let Some(descriptor) = descriptor {
        p.load64(R9, R6, 0);
        to_stack(p, slot::DESCRIPTOR, 4, R9, descriptor);
        find_file(p, layout);
        find_inode(p, layout);
    }
    p.set(R1, kind).store64(R10, slot::KIND, R1);
    event::reserve_with(p, maps, 0, field::MORE);
    without_file(p);
    finish(p, maps)
}

/// The end of a system call. Its context: the address of the registers, and the result.
pub(super) fn call_end(arch: Arch, maps: Maps, followed: Followed, layout: &FileLayout) -> Vec<u64> {
    let calls = Calls::for_arch(arch);
    let mut program = Assembler::default();
    let p = &mut program;
    begin(p, followed, Some(maps), "outside");
    // R8 is the result, which is negative for an error; R9 the address of the registers.
    p.load64(R8, R6, 8).jump_if_at_most(R8, -1, "out").load64(R9, R6, 0);
    clear(p, &slot::ALL);
    to_stack(p, slot::NUMBER, 8, R9, calls.number);
    find_compat(p, layout);
    let labels = [
        (calls.reads, "read"),
        (calls.writes, "write"),
        (calls.syncs, "sync"),
        (calls.unseen, "unseen"),
        (&[calls.map, calls.splice], "others"),
    ];
    for (numbers, label) in labels {
        for &number in numbers {
            p.jump_if_value(R1, number, label);
        }
    }
    p.jump("out");
    count_compat(p, &calls);
    p.label("others").jump_if_value(R1, calls.map, "map").jump_if_at_most(R8, 0, "out").store64(R10, slot::BYTES, R9);
    // One of the two is a pipe.
    for (descriptor, other) in [(calls.descriptor, "other end"), (calls.third, "out")] {
        p.load64(R9, R10, slot::BYTES);
        to_stack(p, slot::DESCRIPTOR, 4, R9, descriptor);
        find_file(p, layout);
        follow(p, slot::SCRATCH, R9, layout.inode);
        jump_unless_regular(p, layout, R9, other);
        p.jump("unseen");
        if other != "out" {
            p.label(other);
        }
    }
    set_kind(p, "sync", kind::SYNC, "count");
    set_kind(p, "unseen", kind::UNSEEN, "count");
    set_kind(p, "write", kind::WRITE, "transfer");
    find_map(p, &calls, layout);
    p.label("read").set(R1, kind::READ).store64(R10, slot::KIND, R1).label("transfer").jump_if_at_most(R8, 0, "out").store64(
        R10,
        slot::BYTES,
        R8,
    );
    to_stack(p, slot::DESCRIPTOR, 4, R9, calls.descriptor);
    to_stack(p, slot::POSITION, 8, R9, calls.position);
    event::count_at(p, maps, event::LOOKED);
    find_file(p, layout);
    p.load32(R1, R10, slot::NUMBER);
    for &number in calls.positioned {
        p.jump_if_value(R1, number, "positioned");
    }
    for &number in calls.perhaps_positioned {
        p.jump_if_value(R1, number, "perhaps");
    }
    p.jump("moved").label("perhaps").load64(R1, R10, slot::POSITION).jump_unless_value(R1, -1, "positioned").label("moved");
    // The call has moved the file's position behind its bytes.
    to_stack(p, slot::POSITION, 8, R9, layout.position);
    p.load64(R1, R10, slot::POSITION).subtract(R1, R8).store64(R10, slot::POSITION, R1).jump("placed").label("positioned");
    // What is appended goes to the end, whatever position the call has.
    p.load64(R1, R10, slot::KIND).jump_unless_value(R1, kind::WRITE, "placed");
    jump_unless_appended(p, layout, "placed");
    find_inode(p, layout);
    to_stack(p, slot::POSITION, 8, R9, layout.bytes);
    p.load64(R1, R10, slot::POSITION).subtract(R1, R8).store64(R10, slot::POSITION, R1).jump("filled").label("placed");
    find_inode(p, layout);
    p.label("filled");
    hand_over(p, maps, layout)
}

/// Goes on at `label` unless the file in R9 is open to be appended to.
fn jump_unless_appended(program: &mut Assembler, layout: &FileLayout, label: &'static str) {
    const APPEND: i32 = libc::O_APPEND;
    clear(program, &[slot::SCRATCH]);
    to_stack(program, slot::SCRATCH, 4, R9, layout.flags);
    program.load64(R1, R10, slot::SCRATCH).and_value(R1, APPEND).jump_unless_value(R1, APPEND, label);
}

/// At "map": a call that maps a file so that writes to memory change it.
fn find_map(program: &mut Assembler, calls: &Calls, layout: &FileLayout) {
    const WRITE: i32 = libc::PROT_WRITE;
    const KINDS: i32 = 0xf;
    program.label("map");
    to_stack(program, slot::SCRATCH, 8, R9, calls.third);
    program.load64(R1, R10, slot::SCRATCH).and_value(R1, WRITE).jump_unless_value(R1, WRITE, "out");
    to_stack(program, slot::SCRATCH, 8, R9, calls.position);
    program.load64(R1, R10, slot::SCRATCH).copy(R2, R1).and_value(R1, KINDS).jump_if_value(R1, libc::MAP_PRIVATE, "out");
    program.and_value(R2, libc::MAP_ANONYMOUS).jump_unless_value(R2, 0, "out");
    to_stack(program, slot::DESCRIPTOR, 4, R9, calls.fifth);
    program.set(R1, kind::MAPPED).store64(R10, slot::KIND, R1);
    find_file(program, layout);
    program.jump("placed");
}

/// The submission of a request of io_uring. Its context: the address of the request.
pub(super) fn ring_submission(maps: Maps, followed: Followed, layout: &FileLayout, ring: &RingLayout) -> Vec<u64> {
    let mut program = Assembler::default();
    let p = &mut program;
    begin(p, followed, Some(maps), "out");
    p.load64(R9, R6, 0);
    clear(p, &slot::ALL);
    to_stack(p, slot::NUMBER, 1, R9, ring.operation);
    p.load32(R1, R10, slot::NUMBER);
    let labels = [
        (operation::READ, "read"),
        (operation::READ_VECTOR, "read"),
        (operation::READ_FIXED, "read"),
        (operation::WRITE, "write"),
        (operation::WRITE_VECTOR, "write"),
        (operation::WRITE_FIXED, "write"),
        (operation::FSYNC, "sync"),
        (operation::SYNC_FILE_RANGE, "sync"),
    ];
    for (operation, label) in labels.into_iter().chain(operation::UNSEEN.map(|operation| (operation, "unseen"))) {
        p.jump_if_value(R1, operation, label);
    }
    p.jump("out");
    set_kind(p, "sync", kind::SYNC, "count");
    set_kind(p, "write", kind::WRITE, "transfer");
    p.label("read").set(R1, kind::READ).store64(R10, slot::KIND, R1).label("transfer");
    // A registered file has no descriptor by which the program could find it (`REQ_F_FIXED_FILE`).
    to_stack(p, slot::SCRATCH, 1, R9, ring.flags);
    p.load64(R1, R10, slot::SCRATCH).and_value(R1, 1).jump_if_value(R1, 1, "unseen");
    to_stack(p, slot::POSITION, 8, R9, ring.position);
    to_stack(p, slot::DESCRIPTOR, 4, R9, ring.descriptor);
    to_stack(p, slot::BYTES, 4, R9, ring.length);
    p.load32(R1, R10, slot::NUMBER);
    for vector in [operation::READ_VECTOR, operation::WRITE_VECTOR] {
        p.jump_if_value(R1, vector, "vector");
    }
    p.jump("sized");
    p.label("vector");
    add_parts(p, R9, ring.address);
    p.label("sized");
    find_file(p, layout);
    // Others may be submitted before these two have moved: where the bytes go is not known.
    p.load64(R1, R10, slot::POSITION).jump_if_value(R1, -1, "moving");
    p.load64(R1, R10, slot::KIND).jump_unless_value(R1, kind::WRITE, "placed");
    jump_unless_appended(p, layout, "placed");
    p.label("moving");
    find_inode(p, layout);
    p.jump("unseen").label("placed");
    find_inode(p, layout);
    limit_bytes(p, layout);
    p.jump("filled");
    set_kind(p, "unseen", kind::UNSEEN, "count");
    p.label("filled");
    hand_over(p, maps, layout)
}

/// Replaces the number of parts on the stack by the sum of their lengths, in `struct iovec` of the process. The parts'
/// address is stored `distance` bytes behind the address in `request`.
fn add_parts(p: &mut Assembler, request: Register, distance: i32) {
    const PART: i32 = 16;
    const LENGTH: i32 = 8;
    follow_to(p, R6, request, distance);
    p.load64(R8, R10, slot::BYTES).set(R7, MOST_PARTS).jump_if_not_below(R7, R8, "few").jump("unseen").label("few").set(R7, 0);
    for part in 0..MOST_PARTS {
        p.set(R1, part).jump_if_not_below(R1, R8, "added");
        clear(p, &[slot::SCRATCH]);
        p.copy(R1, R10)
            .add_value(R1, slot::SCRATCH.into())
            .set(R2, 8)
            .copy(R3, R6)
            .add_value(R3, PART * part + LENGTH)
            .call(Helper::ReadUser)
            .load64(R1, R10, slot::SCRATCH)
            .add(R7, R1);
    }
    p.label("added").store64(R10, slot::BYTES, R7);
}

fn follow_to(p: &mut Assembler, to: Register, from: Register, distance: i32) {
    p.copy(to, from);
    follow(p, slot::SCRATCH, to, distance);
}

/// A process that a captured one starts is captured too. The context: the addresses of the parent and of the child.
pub(super) fn fork(followed: i32, layout: &FileLayout) -> Vec<u64> {
    const ANY: i32 = 0;
    let mut program = Assembler::default();
    let p = &mut program;
    begin(p, Followed::Set(followed), None, "out");
    p.load64(R9, R6, 8);
    clear(p, &[slot::DESCRIPTOR, slot::SCRATCH]);
    to_stack(p, slot::DESCRIPTOR, 4, R9, layout.process);
    p.set(R1, 1)
        .store32(R10, slot::SCRATCH, R1)
        .map(R1, followed)
        .copy(R2, R10)
        .add_value(R2, slot::DESCRIPTOR.into())
        .copy(R3, R10)
        .add_value(R3, slot::SCRATCH.into())
        .set(R4, ANY)
        .call(Helper::MapUpdate)
        .label("out")
        .set(R0, 0)
        .exit()
        .finish()
}

/// A captured process ends: its processor time is added to `total`, in nanoseconds. The context: the address of a thread that ends, of which
/// the first one counts.
pub(super) fn exit(followed: i32, total: i32, layout: &FileLayout) -> Vec<u64> {
    let mut program = Assembler::default();
    let p = &mut program;
    begin(p, Followed::Set(followed), None, "out");
    p.load64(R9, R6, 0);
    clear(p, &[slot::DESCRIPTOR, slot::NUMBER, slot::SCRATCH]);
    to_stack(p, slot::DESCRIPTOR, 4, R9, layout.process);
    to_stack(p, slot::NUMBER, 4, R9, layout.thread);
    p.load64(R1, R10, slot::DESCRIPTOR).load64(R2, R10, slot::NUMBER).jump_unless_equal(R1, R2, "out");
    to_stack(p, slot::SCRATCH, 8, R9, layout.runtime);
    p.load64(R8, R10, slot::SCRATCH);
    follow(p, slot::SCRATCH, R9, layout.signal);
    to_stack(p, slot::SCRATCH, 8, R9, layout.runtime_of_ended);
    p.load64(R1, R10, slot::SCRATCH).add(R8, R1).map_value(R1, total, 0).add_atomically(R1, 0, R8);
    p.label("out").set(R0, 0).exit().finish()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::kernel::{ProcessSet, ProgramKind, load_program};

    #[test]
    fn the_kernel_accepts_the_programs() {
        let Some(channel) = crate::probes::test_channel() else {
            return;
        };
        let Ok(types) = KernelTypes::of_kernel() else {
            let _ = writeln!(std::io::stderr(), "skipped: this kernel does not describe its types");
            return;
        };
        let set = ProcessSet::new().expect("a set");
        let (maps, map) = (channel.maps(), set.descriptor());
        let layout = FileLayout::new(&types).expect("offsets");
        let total = crate::kernel::SharedNumbers::<1>::new().expect("a map");
        let mut programs = vec![fork(map, &layout), exit(map, total.descriptor(), &layout)];
        for followed in [Followed::One(1), Followed::Set(map)] {
            programs.push(call_end(Arch::THIS, maps, followed, &layout));
            if let Some(ring) = RingLayout::new(&types) {
                programs.push(ring_submission(maps, followed, &layout, &ring));
            }
        }
        for code in programs {
            load_program(ProgramKind::RawTracepoint, &code).expect("accepted");
        }
        let Some(functions) = FileFunctions::new(&types, Arch::THIS) else {
            let _ = writeln!(std::io::stderr(), "skipped: this kernel cannot run programs at the ends of functions");
            return;
        };
        assert!(functions.calls.len() > 6, "{functions:?}");
        for (function, code) in functions.programs(maps, Followed::Set(map), &layout) {
            load_program(ProgramKind::FunctionEnd(function.number), &code).expect("accepted");
        }
    }

    #[test]
    fn sets_of_processes_have_their_members() {
        let Ok(set) = ProcessSet::new() else {
            let _ = writeln!(std::io::stderr(), "skipped: no map can be created");
            return;
        };
        assert!(set.members().is_empty());
        for process in [7, 8, 9, 8] {
            set.insert(process).expect("inserted");
        }
        set.remove(9);
        set.remove(10);
        let mut members = set.members();
        members.sort_unstable();
        assert_eq!(members, [7, 8]);
    }
}

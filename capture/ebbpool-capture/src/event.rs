//! What programs hand over for each request of a page, and the parts that these programs have in common.

use crate::arch::Arch;
use crate::assembler::{Assembler, Helper, NO_WAKE_UP, R0, R1, R2, R3, R4, R6, R7, R10};

/// Bytes of an event.
pub(crate) const EVENT_BYTES: usize = 32;

/// Offsets in an event: its kind, the process, four words that identify the object, the page in the object, and a word whose
/// meaning depends on the kind.
pub(crate) mod field {
    pub(crate) const KIND: i16 = 0;
    pub(crate) const PROCESS: i16 = 4;
    pub(crate) const OBJECT: i16 = 8;
    pub(crate) const PAGE: i16 = 24;
    pub(crate) const DETAIL: i16 = 28;
}

/// A request of a page, or what else a probe saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageEvent {
    /// What was seen; the numbers are those of the source.
    pub kind: u32,
    /// The process, or the thread.
    pub process: u32,
    /// What the page belongs to.
    pub object: [u32; 4],
    /// The page in the object.
    pub page: u32,
    /// Depends on the kind.
    pub detail: u32,
}

impl PageEvent {
    /// Reads an event; `None` if the bytes are too few.
    pub fn parse(bytes: &[u8]) -> Option<PageEvent> {
        let word = |at: usize| {
            let bytes = bytes.get(4 * at..4 * at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        Some(PageEvent {
            kind: word(0)?,
            process: word(1)?,
            object: [word(2)?, word(3)?, word(4)?, word(5)?],
            page: word(6)?,
            detail: word(7)?,
        })
    }

    /// Where the page comes in the order in which pages are sampled: pages below a limit belong to the sample. The programs
    /// compute the same.
    pub fn sample_position(&self) -> u64 {
        let page = u64::from(self.object[2]) << 32 | u64::from(self.page);
        let forked = page.wrapping_add(u64::from(self.object[3]) << 60);
        forked.wrapping_mul(SPREAD) >> 32
    }
}

/// The golden ratio of 2^64, which spreads consecutive numbers evenly (Knuth, The Art of Computer Programming 3, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The limit at which all pages belong to the sample.
pub(crate) const ALL_PAGES: u64 = 1 << 32;

/// Descriptors of the maps that programs use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maps {
    /// The ring of events.
    pub(crate) ring: i32,
    /// Events that found no room in the ring.
    pub(crate) lost: i32,
    /// The limit of the sample.
    pub(crate) limit: i32,
    /// Runs in processes that are not captured, by process.
    pub(crate) others: i32,
    /// The same where all processes of the machine run into a program, and a map by process would cost them more: by [slot](SLOTS).
    pub(crate) outside: i32,
    /// Runs in those that are, by processor.
    pub(crate) runs: i32,
    /// Where those of a place are counted whose instruction the kernel emulates, or steps over.
    pub(crate) of_place: i16,
    /// Whether a process has requested a page that was left out since its latest captured one.
    pub(crate) left_out: i32,
}

/// Processors whose runs are counted apart, and words of 8 bytes for each: as many as make a line of a cache.
pub(crate) const PROCESSORS: usize = 64;
pub(crate) const WORDS: usize = 8;

/// Places whose instruction the kernel emulates, and those over which it steps.
pub(crate) const EMULATED: i16 = 0;
pub(crate) const STEPPED: i16 = 8;
/// Runs that look at the file of a call, which are counted as runs, too.
pub(crate) const LOOKED: i16 = 16;

/// Counts a run in a captured process, which may end without an event. R6 to R9 remain.
pub(crate) fn count_run(program: &mut Assembler, maps: Maps) {
    count_at(program, maps, maps.of_place);
}

/// Counts a run at one of the places above. R6 to R9 remain.
pub(crate) fn count_at(program: &mut Assembler, maps: Maps, place: i16) {
    program
        .call(Helper::CurrentProcessor)
        .and_value(R0, PROCESSORS as i32 - 1)
        .multiply_value(R0, 8 * WORDS as i32)
        .map_value(R1, maps.runs, 0)
        .add(R1, R0)
        .set(R2, 1)
        .add_atomically(R1, place, R2);
}

/// Slots of the maps `left_out` and `outside`, a word each. Processes whose numbers have the same lower bits share one.
pub(crate) const SLOTS: u32 = 1 << 14;

/// Begins a uprobe's program: R6 is its context. The program ends at once if the processor is not at `address`, as in another
/// server that runs the same file: addresses differ by server, and its processes inherit them.
pub(crate) fn begin(program: &mut Assembler, arch: Arch, maps: Maps, address: u64) {
    program.copy(R6, R1).load64(R1, R6, arch.instruction_pointer()).set64(R2, address).jump_unless_equal(R1, R2, "out");
    count_run(program, maps);
}

/// What the processes of one server have in their memory, and those of others that run the same file have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Where it is, 4 or 8 bytes.
    pub(crate) address: u64,
    pub(crate) bytes: i32,
    pub(crate) value: u64,
}

/// Begins the program of a probe that is in all processes that run a file. In those of other servers it counts a trap and ends:
/// their addresses differ, or without address randomisation what their postmaster has written into their memory.
pub(crate) fn begin_for(program: &mut Assembler, arch: Arch, maps: Maps, address: u64, owner: Option<Owner>) {
    const OWNER: i16 = -8;
    program.copy(R6, R1).load64(R1, R6, arch.instruction_pointer()).set64(R2, address).jump_unless_equal(R1, R2, "other");
    if let Some(owner) = owner {
        program
            .set(R1, 0)
            .store64(R10, OWNER, R1)
            .copy(R1, R10)
            .add_value(R1, OWNER.into())
            .set(R2, owner.bytes)
            .set64(R3, owner.address)
            .call(Helper::ReadUser)
            .load64(R1, R10, OWNER)
            .set64(R2, owner.value)
            .jump_unless_equal(R1, R2, "other");
    }
    count_run(program, maps);
}

/// Reserves an event in the ring: R7 is its address. Stores kind and process; all other words are zero.
pub(crate) fn reserve(program: &mut Assembler, maps: Maps, kind: u32) {
    reserve_with(program, maps, kind, 0);
}

/// Reserves an event in the ring, at the address in R7, and `more` bytes behind it, which the program has to fill.
pub(crate) fn reserve_with(program: &mut Assembler, maps: Maps, kind: u32, more: i32) {
    program
        .map(R1, maps.ring)
        .set(R2, EVENT_BYTES as i32 + more)
        .set(R3, 0)
        .call(Helper::Reserve)
        .jump_if_value(R0, 0, "lost")
        .copy(R7, R0)
        .call(Helper::CurrentPidTgid)
        .shift_right(R0, 32)
        .store32(R7, field::PROCESS, R0)
        .store32_value(R7, field::KIND, kind as i32);
    for word in 2..8 {
        program.store32_value(R7, 4 * word, 0);
    }
}

/// Gives the event up unless its page belongs to the sample.
pub(crate) fn sample(program: &mut Assembler, maps: Maps) {
    sample_or(program, maps, "drop");
}

fn sample_or(program: &mut Assembler, maps: Maps, label: &'static str) {
    program
        .load32(R1, R7, field::OBJECT + 8)
        .shift_left(R1, 32)
        .load32(R2, R7, field::PAGE)
        .add(R1, R2)
        .load32(R2, R7, field::OBJECT + 12)
        .shift_left(R2, 60)
        .add(R1, R2)
        .set64(R2, SPREAD)
        .multiply(R1, R2)
        .shift_right(R1, 32)
        .map_value(R2, maps.limit, 0)
        .load64(R2, R2, 0)
        .jump_if_not_below(R1, R2, label);
}

/// The address of the slot of the process in R1, by the event in R7. The kernel checks that it is within the map.
fn slot(program: &mut Assembler, maps: Maps) {
    program
        .load32(R2, R7, field::PROCESS)
        .and_value(R2, SLOTS as i32 - 1)
        .shift_left(R2, 2)
        .map_value(R1, maps.left_out, 0)
        .add(R1, R2);
}

/// Gives a request up unless its page belongs to the sample; the slot of its process remembers that it was left out.
pub(crate) fn sample_request(program: &mut Assembler, maps: Maps) {
    sample_or(program, maps, "left out");
}

/// Adds `bit` to the event's detail if the process has requested a page that was left out since its latest captured one.
pub(crate) fn mark_after_left_out(program: &mut Assembler, maps: Maps, bit: i32) {
    slot(program, maps);
    program
        .load32(R2, R1, 0)
        .jump_if_value(R2, 0, "all seen")
        .store32_value(R1, 0, 0)
        .load32(R2, R7, field::DETAIL)
        .add_value(R2, bit)
        .store32(R7, field::DETAIL, R2)
        .label("all seen");
}

/// Hands the event over and ends the program; adds the ends of its other branches.
pub(crate) fn submit(program: &mut Assembler, maps: Maps) -> Vec<u64> {
    program.copy(R1, R7).set(R2, NO_WAKE_UP).call(Helper::Submit);
    if program.is_wanted("out") {
        program.label("out");
    }
    program.set(R0, 0).exit();
    // The kernel refuses programs with instructions that are never reached.
    if program.is_wanted("other") {
        program.label("other");
        count_other(program, maps);
    }
    if program.is_wanted("outside") {
        program
            .label("outside")
            .call(Helper::CurrentPidTgid)
            .shift_right(R0, 32)
            .and_value(R0, SLOTS as i32 - 1)
            .shift_left(R0, 3)
            .map_value(R1, maps.outside, 0)
            .add(R1, R0)
            .set(R2, 1)
            .add_atomically(R1, 0, R2)
            .set(R0, 0)
            .exit();
    }
    let remembers = program.is_wanted("left out");
    if remembers {
        program.label("left out");
        slot(program, maps);
        program.store32_value(R1, 0, 1);
    }
    if remembers || program.is_wanted("drop") {
        program.label("drop").copy(R1, R7).set(R2, NO_WAKE_UP).call(Helper::Discard).set(R0, 0).exit();
    }
    program.label("lost");
    count(program, maps.lost);
    program.finish()
}

/// Counts a run in a process that is not captured, and ends the program.
fn count_other(program: &mut Assembler, maps: Maps) {
    const PROCESS: i16 = -8;
    const NUMBERS: i16 = -24;
    program
        .call(Helper::CurrentPidTgid)
        .shift_right(R0, 32)
        .store32(R10, PROCESS, R0)
        .map(R1, maps.others)
        .copy(R2, R10)
        .add_value(R2, PROCESS.into())
        .call(Helper::MapLookup)
        .jump_if_value(R0, 0, "new")
        .set(R2, 1)
        .add_atomically(R0, maps.of_place, R2)
        .set(R0, 0)
        .exit()
        .label("new")
        .set(R1, 0)
        .store64(R10, NUMBERS, R1)
        .store64(R10, NUMBERS + 8, R1)
        .set(R1, 1)
        .store64(R10, NUMBERS + maps.of_place, R1)
        .map(R1, maps.others)
        .copy(R2, R10)
        .add_value(R2, PROCESS.into())
        .copy(R3, R10)
        .add_value(R3, NUMBERS.into())
        .set(R4, 0)
        .call(Helper::MapUpdate)
        .set(R0, 0)
        .exit();
}

/// Adds 1 to a number that programs share, and ends the program.
fn count(program: &mut Assembler, map: i32) {
    program.map_value(R1, map, 0).set(R2, 1).add_atomically(R1, 0, R2).set(R0, 0).exit();
}

/// Copies `bytes` bytes of the program's memory into the event at `to`: from the address in the register at `register` of the
/// context, plus `distance`.
pub(crate) fn copy_memory(program: &mut Assembler, to: i16, bytes: i32, register: i16, distance: i32) {
    program.copy(R1, R7).add_value(R1, to.into()).set(R2, bytes).load64(R3, R6, register);
    if distance != 0 {
        program.add_value(R3, distance);
    }
    program.call(Helper::ReadUser);
}

/// Copies 4 bytes of the register at `register` of the context into the event at `to`.
pub(crate) fn copy_register(program: &mut Assembler, to: i16, register: i16) {
    program.load64(R1, R6, register).store32(R7, to, R1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_their_bytes() {
        let bytes: Vec<u8> = (1u32..=8).flat_map(u32::to_le_bytes).collect();
        let event = PageEvent::parse(&bytes).expect("an event");
        assert_eq!((event.kind, event.process), (1, 2));
        assert_eq!((event.object, event.page, event.detail), ([3, 4, 5, 6], 7, 8));
        assert_eq!(PageEvent::parse(&bytes[..31]), None);
    }

    #[test]
    fn samples_have_their_share_of_pages() {
        for share in [0.5, 0.1] {
            let limit = (ALL_PAGES as f64 * share) as u64;
            let pages = (0..100_000).map(|page| PageEvent { object: [1663, 5, 16384, 0], page, ..PageEvent::default() });
            let kept = pages.filter(|event| event.sample_position() < limit).count();
            assert!((kept as f64 / 100_000.0 - share).abs() < 0.01, "{kept}");
        }
    }
}

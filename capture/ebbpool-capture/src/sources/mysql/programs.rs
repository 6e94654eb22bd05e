//! What runs at InnoDB's probes.

use crate::arch::Arch;
use crate::assembler::{Assembler, R1, R6, R7};
use crate::event::{self, Maps, field};

/// The kind of all events: a page is requested.
pub(super) const REQUEST: u32 = 1;

/// Where a function's argument with the page is, by the types in its mangled name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageArgument {
    /// `const page_id_t &`, of MySQL: the address of the tablespace and the page, 4 bytes each.
    Reference,
    /// `page_id_t`, of MariaDB: the tablespace in the upper half of a register, the page in the lower one.
    Value,
    /// `buf_block_t *` of MySQL: the address of a structure that begins with the tablespace and the page.
    Block,
    /// `buf_block_t *` of MariaDB, whose structure begins with the page and the tablespace.
    SwappedBlock,
}

/// A function to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestFunction {
    pub(super) page: PageArgument,
    /// The number of the argument with the page.
    pub(super) page_number: usize,
    /// The number of the argument with the latch.
    pub(super) latch_number: usize,
}

/// The functions of InnoDB that request pages.
pub(super) const FUNCTIONS: [&str; 3] = ["buf_page_get_gen", "buf_page_optimistic_get", "buf_page_get_known_nowait"];

impl RequestFunction {
    /// The function with this mangled name (Itanium C++ ABI, 5.1: `_Z`, the length of the name, the name, the types of the
    /// parameters); `None` if it is another one, or if its parameters are not known.
    pub(super) fn of_symbol(symbol: &str, is_mariadb: bool) -> Option<RequestFunction> {
        let rest = symbol.strip_prefix("_Z")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (length, rest) = rest.split_at(digits);
        let (name, types) = rest.split_at_checked(length.parse().ok()?)?;
        if !FUNCTIONS.contains(&name) {
            return None;
        }
        const BLOCK: &str = "P11buf_block_t";
        let block = match is_mariadb {
            true => PageArgument::SwappedBlock,
            false => PageArgument::Block,
        };
        let function = |page, page_number, latch_number| Some(RequestFunction { page, page_number, latch_number });
        match (name, types) {
            ("buf_page_get_gen", types) if types.starts_with("RK9page_id_t") => function(PageArgument::Reference, 0, 2),
            ("buf_page_get_gen", types) if types.starts_with("9page_id_tm") => function(PageArgument::Value, 0, 2),
            (_, types) if types.starts_with(BLOCK) => function(block, 0, 1),
            // The latch is a number (`m`) or an enumeration (`14rw_lock_type_t`).
            (_, types) if types.starts_with("m") || types.starts_with("14rw_lock_type_t") => {
                let after = types.trim_start_matches('m');
                let after = after.trim_start_matches("14rw_lock_type_t");
                match after.starts_with(BLOCK) {
                    true => function(block, 1, 0),
                    false => None,
                }
            }
            _ => None,
        }
    }
}

/// The entry of a function that requests a page. The third word of an event's object is the tablespace; the detail is the
/// latch.
pub(super) fn request(arch: Arch, maps: Maps, address: u64, function: RequestFunction) -> Vec<u64> {
    const SPACE: i16 = field::OBJECT + 8;
    const BEHIND: i16 = field::OBJECT + 12;
    let argument = arch.argument(function.page_number);
    let mut program = Assembler::default();
    let p = &mut program;
    event::begin(p, arch, maps, address);
    event::reserve(p, maps, REQUEST);
    match function.page {
        PageArgument::Value => {
            p.load64(R1, R6, argument).store64(R7, SPACE, R1);
        }
        _ => event::copy_memory(p, SPACE, 8, argument, 0),
    }
    // Both halves are there now. A number in a register has its lower half first.
    let (space, page) = match function.page {
        PageArgument::Reference | PageArgument::Block => (SPACE, BEHIND),
        PageArgument::Value | PageArgument::SwappedBlock => (BEHIND, SPACE),
    };
    p.load32(R1, R7, page).store32(R7, field::PAGE, R1);
    p.load32(R1, R7, space).store32(R7, SPACE, R1).store32_value(R7, BEHIND, 0);
    event::copy_register(p, field::DETAIL, arch.argument(function.latch_number));
    event::sample(p, maps);
    event::submit(p, maps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ProgramKind, load_program};

    #[test]
    fn the_kernel_accepts_programs_of_all_kinds() {
        let Some(channel) = crate::probes::test_channel() else {
            return;
        };
        for page in [PageArgument::Reference, PageArgument::Value, PageArgument::Block, PageArgument::SwappedBlock] {
            let function = RequestFunction { page, page_number: 1, latch_number: 2 };
            let code = request(Arch::THIS, channel.maps(), 0x1234, function);
            load_program(ProgramKind::Kprobe, &code).expect("accepted");
        }
    }

    #[test]
    fn arguments_are_found_by_the_mangled_names() {
        let of = |symbol, is_mariadb| {
            let found = RequestFunction::of_symbol(symbol, is_mariadb);
            found.map(|it| (it.page, it.page_number, it.latch_number))
        };
        for (symbol, expected) in [
            (
                "_Z16buf_page_get_genRK9page_id_tRK11page_size_tmP11buf_block_t10Page_fetchN2ut8LocationEP5mtr_tb",
                (PageArgument::Reference, 0, 2),
            ),
            ("_Z23buf_page_optimistic_getmP11buf_block_tm10Page_fetchPKcmP5mtr_t", (PageArgument::Block, 1, 0)),
            ("_Z25buf_page_get_known_nowaitmP11buf_block_t10Cache_hintPKcmP5mtr_t", (PageArgument::Block, 1, 0)),
        ] {
            assert_eq!(of(symbol, false), Some(expected), "{symbol}");
        }
        for (symbol, expected) in [
            ("_Z16buf_page_get_gen9page_id_tm14rw_lock_type_tP11buf_block_tmP5mtr_tP7dberr_t", (PageArgument::Value, 0, 2)),
            ("_Z23buf_page_optimistic_getP11buf_block_t14rw_lock_type_tmP5mtr_t", (PageArgument::SwappedBlock, 0, 1)),
            ("_Z23buf_page_optimistic_get14rw_lock_type_tP11buf_block_tmP5mtr_t", (PageArgument::SwappedBlock, 1, 0)),
        ] {
            assert_eq!(of(symbol, true), Some(expected), "{symbol}");
        }
        for symbol in [
            "", "_Z", "_Z16", "_Z99buf_page_get_gen", "_Z16buf_page_get_genv", "_Z16buf_page_get_gen9page_id_t",
            "_Z23buf_page_optimistic_getmm", "_Z21buf_page_get_gen_coldRK9page_id_t", "_ZN16buf_page_get_genE",
            "_Z15buf_page_get_ge\u{e9}", "buf_page_get_gen",
        ] {
            assert_eq!(of(symbol, false), None, "{symbol}");
        }
    }
}

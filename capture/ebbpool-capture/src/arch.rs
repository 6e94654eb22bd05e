//! Where the registers of a probed program are, as BPF programs see them.

/// A processor architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

/// The registers of x86-64 by the last letters of their names, and their offsets in `struct pt_regs`.
const X86_64: [(&str, i16); 16] = [
    ("r15", 0),
    ("r14", 8),
    ("r13", 16),
    ("r12", 24),
    ("bp", 32),
    ("bx", 40),
    ("r11", 48),
    ("r10", 56),
    ("r9", 64),
    ("r8", 72),
    ("ax", 80),
    ("cx", 88),
    ("dx", 96),
    ("si", 104),
    ("di", 112),
    ("sp", 152),
];

impl Arch {
    /// The architecture of this program.
    pub const THIS: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };

    /// True if the kernel emulates the first instruction of this code where a probe stands on it: an instruction that does nothing, a jump
    /// or a call to a stated place, or a `push` (`arch/x86/kernel/uprobes.c`, `arch/arm64/kernel/probes/decode-insn.c`).
    pub(crate) fn is_emulated(self, code: &[u8]) -> bool {
        match (self, code) {
            (Arch::X86_64, [0x90 | 0xe8 | 0xe9 | 0xeb | 0x50..=0x57 | 0x70..=0x7f, ..] | [0x41, 0x50..=0x57, ..]) => true,
            (Arch::X86_64, code) => matches!(code, [0x0f, 0x1f | 0x80..=0x8f, ..] | [0x66, 0x90, ..]),
            // Hints, and branches to stated places.
            (Arch::Aarch64, [low, b, c, high, ..]) => {
                let word = u32::from_le_bytes([*low, *b, *c, *high]);
                word & 0xffff_f01f == 0xd503_201f || word & 0x7c00_0000 == 0x1400_0000 || word & 0x7e00_0000 == 0x3400_0000
            }
            (Arch::Aarch64, _) => false,
        }
    }

    /// The offset of the instruction pointer in the context of a uprobe's program.
    pub(crate) fn instruction_pointer(self) -> i16 {
        match self {
            Arch::X86_64 => 128,
            Arch::Aarch64 => 256,
        }
    }

    /// The offset of the register with argument `number`, from 0 to 5, of a C function at its entry.
    pub(crate) fn argument(self, number: usize) -> i16 {
        match self {
            Arch::X86_64 => [112, 104, 96, 88, 72, 64][number],
            Arch::Aarch64 => 8 * number as i16,
        }
    }

    /// The offset of a register that an assembler calls `name`, such as `%eax` or `w23`; the part of the register that the
    /// name means begins there. `None` for registers without an offset: those of zeros, and unknown ones.
    pub(crate) fn register(self, name: &str) -> Option<i16> {
        match self {
            Arch::X86_64 => register_of_x86_64(name),
            Arch::Aarch64 => register_of_aarch64(name),
        }
    }
}

fn register_of_x86_64(name: &str) -> Option<i16> {
    let name = name.strip_prefix('%')?;
    let offset = |wanted: &str| {
        let found = X86_64.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, offset)| *offset)
    };
    // r8 to r15 with d, w or b for a part.
    if name.starts_with('r') && name[1..].starts_with(|letter: char| letter.is_ascii_digit()) {
        return offset(name.trim_end_matches(['d', 'w', 'b']));
    }
    let whole = match name {
        "al" | "bl" | "cl" | "dl" => return offset(&format!("{}x", &name[..1])),
        "sil" | "dil" | "bpl" | "spl" => &name[..2],
        _ => name.strip_prefix(['r', 'e']).unwrap_or(name),
    };
    offset(whole)
}

fn register_of_aarch64(name: &str) -> Option<i16> {
    if name == "sp" {
        return Some(248);
    }
    let number: i16 = name.strip_prefix(['x', 'w'])?.parse().ok()?;
    (0..31).contains(&number).then(|| 8 * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_that_the_kernel_emulates() {
        let x86: [(&[u8], bool); 9] = [
            (&[0x90], true),
            (&[0x55, 0x48], true),
            (&[0x41, 0x57], true),
            (&[0x0f, 0x1f, 0x44], true),
            (&[0xff, 0xa7, 0x10, 0x01], false),
            (&[0x48, 0x89], false),
            (&[0xf3, 0x0f, 0x1e, 0xfa], false),
            (&[0x41, 0x89], false),
            (&[], false),
        ];
        for (code, is_emulated) in x86 {
            assert_eq!(Arch::X86_64.is_emulated(code), is_emulated, "{code:x?}");
        }
        for (word, is_emulated) in [(0xd503_201fu32, true), (0xd503_245f, true), (0x9400_0001, true), (0xd100_43ff, false)] {
            assert_eq!(Arch::Aarch64.is_emulated(&word.to_le_bytes()), is_emulated, "{word:x}");
        }
    }

    #[test]
    fn registers_are_found_by_all_their_names() {
        let x86 = |name| Arch::X86_64.register(name);
        for name in ["%rax", "%eax", "%ax", "%al"] {
            assert_eq!(x86(name), Some(80), "{name}");
        }
        for (name, offset) in
            [("%rbp", 32), ("%bpl", 32), ("%r8", 72), ("%r13d", 16), ("%r15b", 0), ("%sil", 104), ("%rsp", 152)]
        {
            assert_eq!(x86(name), Some(offset), "{name}");
        }
        for name in ["rax", "%xmm0", "%rip", "%r16", "%", "", "%é"] {
            assert_eq!(x86(name), None, "{name}");
        }
        let arm = |name| Arch::Aarch64.register(name);
        assert_eq!((arm("x0"), arm("w19"), arm("x30")), (Some(0), Some(152), Some(240)));
        assert_eq!(arm("sp"), Some(248));
        for name in ["xzr", "wzr", "x31", "x-1", "x30000", "y1", "", "x"] {
            assert_eq!(arm(name), None, "{name}");
        }
    }
}

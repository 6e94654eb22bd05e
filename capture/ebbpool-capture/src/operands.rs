//! The operands of USDT probes: where a probe's arguments are when the program gets there.
//!
//! They are written as an assembler writes them: `-4@-136(%rbp)`, `4@%ebx`, `1@$1` on x86-64; `4@[x20, 8]`, `-4@x23`,
//! `1@1` on aarch64. The number before `@` is the size in bytes, negative for signed numbers.

use crate::arch::Arch;

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Nowhere: it is this number.
    Constant(i64),
    /// In the register at this offset of the program's context.
    Register(i16),
    /// In memory, at the address in a register plus a distance.
    Memory(i16, i32),
}

/// An argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Where it is.
    pub location: Location,
}

/// The arguments of a probe in order; `None` for those that this module does not understand.
pub fn operands(text: &str, arch: Arch) -> Vec<Option<Operand>> {
    // Operands are separated by blanks, and those of aarch64 have blanks behind commas.
    let joined = text.replace(", ", ",");
    let words = joined.split_ascii_whitespace();
    words.map(|word| operand(word, arch)).collect()
}

fn operand(text: &str, arch: Arch) -> Option<Operand> {
    let (size, location) = text.split_once('@')?;
    let size: i8 = size.parse().ok()?;
    let size = size.unsigned_abs();
    if !matches!(size, 1 | 2 | 4 | 8) {
        return None;
    }
    let location = location_of(location, arch)?;
    Some(Operand { size, location })
}

fn location_of(text: &str, arch: Arch) -> Option<Location> {
    if let Some(number) = text.strip_prefix('$') {
        return number.parse().ok().map(Location::Constant);
    }
    if let Ok(number) = text.parse() {
        return Some(Location::Constant(number));
    }
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        let (register, distance) = inner.split_once(',').unwrap_or((inner, "0"));
        return Some(Location::Memory(arch.register(register)?, distance.parse().ok()?));
    }
    if let Some((distance, register)) = text.split_once('(') {
        let register = arch.register(register.strip_suffix(')')?)?;
        let distance = match distance {
            "" => 0,
            distance => distance.parse().ok()?,
        };
        return Some(Location::Memory(register, distance));
    }
    arch.register(text).map(Location::Register)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_both_architectures_are_understood() {
        let found = operands("-4@-136(%rbp) 4@%ebx 1@$1 8@(%r12) -4@$-1", Arch::X86_64);
        let expected = [
            (4, Location::Memory(32, -136)),
            (4, Location::Register(40)),
            (1, Location::Constant(1)),
            (8, Location::Memory(24, 0)),
            (4, Location::Constant(-1)),
        ];
        let expected: Vec<_> = expected.map(|(size, location)| Some(Operand { size, location })).into();
        assert_eq!(found, expected);
        let found = operands("4@[x20, 8] -4@x23 1@1 4@[sp] 4@[x1,-16]", Arch::Aarch64);
        let expected = [
            (4, Location::Memory(160, 8)),
            (4, Location::Register(184)),
            (1, Location::Constant(1)),
            (4, Location::Memory(248, 0)),
            (4, Location::Memory(8, -16)),
        ];
        let expected: Vec<_> = expected.map(|(size, location)| Some(Operand { size, location })).into();
        assert_eq!(found, expected);
    }

    /// A location in short: the constant, the register's offset, or the register's offset and the distance.
    fn short(operand: &Option<Operand>) -> String {
        match operand {
            Some(Operand { size, location }) => match location {
                Location::Constant(number) => format!("{size}={number}"),
                Location::Register(register) => format!("{size}r{register}"),
                Location::Memory(register, distance) => format!("{size}m{register}{distance:+}"),
            },
            None => "?".into(),
        }
    }

    #[test]
    fn operands_of_released_builds_are_understood() {
        // Debian's packages of PostgreSQL 13.16, 15.18 and 17.11 for both architectures.
        let builds = [
            (
                "-4@-136(%rbp) 4@-132(%rbp) 4@(%rbx) 4@4(%rbx) 4@8(%rbx) -4@12(%rbx) 1@-141(%rbp) 1@-117(%rbp)",
                "4m32-136 4m32-132 4m40+0 4m40+4 4m40+8 4m40+12 1m32-141 1m32-117",
            ),
            (
                "-4@-136(%rbp) 4@-132(%rbp) 4@0(%r13) 4@4(%r13) 4@8(%r13) -4@12(%r13) 1@$0 1@$1",
                "4m32-136 4m32-132 4m16+0 4m16+4 4m16+8 4m16+12 1=0 1=1",
            ),
            ("-4@%r14d 4@%r15d 4@(%rbx) 4@4(%rbx) 4@8(%rbx) -4@12(%rbx) 1@%al", "4r8 4r0 4m40+0 4m40+4 4m40+8 4m40+12 1r80"),
            (
                "-4@-104(%rbp) 4@-108(%rbp) 4@(%r15) 4@4(%r15) 4@8(%r15) -4@12(%r15)",
                "4m32-104 4m32-108 4m0+0 4m0+4 4m0+8 4m0+12",
            ),
            (
                "-4@-88(%rbp) 4@(%r10) 4@4(%r10) 4@8(%r10) -4@12(%r10) 4@%r11d 4@-104(%rbp)",
                "4m32-88 4m56+0 4m56+4 4m56+8 4m56+12 4r48 4m32-104",
            ),
        ];
        for (text, expected) in builds {
            let found: Vec<String> = operands(text, Arch::X86_64).iter().map(short).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
        let builds = [
            (
                "-4@x23 4@x28 4@[x20] 4@[x20, 4] 4@[x20, 8] -4@[x20, 12] 1@[sp, 136] 1@[sp, 163]",
                "4r184 4r224 4m160+0 4m160+4 4m160+8 4m160+12 1m248+136 1m248+163",
            ),
            (
                "-4@x23 4@x26 4@[x20] 4@[x20, 4] 4@[x20, 8] -4@[x20, 12] 1@0 1@1",
                "4r184 4r208 4m160+0 4m160+4 4m160+8 4m160+12 1=0 1=1",
            ),
            ("-4@[sp, 20] 4@x20 4@[x0] 4@[x0, 4] 4@[x0, 8] -4@[x0, 12]", "4m248+20 4r160 4m0+0 4m0+4 4m0+8 4m0+12"),
            (
                "-4@[sp, 12] 4@[x22] 4@[x22, 4] 4@[x22, 8] -4@[x22, 12] 4@x27 4@[sp, 8]",
                "4m248+12 4m176+0 4m176+4 4m176+8 4m176+12 4r216 4m248+8",
            ),
        ];
        for (text, expected) in builds {
            let found: Vec<String> = operands(text, Arch::Aarch64).iter().map(short).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn other_operands_are_not_guessed() {
        let text = "4@%xmm0 3@%eax %eax 4@ 4@-8(%rip) 4@8(%rax,%rbx,4) 4@[x1 300@%eax";
        assert!(operands(text, Arch::X86_64).iter().all(Option::is_none));
    }
}

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
        return Some(Location::Memory(
            arch.register(register)?,
            distance.parse().ok()?,
        ));
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
        let expected: Vec<_> = expected
            .map(|(size, location)| Some(Operand { size, location }))
            .into();
        assert_eq!(found, expected);
        let found = operands("4@[x20, 8] -4@x23 1@1 4@[sp] 4@[x1,-16]", Arch::Aarch64);
        let expected = [
            (4, Location::Memory(160, 8)),
            (4, Location::Register(184)),
            (1, Location::Constant(1)),
            (4, Location::Memory(248, 0)),
            (4, Location::Memory(8, -16)),
        ];
        let expected: Vec<_> = expected
            .map(|(size, location)| Some(Operand { size, location }))
            .into();
        assert_eq!(found, expected);
    }

    #[test]
    fn other_operands_are_not_guessed() {
        let text = "4@%xmm0 3@%eax %eax 4@ 4@-8(%rip) 4@8(%rax,%rbx,4) 4@[x1 300@%eax";
        assert!(operands(text, Arch::X86_64).iter().all(Option::is_none));
    }
}

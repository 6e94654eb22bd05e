//! An assembler for the BPF instructions that captures need (RFC 9669).

use std::collections::HashMap;

/// A register of the BPF machine: R0 has results, R1 to R5 arguments, R6 to R9 survive calls, R10 is the end of the stack.
pub(crate) type Register = u8;

pub(crate) const R0: Register = 0;
pub(crate) const R1: Register = 1;
pub(crate) const R2: Register = 2;
pub(crate) const R3: Register = 3;
pub(crate) const R4: Register = 4;
pub(crate) const R6: Register = 6;
pub(crate) const R7: Register = 7;
pub(crate) const R8: Register = 8;
pub(crate) const R9: Register = 9;
pub(crate) const R10: Register = 10;

/// Functions of the kernel that programs call (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    CurrentProcessor = 8,
    CurrentPidTgid = 14,
    CurrentTask = 35,
    ReadUser = 112,
    ReadKernel = 113,
    Reserve = 131,
    Submit = 132,
    Discard = 133,
}

/// `BPF_RB_NO_WAKEUP`: the reader polls the ring, so that the program need not wake it.
pub(crate) const NO_WAKE_UP: i32 = 1;

/// A program under construction. Jumps go forwards, to labels.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    labels: HashMap<&'static str, usize>,
    jumps: Vec<(usize, &'static str)>,
}

fn instruction(code: u8, to: Register, from: Register, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | u64::from(to) << 8
        | u64::from(from) << 12
        | u64::from(offset as u16) << 16
        | u64::from(value as u32) << 32
}

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $code:literal, $to:expr, $from:expr, $offset:expr, $value:expr;)+) => {
        $($(#[$doc])* pub(crate) fn $name(&mut self, $($argument: $type),*) -> &mut Self {
            self.put($code, $to, $from, $offset, $value)
        })+
    };
}

macro_rules! jumps {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $code:literal, $to:expr, $from:expr, $value:expr;)+) => {
        $($(#[$doc])* pub(crate) fn $name(&mut self, $($argument: $type,)* label: &'static str) -> &mut Self {
            self.jumps.push((self.code.len(), label));
            self.put($code, $to, $from, 0, $value)
        })+
    };
}

impl Assembler {
    fn put(&mut self, code: u8, to: Register, from: Register, offset: i16, value: i32) -> &mut Self {
        self.code.push(instruction(code, to, from, offset, value));
        self
    }

    instructions! {
        copy(to: Register, from: Register) = 0xbf, to, from, 0, 0;
        set(to: Register, value: i32) = 0xb7, to, 0, 0, value;
        add(to: Register, from: Register) = 0x0f, to, from, 0, 0;
        subtract(to: Register, from: Register) = 0x1f, to, from, 0, 0;
        multiply(to: Register, from: Register) = 0x2f, to, from, 0, 0;
        add_value(to: Register, value: i32) = 0x07, to, 0, 0, value;
        and_value(to: Register, value: i32) = 0x57, to, 0, 0, value;
        multiply_value(to: Register, value: i32) = 0x27, to, 0, 0, value;
        shift_left(to: Register, bits: i32) = 0x67, to, 0, 0, bits;
        shift_right(to: Register, bits: i32) = 0x77, to, 0, 0, bits;
        /// Shifts a signed number.
        shift_right_signed(to: Register, bits: i32) = 0xc7, to, 0, 0, bits;
        load64(to: Register, from: Register, offset: i16) = 0x79, to, from, offset, 0;
        load32(to: Register, from: Register, offset: i16) = 0x61, to, from, offset, 0;
        store64(to: Register, offset: i16, from: Register) = 0x7b, to, from, offset, 0;
        store32(to: Register, offset: i16, from: Register) = 0x63, to, from, offset, 0;
        store32_value(to: Register, offset: i16, value: i32) = 0x62, to, 0, offset, value;
        /// Adds to a number in memory, as one step.
        add_atomically(to: Register, offset: i16, from: Register) = 0xdb, to, from, offset, 0;
        call(helper: Helper) = 0x85, 0, 0, 0, helper as i32;
        exit() = 0x95, 0, 0, 0, 0;
    }

    jumps! {
        jump() = 0x05, 0, 0, 0;
        jump_unless_equal(one: Register, other: Register) = 0x5d, one, other, 0;
        jump_unless_value(one: Register, value: i32) = 0x55, one, 0, value;
        jump_if_value(one: Register, value: i32) = 0x15, one, 0, value;
        /// Compares numbers without signs.
        jump_if_not_below(one: Register, other: Register) = 0x3d, one, other, 0;
        /// Compares signed numbers.
        jump_if_at_most(one: Register, value: i32) = 0xd5, one, 0, value;
    }

    pub(crate) fn set64(&mut self, to: Register, value: u64) -> &mut Self {
        self.put(0x18, to, 0, 0, value as i32).put(0, 0, 0, 0, (value >> 32) as i32)
    }

    /// The map with this descriptor.
    pub(crate) fn map(&mut self, to: Register, descriptor: i32) -> &mut Self {
        self.put(0x18, to, 1, 0, descriptor).put(0, 0, 0, 0, 0)
    }

    /// The address of a byte in the first value of the map with this descriptor.
    pub(crate) fn map_value(&mut self, to: Register, descriptor: i32, offset: i32) -> &mut Self {
        self.put(0x18, to, 2, 0, descriptor).put(0, 0, 0, 0, offset)
    }

    pub(crate) fn label(&mut self, label: &'static str) -> &mut Self {
        self.labels.insert(label, self.code.len());
        self
    }

    /// True if something jumps to the label.
    pub(crate) fn is_wanted(&self, label: &str) -> bool {
        self.jumps.iter().any(|jump| jump.1 == label)
    }

    /// The program. A jump to a label that does not exist, which would be a defect of the caller, ends the program.
    pub(crate) fn finish(&mut self) -> Vec<u64> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let target = self.labels.get(label).copied().unwrap_or(self.code.len());
            debug_assert!(target > at && target < self.code.len(), "label {label}");
            let distance = (target - at - 1) as u16;
            self.code[at] |= u64::from(distance) << 16;
        }
        self.labels.clear();
        std::mem::take(&mut self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_bytes_of_the_standard() {
        let mut program = Assembler::default();
        program
            .copy(R6, R1)
            .load64(R1, R6, 128)
            .set64(R2, 0x1122_3344_5566_7788)
            .jump_unless_equal(R1, R2, "out")
            .store32_value(R7, 4, -1)
            .label("out")
            .set(R0, 0)
            .exit();
        assert!(program.is_wanted("out") && !program.is_wanted("lost"));
        let code = program.finish();
        let bytes: Vec<[u8; 8]> = code.iter().map(|word| word.to_le_bytes()).collect();
        assert_eq!(
            bytes,
            [
                [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
                [0x79, 0x61, 128, 0, 0, 0, 0, 0],
                [0x18, 0x02, 0, 0, 0x88, 0x77, 0x66, 0x55],
                [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
                [0x5d, 0x21, 1, 0, 0, 0, 0, 0],
                [0x62, 0x07, 4, 0, 0xff, 0xff, 0xff, 0xff],
                [0xb7, 0x00, 0, 0, 0, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }
}

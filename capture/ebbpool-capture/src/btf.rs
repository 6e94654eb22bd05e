//! Offsets in the kernel's structures, from its own description (BPF type format, `Documentation/bpf/btf.rst`).

use std::fs;

use hashbrown::HashMap;

use crate::error::CaptureError;

/// Where a running kernel shows its types.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;

/// Kinds of types.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// How deep unnamed structures may lie in each other.
const DEEPEST: u32 = 16;

/// The most members that are looked at for one that is wanted, by which wrong descriptions end too. The kernel's largest
/// structures have some hundreds.
const MOST_MEMBERS: u32 = 1 << 16;

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelFunction {
    pub(crate) name: String,
    /// Its number among the types.
    pub(crate) number: u32,
    /// The names of its arguments, empty where the kernel has none.
    pub(crate) arguments: Vec<String>,
}

impl KernelFunction {
    /// Bytes from the start of a program's context to an argument.
    pub(crate) fn argument(&self, name: &str) -> Option<i16> {
        self.arguments.iter().position(|argument| argument == name).map(|at| 8 * at as i16)
    }

    /// Bytes to the result.
    pub(crate) fn result(&self) -> i16 {
        8 * self.arguments.len() as i16
    }
}

/// The types of a kernel.
#[derive(Debug)]
pub struct KernelTypes {
    data: Vec<u8>,
    /// Offsets of the types; the first is void.
    types: Vec<usize>,
    strings: usize,
    /// Structures by name.
    structures: HashMap<Vec<u8>, usize>,
}

impl KernelTypes {
    /// The types of the running kernel.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Kernel`] if the kernel has no description of its types, [`CaptureError::Malformed`].
    pub fn of_kernel() -> Result<KernelTypes, CaptureError> {
        let data = fs::read(KERNEL).map_err(|error| CaptureError::Kernel {
            attempt: "describe its types".into(),
            detail: format!("{KERNEL}: {error}"),
        })?;
        KernelTypes::parse(data).ok_or_else(|| CaptureError::malformed(KERNEL, "malformed types"))
    }

    /// Parses a description; `None` if it is malformed.
    pub fn parse(data: Vec<u8>) -> Option<KernelTypes> {
        let number = |at: usize| number(&data, at).and_then(|it| usize::try_from(it).ok());
        if data.get(..2)? != MAGIC.to_le_bytes() {
            return None;
        }
        let header = number(4)?;
        let start = header.checked_add(number(8)?)?;
        let end = start.checked_add(number(12)?)?;
        let strings = header.checked_add(number(16)?)?;
        let (mut types, mut at) = (vec![0], start);
        while at < end {
            types.push(at);
            at = at.checked_add(12 + details(number(at + 4)? as u32)?)?;
        }
        let mut found = KernelTypes { data, types, strings, structures: HashMap::new() };
        found.structures = found.named_structures();
        Some(found)
    }

    fn named_structures(&self) -> HashMap<Vec<u8>, usize> {
        let mut structures = HashMap::new();
        for &at in self.types.iter().skip(1) {
            let info = self.number(at + 4).unwrap_or(0);
            let name = self.number(at).and_then(|name| self.text(name));
            if let Some(name) = name
                && kind_of(info) == kind::STRUCT
                && info & 0xffff > 0
            {
                structures.entry(name.to_vec()).or_insert(at);
            }
        }
        structures
    }

    /// True if the kernel has a tracepoint of this name.
    pub fn has_tracepoint(&self, name: &str) -> bool {
        // The kernel defines a type for each, for programs that want its arguments.
        let wanted = format!("btf_trace_{name}");
        self.types.iter().skip(1).any(|&at| {
            let named = self.number(at).and_then(|name| self.text(name));
            let is_alias = self.number(at + 4).map(kind_of) == Some(kind::TYPEDEF);
            is_alias && named == Some(wanted.as_bytes())
        })
    }

    /// The functions of these names that the kernel has once, in their order; `None` if one is missing, or there are several.
    pub(crate) fn functions(&self, names: &[String]) -> Option<Vec<KernelFunction>> {
        // A program's context has no more.
        const MOST_ARGUMENTS: u32 = 12;
        let mut found: Vec<Option<KernelFunction>> = vec![None; names.len()];
        for (number, &at) in (0u32..).zip(&self.types).skip(1) {
            if self.number(at + 4).map(kind_of) != Some(kind::FUNC) {
                continue;
            }
            let name = self.number(at).and_then(|name| self.text(name));
            let Some(place) = names.iter().position(|wanted| Some(wanted.as_bytes()) == name) else {
                continue;
            };
            let prototype = *self.types.get(self.number(at + 8)? as usize)?;
            let info = self.number(prototype + 4)?;
            if kind_of(info) != kind::FUNC_PROTO || info & 0xffff > MOST_ARGUMENTS || found[place].is_some() {
                return None;
            }
            let argument = |index: usize| {
                let name = self.text(self.number(prototype + 12 + 8 * index)?)?;
                Some(String::from_utf8_lossy(name).into_owned())
            };
            let arguments = (0..(info & 0xffff) as usize).map(argument).collect::<Option<Vec<String>>>()?;
            found[place] = Some(KernelFunction { name: names[place].clone(), number, arguments });
        }
        found.into_iter().collect()
    }

    fn number(&self, at: usize) -> Option<u32> {
        number(&self.data, at)
    }

    fn text(&self, offset: u32) -> Option<&[u8]> {
        let start = self.strings.checked_add(offset as usize)?;
        let text = self.data.get(start..)?;
        text.split(|&byte| byte == 0).next()
    }

    /// Bytes from the start of a structure to a member; members of unnamed structures and unions count as its own.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Kernel`] if there is no such member.
    pub fn offset(&self, structure: &str, member: &str) -> Result<i32, CaptureError> {
        let at = self.structures.get(structure.as_bytes());
        let offset = at.and_then(|&at| {
            let mut members = MOST_MEMBERS;
            self.within(at, member.as_bytes(), DEEPEST, &mut members)
        });
        offset.ok_or_else(|| CaptureError::Kernel {
            attempt: "be read as expected".into(),
            detail: format!("its types have no {structure}.{member}"),
        })
    }

    /// Bytes of a structure.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Kernel`] if there is no such structure.
    pub fn size(&self, structure: &str) -> Result<i32, CaptureError> {
        let size = self.structures.get(structure.as_bytes()).and_then(|&at| self.number(at + 8));
        size.and_then(|size| i32::try_from(size).ok()).ok_or_else(|| CaptureError::Kernel {
            attempt: "be read as expected".into(),
            detail: format!("its types have no {structure}"),
        })
    }

    fn within(&self, mut at: usize, member: &[u8], depth: u32, members: &mut u32) -> Option<i32> {
        for _ in 0..DEEPEST {
            let is_alias = matches!(kind_of(self.number(at + 4)?), kind::TYPEDEF..=kind::RESTRICT | kind::TYPE_TAG);
            if !is_alias {
                break;
            }
            at = *self.types.get(self.number(at + 8)? as usize)?;
        }
        let info = self.number(at + 4)?;
        if !matches!(kind_of(info), kind::STRUCT | kind::UNION) || depth == 0 {
            return None;
        }
        (0..(info & 0xffff) as usize).find_map(|index| {
            *members = members.checked_sub(1)?;
            let entry = at + 12 + 12 * index;
            let offset = self.number(entry + 8)?;
            // With this flag the upper bits are the width of a bit field.
            let bits = if info >> 31 == 1 { offset & 0xff_ffff } else { offset };
            let bytes = (bits / 8) as i32;
            let name = self.text(self.number(entry)?)?;
            match name {
                name if name == member => Some(bytes),
                [] => {
                    let inner = *self.types.get(self.number(entry + 4)? as usize)?;
                    self.within(inner, member, depth - 1, members)?.checked_add(bytes)
                }
                _ => None,
            }
        })
    }
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 31
}

/// Bytes behind the first 12 of a type.
fn details(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match kind_of(info) {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count,
        kind::ENUM | kind::FUNC_PROTO => 8 * count,
        0..=18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A description of `struct file { int a; struct { int b; long c:5 }; }`.
    fn description() -> Vec<u8> {
        let strings = b"\0file\0a\0b\0c\0int\0";
        let mut types: Vec<u32> = Vec::new();
        types.extend([12, kind::INT << 24, 4, 32]);
        types.extend([0, kind::STRUCT << 24 | 2 | 1 << 31, 8]);
        types.extend([8, 1, 0, 10, 1, 5 << 24 | 32]);
        types.extend([1, kind::STRUCT << 24 | 2, 16]);
        types.extend([6, 1, 0, 0, 2, 64]);
        let bytes: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut data = MAGIC.to_le_bytes().to_vec();
        data.extend([1, 0]);
        for word in [24, 0, bytes.len(), bytes.len(), strings.len()] {
            data.extend((word as u32).to_le_bytes());
        }
        data.extend(bytes);
        data.extend(strings);
        data
    }

    #[test]
    fn members_are_found_in_unnamed_structures() {
        let types = KernelTypes::parse(description()).expect("types");
        assert_eq!(types.offset("file", "a").expect("a"), 0);
        assert_eq!(types.offset("file", "b").expect("b"), 8);
        assert_eq!(types.offset("file", "c").expect("c"), 12);
        assert!(types.offset("file", "d").is_err());
        assert!(types.offset("int", "a").is_err());
    }

    #[test]
    fn structures_in_themselves_end() {
        // All of its unnamed members are the structure itself.
        let types = [1, kind::STRUCT << 24 | 40, 16];
        let members = (0..40).flat_map(|_| [0, 1, u32::MAX]);
        let words: Vec<u32> = types.into_iter().chain(members).collect();
        let strings = b"\0file\0";
        let mut data = MAGIC.to_le_bytes().to_vec();
        data.extend([1, 0]);
        for word in [24, 0, 4 * words.len(), 4 * words.len(), strings.len()] {
            data.extend((word as u32).to_le_bytes());
        }
        data.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        data.extend(strings);
        let types = KernelTypes::parse(data).expect("types");
        assert!(types.offset("file", "a").is_err());
    }

    #[test]
    fn no_cut_makes_the_reader_panic() {
        let whole = description();
        for length in 0..whole.len() {
            if let Some(types) = KernelTypes::parse(whole[..length].to_vec()) {
                let _ = types.offset("file", "c");
            }
        }
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 0xff;
            if let Some(types) = KernelTypes::parse(wrong) {
                let _ = types.offset("file", "c");
            }
        }
    }

    #[test]
    fn this_kernel_describes_its_files() {
        let Ok(types) = KernelTypes::of_kernel() else {
            let _ = writeln!(std::io::stderr(), "skipped: this kernel does not describe its types");
            return;
        };
        assert!(types.offset("task_struct", "files").expect("an offset") > 0);
        assert!(types.offset("file", "f_inode").is_ok());
        assert!(types.has_tracepoint("sys_exit") && !types.has_tracepoint("sys"));
        let found = types.functions(&["vfs_write".into(), "vfs_read".into()]).expect("functions");
        assert_eq!(found[1].arguments, ["file", "buf", "count", "pos"]);
        assert_eq!((found[0].argument("pos"), found[0].result()), (Some(24), 32));
        assert_eq!(types.functions(&["vfs_read".into(), "no_such_function".into()]), None);
    }
}

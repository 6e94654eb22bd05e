//! What a program's file says: symbols, USDT probes, and where addresses are in the file.

use std::fs;

use hashbrown::{HashMap, HashSet};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSymbol, elf};

use crate::error::CaptureError;

/// A USDT probe: an instruction that does nothing, and the arguments that a reader finds there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtProbe {
    /// The program that defines the probe.
    pub provider: String,
    /// Its name.
    pub name: String,
    /// The address of the instruction.
    pub address: u64,
    /// Its [operands](crate::operands).
    pub operands: String,
}

/// A part of the file that is loaded into memory.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    bytes: u64,
    offset: u64,
    executable: bool,
}

/// A program or library, parsed.
#[derive(Debug)]
pub struct ElfProgram {
    segments: Vec<Segment>,
    symbols: HashMap<String, u64>,
    /// Names of the symbols that other programs and libraries may use.
    exports: HashSet<String>,
    probes: Vec<UsdtProbe>,
    build_id: String,
    data: Vec<u8>,
}

/// The type of the notes of USDT probes (`NT_STAPSDT`).
const STAPSDT: u32 = 3;

/// `endbr64`, at which functions begin that are called by address.
const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

impl ElfProgram {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Read`] and [`CaptureError::Malformed`].
    pub fn read(path: &str) -> Result<ElfProgram, CaptureError> {
        let data = fs::read(path).map_err(CaptureError::read(path))?;
        ElfProgram::parse(data).map_err(|problem| CaptureError::malformed(path, problem))
    }

    /// Parses the bytes of a file. The error says what is wrong with them.
    pub fn parse(data: Vec<u8>) -> Result<ElfProgram, String> {
        let problem = |error: object::Error| format!("not a 64-bit ELF program: {error}");
        let file = ElfFile64::<LittleEndian>::parse(&*data).map_err(problem)?;
        let endian = LittleEndian;
        let loaded = file.elf_program_headers().iter();
        let segments = loaded
            .filter(|header| header.p_type(endian) == elf::PT_LOAD)
            .map(|header| Segment {
                address: header.p_vaddr(endian),
                bytes: header.p_filesz(endian),
                offset: header.p_offset(endian),
                executable: header.p_flags(endian) & elf::PF_X != 0,
            })
            .collect();
        let mut symbols = HashMap::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if let (true, Ok(name)) = (symbol.is_definition(), symbol.name()) {
                symbols.insert(name.to_owned(), symbol.address());
            }
        }
        let exported = file
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition());
        let exports = exported.filter_map(|symbol| Some(symbol.name().ok()?.to_owned()));
        let exports = exports.collect();
        let probes = usdt_probes(&file, &data).map_err(problem)?;
        let build_id = file.build_id().ok().flatten().unwrap_or_default();
        let build_id = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(ElfProgram {
            segments,
            symbols,
            exports,
            probes,
            build_id,
            data,
        })
    }

    /// The identity of the build, in hexadecimal; empty if the linker wrote none.
    pub fn build_id(&self) -> &str {
        &self.build_id
    }

    /// The USDT probes of a provider with this name.
    pub fn probes<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a UsdtProbe> {
        let fits = move |probe: &&UsdtProbe| probe.provider == provider && probe.name == name;
        self.probes.iter().filter(fits)
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// True if the symbol is exported. Compilers may leave out functions that are not, or give them other parameters.
    pub fn exports(&self, name: &str) -> bool {
        self.exports.contains(name)
    }

    /// The first symbol in alphabetic order whose name begins so, as names of C++ functions do with their parameters left
    /// out.
    pub fn symbol_beginning(&self, prefix: &str) -> Option<(&str, u64)> {
        let found = self.symbols.iter();
        let found = found.filter(|(name, _)| name.starts_with(prefix));
        found.min().map(|(name, &address)| (name.as_str(), address))
    }

    /// Where to probe a function. Behind the landing pad there is mostly a `push`, which the kernel emulates; at the pad
    /// itself it would have to step, which costs ten times as much.
    pub fn entry(&self, address: u64) -> u64 {
        let start = self.offset(address).and_then(|at| usize::try_from(at).ok());
        let code = start.and_then(|at| self.data.get(at..)).unwrap_or_default();
        match code.starts_with(&LANDING_PAD) {
            true => address.wrapping_add(LANDING_PAD.len() as u64),
            false => address,
        }
    }

    /// The offset in the file of an address.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let within = |segment: &&Segment| {
            address >= segment.address && address - segment.address < segment.bytes
        };
        let segment = self.segments.iter().find(within)?;
        segment.offset.checked_add(address - segment.address)
    }

    /// The address that the file gives to an executable mapping of it which begins at `offset`. Segments may share a page of
    /// the file, so that only executable ones count.
    pub(crate) fn address_of_mapping(&self, offset: u64) -> Option<u64> {
        const ALIGNMENT: u64 = 1 << 16;
        let within = |segment: &&Segment| {
            let start = segment.offset & !(ALIGNMENT - 1);
            let end = segment.offset.saturating_add(segment.bytes);
            segment.executable && (start..end).contains(&offset)
        };
        let segment = self.segments.iter().find(within)?;
        Some(
            offset
                .wrapping_add(segment.address)
                .wrapping_sub(segment.offset),
        )
    }
}

/// The address of the section to which the addresses in the notes are relative, if something has moved it.
fn base_of_probes<'a, R: object::ReadRef<'a>>(
    sections: &object::read::elf::SectionTable<'a, elf::FileHeader64<LittleEndian>, R>,
) -> u64 {
    let found = sections.iter().find(|section| {
        sections.section_name(LittleEndian, section) == Ok(b".stapsdt.base".as_slice())
    });
    found.map_or(0, |section| section.sh_addr(LittleEndian))
}

fn usdt_probes(
    file: &ElfFile64<LittleEndian>,
    data: &[u8],
) -> Result<Vec<UsdtProbe>, object::Error> {
    let endian = LittleEndian;
    let sections = file.elf_header().sections(endian, data)?;
    let base = base_of_probes(&sections);
    let mut probes = Vec::new();
    for section in sections.iter() {
        let Ok(Some(mut notes)) = section.notes(endian, data) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"stapsdt" && note.n_type(endian) == STAPSDT {
                probes.extend(usdt_probe(note.desc(), base));
            }
        }
    }
    Ok(probes)
}

/// A probe from its note: address, address of the base when it was linked, semaphore, then three texts that end with NUL.
fn usdt_probe(note: &[u8], base: u64) -> Option<UsdtProbe> {
    let (words, texts) = note.split_at_checked(24)?;
    let word = |at: usize| Some(u64::from_le_bytes(words.get(at..at + 8)?.try_into().ok()?));
    let mut texts = texts.split(|&byte| byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    let (address, linked_base) = (word(0)?, word(8)?);
    let moved = match base {
        0 => 0,
        base => base.wrapping_sub(linked_base),
    };
    Some(UsdtProbe {
        provider: text()?,
        name: text()?,
        address: address.wrapping_add(moved),
        operands: text()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_from_its_note() {
        let mut note = Vec::new();
        for word in [0x1000u64, 0x500, 0] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"postgresql\0buffer__read__done\0-4@%eax\0");
        let probe = usdt_probe(&note, 0).expect("a probe");
        assert_eq!(
            (probe.address, probe.name.as_str()),
            (0x1000, "buffer__read__done")
        );
        assert_eq!(probe.operands, "-4@%eax");
        assert_eq!(usdt_probe(&note, 0x700).expect("a probe").address, 0x1200);
        assert_eq!(usdt_probe(&note[..20], 0), None);
        assert_eq!(usdt_probe(&note[..30], 0), None);
    }

    #[test]
    fn this_program_has_its_symbols_and_is_no_text() {
        let own = ElfProgram::read("/proc/self/exe").expect("an ELF program");
        let main = own.symbol("main").expect("a symbol");
        assert!(own.offset(main).is_some());
        assert!(ElfProgram::parse(b"\x7fELF".to_vec()).is_err());
        assert!(ElfProgram::parse(Vec::new()).is_err());
    }
}

//! What a program's file says: symbols, USDT probes, and where addresses are in the file.

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSymbol, elf};

use crate::arch::Arch;
use crate::error::CaptureError;
use crate::foreign::{self, PROGRAM, ProgramFile};
use crate::symbols::Symbols;

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
    symbols: Symbols,
    probes: Vec<UsdtProbe>,
    build_id: String,
    data: Vec<u8>,
}

/// The type of the notes of USDT probes (`NT_STAPSDT`).
const STAPSDT: u32 = 3;

/// The programs whose probes captures use, and the most probes of a program.
const PROVIDERS: [&str; 1] = ["postgresql"];
const MOST_PROBES: usize = 1 << 16;

/// `endbr64`, at which functions begin that are called by address.
const LANDING_PAD: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

impl ElfProgram {
    /// Reads a file that the caller names.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Read`] and [`CaptureError::Malformed`].
    pub fn read(path: &str) -> Result<ElfProgram, CaptureError> {
        let data = foreign::open_link(path).and_then(|file| foreign::read_all(&file, PROGRAM));
        let data = data.map_err(CaptureError::read(path))?;
        ElfProgram::parse(data).map_err(|problem| CaptureError::malformed(path, problem))
    }

    /// Reads a file that is open already; messages call it `name`.
    pub(crate) fn of_file(file: &ProgramFile, name: &str) -> Result<ElfProgram, CaptureError> {
        let data = file.read().map_err(CaptureError::read(name))?;
        ElfProgram::parse(data).map_err(|problem| CaptureError::malformed(name, problem))
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
        let mut budget = NameBudget::of_file(&data);
        let mut symbols = Symbols::default();
        for symbol in file.symbols() {
            budget.spend(&symbol)?;
            if let Some(name) = definition(&symbol) {
                symbols.insert(&data, name, symbol.address(), false);
            }
        }
        for symbol in file.dynamic_symbols() {
            budget.spend(&symbol)?;
            if let Some(name) = definition(&symbol) {
                symbols.insert(&data, name, symbol.address(), true);
            }
        }
        let notes = Notes::of_file(&file, &data, &mut budget)?;
        let (probes, build_id) = (notes.usdt_probes(), notes.build_id());
        Ok(ElfProgram { segments, symbols, probes, build_id, data })
    }

    /// The identity of the build, in hexadecimal; empty if the linker wrote none.
    pub fn build_id(&self) -> &str {
        &self.build_id
    }

    /// The USDT probes of a provider with this name.
    pub fn probes<'a>(&'a self, provider: &'a str, name: &'a str) -> impl Iterator<Item = &'a UsdtProbe> {
        let fits = move |probe: &&UsdtProbe| probe.provider == provider && probe.name == name;
        self.probes.iter().filter(fits)
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.address(&self.data, name)
    }

    /// True if the symbol is exported. Compilers may leave out functions that are not, or give them other parameters.
    pub fn exports(&self, name: &str) -> bool {
        self.symbols.is_exported(&self.data, name)
    }

    /// The first symbol in alphabetic order whose name begins so, as names of C++ functions do with their parameters left
    /// out.
    pub fn symbol_beginning(&self, prefix: &str) -> Option<(&str, u64)> {
        self.symbols.beginning(&self.data, prefix)
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

    /// True if the kernel has to step over the instruction at this address, with a second trap, and cannot emulate it.
    pub(crate) fn is_stepped(&self, address: u64) -> bool {
        let start = self.offset(address).and_then(|at| usize::try_from(at).ok());
        let code = start.and_then(|at| self.data.get(at..)).unwrap_or_default();
        !Arch::THIS.is_emulated(code)
    }

    /// The offset in the file of an address.
    pub fn offset(&self, address: u64) -> Option<u64> {
        let within = |segment: &&Segment| address >= segment.address && address - segment.address < segment.bytes;
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
        Some(offset.wrapping_add(segment.address).wrapping_sub(segment.offset))
    }
}

/// The longest name of a symbol that is looked for.
const LONGEST_NAME: usize = 512;

/// The name of a symbol that the file defines.
fn definition<'a>(symbol: &impl ObjectSymbol<'a>) -> Option<&'a str> {
    let name = symbol.is_definition().then(|| symbol.name().ok())??;
    (name.len() <= LONGEST_NAME).then_some(name)
}

/// Bytes of names that are looked at: in a hostile file every symbol may have the same long name.
struct NameBudget(u64, u64);

impl NameBudget {
    /// Each byte of a file is part of a few names at most, since linkers let a name share the end of another one.
    fn of_file(data: &[u8]) -> NameBudget {
        const SHARED: u64 = 16;
        let bytes = data.len() as u64;
        NameBudget(SHARED * bytes, bytes)
    }

    fn spend<'a>(&mut self, symbol: &impl ObjectSymbol<'a>) -> Result<(), String> {
        self.spend_bytes(symbol.name_bytes().ok())
    }

    /// A name without an end was looked at to the end of the file.
    fn spend_bytes(&mut self, name: Option<&[u8]>) -> Result<(), String> {
        let bytes = name.map_or(self.1, |name| name.len() as u64);
        self.0 = self.0.checked_sub(bytes).ok_or("its names are longer than the file")?;
        Ok(())
    }
}

type Section = elf::SectionHeader64<LittleEndian>;

/// The sections of a file with notes that captures read.
struct Notes<'data> {
    /// The address to which the addresses in the notes are relative, if something has moved it.
    base: u64,
    probes: Option<&'data [u8]>,
    build: Option<&'data [u8]>,
}

impl<'data> Notes<'data> {
    fn of_file(
        file: &ElfFile64<'data, LittleEndian>,
        data: &'data [u8],
        budget: &mut NameBudget,
    ) -> Result<Notes<'data>, String> {
        let problem = |error: object::Error| format!("not a 64-bit ELF program: {error}");
        let endian = LittleEndian;
        let sections = file.elf_header().sections(endian, data).map_err(problem)?;
        let mut found = Notes { base: 0, probes: None, build: None };
        for section in sections.iter() {
            let name = sections.section_name(endian, section).ok();
            budget.spend_bytes(name)?;
            let is_note = section.sh_type(endian) == elf::SHT_NOTE;
            let contents = |section: &Section| section.data(endian, data).ok();
            // Linkers make one section of all notes of a kind; a hostile file may have any number of them.
            match name {
                Some(b".stapsdt.base") => found.base = section.sh_addr(endian),
                Some(b".note.stapsdt") if is_note => {
                    found.probes = found.probes.or_else(|| contents(section));
                }
                Some(b".note.gnu.build-id") if is_note => {
                    found.build = found.build.or_else(|| contents(section));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The USDT probes of the programs that captures know.
    fn usdt_probes(&self) -> Vec<UsdtProbe> {
        let notes = self.probes.iter().flat_map(|contents| notes(contents));
        let theirs = notes.filter(|note| note.name == b"stapsdt\0" && note.kind == STAPSDT);
        let probes = theirs.filter_map(|note| usdt_probe(note.contents, self.base));
        let known = probes.filter(|probe| PROVIDERS.contains(&probe.provider.as_str()));
        known.take(MOST_PROBES).collect()
    }

    fn build_id(&self) -> String {
        let mut notes = self.build.iter().flat_map(|contents| notes(contents));
        let found = notes.find(|note| note.name == b"GNU\0" && note.kind == elf::NT_GNU_BUILD_ID);
        let bytes = found.map_or(&[][..], |note| note.contents);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A note: two texts of bytes, the first with its NUL, and a number.
struct Note<'data> {
    name: &'data [u8],
    kind: u32,
    contents: &'data [u8],
}

/// The notes of a section, up to one that does not fit.
fn notes(mut section: &[u8]) -> impl Iterator<Item = Note<'_>> {
    std::iter::from_fn(move || {
        let word = |at: usize| {
            let bytes = section.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (name, contents, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let rest = section.get(12..)?;
        let note = Note { name: rest.get(..name)?, kind, contents: rest.get(name.next_multiple_of(4)..)?.get(..contents)? };
        let end = name.next_multiple_of(4) + contents.next_multiple_of(4);
        section = rest.get(end..).unwrap_or_default();
        Some(note)
    })
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
    Some(UsdtProbe { provider: text()?, name: text()?, address: address.wrapping_add(moved), operands: text()? })
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
        assert_eq!((probe.address, probe.name.as_str()), (0x1000, "buffer__read__done"));
        assert_eq!(probe.operands, "-4@%eax");
        assert_eq!(usdt_probe(&note, 0x700).expect("a probe").address, 0x1200);
        assert_eq!(usdt_probe(&note[..20], 0), None);
        assert_eq!(usdt_probe(&note[..30], 0), None);
    }

    /// A file of one program header, then `contents`, then section headers: strings, and `sections` of them that are notes
    /// with all of the contents. Every section's name is the one at the start of `names`.
    fn hostile(contents: &[u8], names: &[u8], sections: u16) -> Vec<u8> {
        const HEAD: usize = 64;
        let section = |kind: u32, offset: usize, bytes: usize| {
            let mut header = Vec::new();
            header.extend(0u32.to_le_bytes());
            header.extend(kind.to_le_bytes());
            for word in [0, 0, offset as u64, bytes as u64, 0, 4, 0] {
                header.extend(u64::to_le_bytes(word));
            }
            header.resize(64, 0);
            header
        };
        let start = HEAD + contents.len() + names.len();
        let start_of_sections = start.next_multiple_of(8);
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        for word in [0, HEAD as u64, start_of_sections as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64, 56, 0, 64, sections + 2, 1] {
            file.extend(u16::to_le_bytes(half));
        }
        file.extend(contents);
        file.extend(names);
        file.resize(start_of_sections, 0);
        file.extend(section(0, 0, 0));
        file.extend(section(3, HEAD + contents.len(), names.len()));
        for _ in 0..sections {
            file.extend(section(7, HEAD, contents.len()));
        }
        file
    }

    fn stapsdt_note(provider: &str) -> Vec<u8> {
        let mut probe = vec![0; 24];
        probe.extend(format!("{provider}\0name\0-4@%eax\0").bytes());
        let mut note = Vec::new();
        for word in [8, probe.len() as u32, STAPSDT] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"stapsdt\0");
        note.extend(&probe);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn notes_that_every_section_repeats_count_once() {
        let contents = stapsdt_note("postgresql").repeat(1000);
        let file = hostile(&contents, b".note.stapsdt\0", 5000);
        let program = ElfProgram::parse(file).expect("a program");
        assert_eq!(program.probes("postgresql", "name").count(), 1000);
        // Names that are looked for, of other programs, and too many of them.
        let contents = stapsdt_note("other").repeat(3);
        let file = hostile(&contents, b".note.stapsdt\0", 1);
        let program = ElfProgram::parse(file).expect("a program");
        assert_eq!(program.probes.len(), 0);
        let contents = stapsdt_note("postgresql").repeat(MOST_PROBES + 10);
        let file = hostile(&contents, b".note.stapsdt\0", 1);
        let program = ElfProgram::parse(file).expect("a program");
        assert_eq!(program.probes.len(), MOST_PROBES);
    }

    #[test]
    fn names_longer_than_the_file_are_refused() {
        for names in [vec![b'x'; 1 << 20], [vec![b'x'; 1 << 20], vec![0]].concat()] {
            let file = hostile(&[], &names, 5000);
            let error = ElfProgram::parse(file).expect_err("too long");
            assert!(error.contains("names"), "{error}");
        }
    }

    #[test]
    fn this_program_has_its_symbols_and_is_no_text() {
        let own = ElfProgram::read("/proc/self/exe").expect("an ELF program");
        let main = own.symbol("main").expect("a symbol");
        assert!(own.offset(main).is_some());
        assert_eq!(own.build_id().len() % 2, 0);
        assert!(ElfProgram::parse(b"\x7fELF".to_vec()).is_err());
        assert!(ElfProgram::parse(Vec::new()).is_err());
    }
}

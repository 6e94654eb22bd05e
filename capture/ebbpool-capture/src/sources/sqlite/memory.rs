//! What a process's memory says of its databases.

use crate::sources::open_files::OpenFile;
use crate::target::Process;

/// Bytes of `struct Pager` in which the pointer to the name of its file is.
const PAGER_BYTES: usize = 512;

/// The longest path that is looked for (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// The file of the pager at that address: among the pager's first members is a pointer to the name of one of the process's open
/// files. Its position differs by version; the names of journal and log come behind it. `None` for databases in memory and
/// temporary ones.
pub(super) fn file_of_pager(process: Process, pager: u64, files: &[OpenFile]) -> Option<&OpenFile> {
    let mut bytes = [0; PAGER_BYTES];
    if !process.read_memory(pager, &mut bytes) {
        return None;
    }
    pointers(&bytes).find_map(|address| {
        let path = text_at(process, address)?;
        files.iter().find(|file| file.path.as_bytes() == path)
    })
}

/// The path of the database of the pager at that address, by a copy of its memory: the first of the pager's members that points
/// to a path in the same piece of memory. `None` for databases in memory and temporary ones.
pub(super) fn path_in_copy(pager: u64, copy: &[u8]) -> Option<String> {
    let members = copy.get(..PAGER_BYTES)?;
    pointers(members).find_map(|address| {
        let at = usize::try_from(address.checked_sub(pager)?).ok()?;
        let text = copy.get(at..)?;
        let end = text.iter().position(|&byte| byte == 0)?;
        let path = std::str::from_utf8(&text[..end]).ok()?;
        path.starts_with('/').then(|| path.to_owned())
    })
}

/// The words that may be addresses of a process.
fn pointers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    /// No program maps its first page, and the upper half of the addresses is the kernel's.
    const ADDRESSES: std::ops::Range<u64> = 4096..1 << 56;
    let words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok());
    words.map(u64::from_le_bytes).filter(|word| ADDRESSES.contains(word))
}

/// The path at an address; `None` if there is no text.
pub(super) fn path_at(process: Process, address: u64) -> Option<String> {
    let text = text_at(process, address).filter(|text| !text.is_empty())?;
    String::from_utf8(text).ok()
}

/// The text at an address, up to its NUL.
fn text_at(process: Process, address: u64) -> Option<Vec<u8>> {
    // The memory may end behind the text's page.
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    while text.len() < LONGEST_PATH {
        let at = address.checked_add(text.len() as u64)?;
        let mut bytes = [0; PAGE as usize];
        let bytes = &mut bytes[..(PAGE - at % PAGE) as usize];
        if !process.read_memory(at, bytes) {
            return None;
        }
        if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            text.extend(&bytes[..end]);
            return Some(text);
        }
        text.extend(&*bytes);
    }
    None
}

/// The page size that a database's first bytes state; `None` if they are no database's.
pub fn page_size(header: &[u8]) -> Option<u64> {
    if !header.starts_with(super::HEADER) {
        return None;
    }
    let size = header.get(16..18)?.try_into().ok()?;
    match u64::from(u16::from_be_bytes(size)) {
        1 => Some(1 << 16),
        size if size.is_power_of_two() && size >= 512 => Some(size),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_read_from_headers() {
        let header = |size: u16| [super::super::HEADER, &size.to_be_bytes()].concat();
        assert_eq!(page_size(&header(4096)), Some(4096));
        assert_eq!(page_size(&header(1)), Some(65536));
        for wrong in [0, 2, 256, 4097] {
            assert_eq!(page_size(&header(wrong)), None);
        }
        assert_eq!(page_size(&header(4096)[..17]), None);
        assert_eq!(page_size(b"SQLite format 2\0\x10\0"), None);
        assert_eq!(page_size(b""), None);
    }

    #[test]
    fn the_path_of_a_pager_is_found_in_a_copy_of_its_memory() {
        const PAGER: u64 = 0x5500_0000_1000;
        let mut copy = vec![0; 2048];
        let mut member = |index: usize, address: u64| {
            copy[8 * index..8 * index + 8].copy_from_slice(&address.to_le_bytes());
        };
        // Elsewhere, to the pager itself, to the path, and to that of the journal.
        for (index, address) in [(0, 0x7f00_0000_0000), (3, PAGER), (26, PAGER + 1000), (27, PAGER + 1012)] {
            member(index, address);
        }
        copy[1000..1032].copy_from_slice(b"/srv/one.db\0/srv/one.db-journal\0");
        assert_eq!(path_in_copy(PAGER, &copy).as_deref(), Some("/srv/one.db"));
        assert_eq!(path_in_copy(PAGER + (1 << 16), &copy), None);
        // Without its end, without text, and without members.
        copy[1000..].fill(b'/');
        assert_eq!(path_in_copy(PAGER, &copy), None);
        copy[1000..].fill(0);
        assert_eq!(path_in_copy(PAGER, &copy), None);
        assert_eq!(path_in_copy(PAGER, &copy[..100]), None);
        assert_eq!(path_in_copy(u64::MAX, &copy), None);
    }

    #[test]
    fn the_file_of_a_pager_is_found_in_memory() {
        let path = c"/data/one.db";
        let mut pager = [0u64; PAGER_BYTES / 8];
        pager[0] = 17;
        pager[1] = u64::MAX;
        pager[2] = 1 << 40;
        pager[26] = path.as_ptr() as u64;
        let file = |path: &str| OpenFile { path: path.into(), ..OpenFile::default() };
        let files = [file("/data/other.db"), file("/data/one.db")];
        let address = pager.as_ptr() as u64;
        let found = file_of_pager(Process::current(), address, &files);
        assert_eq!(found, Some(&files[1]));
        assert_eq!(file_of_pager(Process::current(), address, &files[..1]), None);
        assert_eq!(file_of_pager(Process::current(), 0, &files), None);
    }
}

//! Golden files: pages and double-write areas as the first release writes them, in `tests/golden/`.
//!
//! Every later release has to read them, so a file in that directory never changes once it was released. A deliberate
//! change of a format makes a new version, which gets files of its own, under new names:
//!
//! ```text
//! cargo test -p ebbpool --lib golden -- --ignored
//! ```
//!
//! writes the files that do not exist yet. `docs/formats.md` draws the formats.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::page::HEADER_BYTES;
use crate::storage::MemoryStorage;

const PAGE: usize = 512;
const IDENTITY: u64 = 0x1122_3344_5566_7788;

/// A page as a pool writes it: the payload's bytes count up from a number that follows from page and LSN.
fn sealed(page: u64, lsn: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (page * 31 + lsn..).take(PAGE).map(|it| it as u8).collect();
    PageFormat::Checked.seal(&mut bytes, page, lsn);
    bytes
}

/// A torn page: its first sectors are new, the last ones are old.
fn torn(page: u64, lsn: u64) -> Vec<u8> {
    let mut bytes = sealed(page, lsn);
    bytes[PAGE / 2..].fill(0xEE);
    bytes
}

/// A page that was never written, two that a crash tore, and a whole one.
fn pages() -> Vec<u8> {
    [vec![0; PAGE], torn(1, 13), torn(2, 11), sealed(3, 12)].concat()
}

/// An area with three batches. The write of page 2 in place fails, so that the third batch, which starts over,
/// carries its image on.
fn area_of_version_2() -> Vec<u8> {
    let storage = Arc::new(MemoryStorage::new(PAGE));
    let area = DoubleWriteArea::open(Box::new(Arc::clone(&storage)), 6, IDENTITY);
    let area = area.expect("an empty area");
    let batch = |pages: &[(u64, u64)], written: &[u64]| {
        let sealed: Vec<Vec<u8>> = pages.iter().map(|&(page, lsn)| sealed(page, lsn)).collect();
        let aligned: Vec<AlignedPages> = sealed.iter().map(|bytes| aligned(bytes)).collect();
        let numbers = pages.iter().map(|&(page, _)| page);
        let images: Vec<(u64, &[u8])> = numbers.zip(aligned.iter().flat_map(|it| it.iter())).collect();
        let in_place = area.save_images(&images, || Ok(())).expect("images are safe");
        in_place.finish(written.iter().copied());
    };
    batch(&[(1, 10), (2, 11)], &[1]);
    batch(&[(3, 12)], &[3]);
    batch(&[(1, 13)], &[]);
    content(&*storage)
}

fn area_of_version_1() -> Vec<u8> {
    let batches: [&[(u64, u64)]; 2] = [&[(1, 10), (2, 11)], &[(1, 13)]];
    let mut area = Vec::new();
    for (pages, sequence) in batches.into_iter().zip(1..) {
        let sealed: Vec<Vec<u8>> = pages.iter().map(|&(page, lsn)| sealed(page, lsn)).collect();
        let images = pages.iter().zip(&sealed);
        let record = Record {
            sequence,
            batch: sequence,
            links: None,
            images: images.map(|(&(page, _), bytes)| Image::new(page, bytes)).collect(),
        };
        let mut list = vec![0; PAGE];
        record.encode(&mut list);
        area.extend(list);
        area.extend(sealed.concat());
    }
    area
}

fn all() -> [(&'static str, Vec<u8>); 3] {
    [("pages", pages()), ("double-write-1", area_of_version_1()), ("double-write-2", area_of_version_2())]
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("tests/golden/{name}: {error}"))
}

fn aligned(bytes: &[u8]) -> AlignedPages {
    let mut pages = AlignedPages::new(bytes.len() / PAGE, PAGE);
    for (page, bytes) in pages.iter_mut().zip(bytes.chunks(PAGE)) {
        page.copy_from_slice(bytes);
    }
    pages
}

fn storage(bytes: &[u8]) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new(PAGE));
    for (bytes, page) in aligned(bytes).iter().zip(0..) {
        write_page(&*storage, page, bytes).expect("it is written");
    }
    storage
}

fn content(storage: &dyn Storage) -> Vec<u8> {
    let mut pages = AlignedPages::new(storage.pages().expect("a length") as usize, PAGE);
    read_pages(storage, 0, &mut pages).expect("they are read");
    pages.iter().flatten().copied().collect()
}

fn record(sequence: u64, links: Option<BatchLinks>, images: &[(u64, u64)]) -> DecodedPage {
    let image = |&(page, lsn): &(u64, u64)| Image::new(page, &sealed(page, lsn));
    DecodedPage::Record(Record { sequence, batch: sequence, links, images: images.iter().map(image).collect() })
}

/// The content of a page of the area: a record, or the image of a page as of an LSN.
enum AreaPage {
    Record(DecodedPage),
    Image(u64, u64),
}

fn holds(area: &[u8], expected: &[AreaPage]) {
    assert_eq!(area.len(), expected.len() * PAGE);
    for (bytes, page) in area.chunks(PAGE).zip(expected) {
        match page {
            AreaPage::Record(record) => assert_eq!(Record::decode(bytes), *record),
            AreaPage::Image(number, lsn) => {
                assert_eq!(bytes, sealed(*number, *lsn));
                assert_eq!(Record::decode(bytes), DecodedPage::None);
            }
        }
    }
}

/// Opens the pages with an area, restores them, and compares all pages.
fn restores(area: &str, identity: u64) {
    let data = storage(&golden("pages"));
    let area = DoubleWriteArea::open(Box::new(storage(&golden(area))), 0, identity);
    let area = area.expect("an area of the first release");
    let restored = area.restore(&*data, PageFormat::Checked);
    assert_eq!(restored.expect("it restores"), [1, 2]);
    let expected = [vec![0; PAGE], sealed(1, 13), sealed(2, 11), sealed(3, 12)].concat();
    assert_eq!(content(&*data), expected);
}

#[test]
fn pages_of_the_first_release_are_read() {
    let pages = golden("pages");
    let pages: Vec<&[u8]> = pages.chunks(PAGE).collect();
    let checked: Vec<_> = pages.iter().zip(0..).map(|(it, page)| PageFormat::Checked.check(it, page)).collect();
    let torn = Err(Damage::Checksum);
    assert_eq!(checked, [Ok(0), torn, torn, Ok(12)]);
    let header: [u8; HEADER_BYTES - 8] = *b"\x03\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0EbbP\x01\0\0\0";
    assert_eq!(pages[3][8..HEADER_BYTES], header);
    let payload: Vec<u8> = (3 * 31 + 12..).take(PAGE).map(|it: u64| it as u8).collect();
    assert_eq!(pages[3][HEADER_BYTES..], payload[HEADER_BYTES..]);
}

#[test]
fn an_area_of_version_2_is_read_and_restores() {
    let links = |before, carries_on| Some(BatchLinks { before, carries_on, identity: IDENTITY });
    holds(
        &golden("double-write-2"),
        &[
            AreaPage::Record(record(1, links(None, true), &[(1, 10), (2, 11)])),
            AreaPage::Image(1, 10),
            AreaPage::Image(2, 11),
            AreaPage::Record(record(2, links(Some(1), false), &[(3, 12)])),
            AreaPage::Image(3, 12),
            AreaPage::Record(record(3, links(Some(2), true), &[(2, 11), (1, 13)])),
            AreaPage::Image(2, 11),
            AreaPage::Image(1, 13),
        ],
    );
    restores("double-write-2", IDENTITY);
}

#[test]
fn an_area_of_version_1_is_read_and_restores() {
    holds(
        &golden("double-write-1"),
        &[
            AreaPage::Record(record(1, None, &[(1, 10), (2, 11)])),
            AreaPage::Image(1, 10),
            AreaPage::Image(2, 11),
            AreaPage::Record(record(2, None, &[(1, 13)])),
            AreaPage::Image(1, 13),
        ],
    );
    restores("double-write-1", 0);
}

#[test]
fn golden_files_are_what_is_written_today() {
    for (name, bytes) in all() {
        assert!(
            golden(name) == bytes,
            "tests/golden/{name} is not what is written today: if the format changed on purpose, give it a new \
             version and a file of its own, and keep this one to be read (src/double_write/golden.rs says how)"
        );
    }
}

#[test]
#[ignore = "writes the golden files that do not exist"]
fn write_golden_files() {
    for (name, bytes) in all() {
        if !path(name).exists() {
            fs::write(path(name), bytes).expect("the file is written");
        }
    }
}

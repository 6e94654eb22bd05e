//! Requests of other programs' traces, and the pages that they touch.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hashbrown::HashMap;

use super::Decoding;
use crate::bad_lines::lock;
use crate::classes::ClassNumbers;
use crate::error::TraceError;
use crate::reference::{Batch, OptionalColumns, PageClasses, RequestDetail};
use crate::stream::Stream;

/// Bytes of a sector, the unit of most block traces.
pub(super) const SECTOR: u64 = 512;
/// The longest request, in bytes: without a limit, a damaged size would produce
/// references for hours.
pub(super) const LONGEST_REQUEST: u64 = 1 << 40;
/// Pages of one volume: the page numbers of the next volume follow these.
const VOLUME: u64 = 1 << 48;
/// The most volumes, so that page numbers stay below 2^64.
pub(super) const MOST_VOLUMES: u64 = u64::MAX / VOLUME + 1;

/// What was expected where something is not a request.
pub(super) type Expected = &'static str;

/// What a request does with its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
    /// Nothing needs what they hold.
    Trim,
}

impl From<bool> for Action {
    fn from(write: bool) -> Action {
        if write { Action::Write } else { Action::Read }
    }
}

/// Bytes as pages, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    /// The pages that hold some of the bytes.
    pub(super) pages: RangeInclusive<u64>,
    /// Those that hold nothing else; `None` if there are none, or it is not known.
    pub(super) whole: Option<RangeInclusive<u64>>,
}

impl Extent {
    /// One page, of which nothing else is known.
    pub(super) fn of_page(page: u64) -> Extent {
        Extent { pages: page..=page, whole: None }
    }

    /// `bytes` bytes (at least 1) from `offset` on; `None` if they lie beyond 2^64 pages.
    pub(super) fn of_bytes(offset: u128, bytes: u64, page_size: u64) -> Option<Extent> {
        let size = u128::from(page_size);
        let page = |page: u128| u64::try_from(page).ok();
        let end = offset + u128::from(bytes.max(1));
        let pages = page(offset / size)?..=page((end - 1) / size)?;
        let (first, end) = (page(offset.div_ceil(size)), end / size);
        let whole = first.zip(end.checked_sub(1).and_then(page)).map(|(first, last)| first..=last);
        Some(Extent { pages, whole: whole.filter(|whole| !whole.is_empty()) })
    }

    /// Those of a trim, which may go on to the end of everything, in a volume.
    pub(super) fn within_volume(self) -> Option<Extent> {
        let last = VOLUME - 1;
        let until = |pages: RangeInclusive<u64>| *pages.start()..=(*pages.end()).min(last);
        let within = Extent { pages: until(self.pages), whole: self.whole.map(until).filter(|whole| !whole.is_empty()) };
        Some(within).filter(|within| !within.pages.is_empty())
    }

    /// The pages in a volume; `None` if they lie beyond its own, or there are too many volumes.
    pub(super) fn in_volume(self, volume: u64) -> Option<Extent> {
        let first = volume.checked_mul(VOLUME)?;
        let moved = |pages: RangeInclusive<u64>| first + pages.start()..=first + pages.end();
        (*self.pages.end() < VOLUME).then(|| Extent { pages: moved(self.pages), whole: self.whole.map(moved) })
    }
}

/// Pages that are requested together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignRequest {
    pub(super) extent: Extent,
    pub(super) action: Action,
    /// The class of the pages, 0 if it is unknown.
    pub(super) class: u32,
    /// When the request was made, in µs from any moment on; `None` if the trace does not say it.
    pub(super) time_us: Option<u64>,
    /// How often the request was made, at least once.
    pub(super) repeat: u64,
}

impl ForeignRequest {
    /// One page.
    pub(super) fn of_page(page: u64, write: bool) -> ForeignRequest {
        ForeignRequest::new(Extent::of_page(page), write.into())
    }

    /// Of no known class or time.
    pub(super) fn new(extent: Extent, action: Action) -> ForeignRequest {
        ForeignRequest { extent, action, class: 0, time_us: None, repeat: 1 }
    }

    /// The request, made at this time in µs.
    pub(super) fn at(self, time_us: u64) -> ForeignRequest {
        ForeignRequest { time_us: Some(time_us), ..self }
    }
}

/// The current request, whose pages may not all fit into one batch.
#[derive(Debug, Default)]
pub(super) struct PendingRequest {
    request: Option<ForeignRequest>,
    /// The pages of the request.
    pages: Option<RangeInclusive<u64>>,
    /// The columns that batches have.
    columns: OptionalColumns,
    /// The latest time so far, in µs: times never run backwards.
    now: u64,
    /// Requests without a time, or with an earlier one; `None` if they are not counted.
    unordered: Option<u64>,
}

impl PendingRequest {
    /// Before the first request; batches have these columns.
    pub(super) fn new(columns: OptionalColumns) -> PendingRequest {
        PendingRequest { columns, ..PendingRequest::default() }
    }

    /// Counts the requests without a time, or with an earlier one than those before, if they are merged with others by their times.
    pub(super) fn merged(self, are_merged: bool) -> PendingRequest {
        PendingRequest { unordered: are_merged.then_some(0), ..self }
    }

    /// How many there were.
    pub(super) fn unordered(&self) -> u64 {
        self.unordered.unwrap_or(0)
    }

    /// Begins the next request; `None` requests no page.
    pub(super) fn begin(&mut self, request: Option<ForeignRequest>) {
        let time = request.as_ref().and_then(|request| request.time_us);
        if let (Some(count), Some(_)) = (&mut self.unordered, &request) {
            *count += u64::from(time.is_none_or(|time| time < self.now));
        }
        self.now = self.now.max(time.unwrap_or(0));
        self.pages = request.as_ref().filter(|request| request.repeat > 1).map(|request| request.extent.pages.clone());
        self.request = request;
    }

    /// Appends the pages left in the request, as many as fit; true if there was a request.
    #[inline]
    pub(super) fn continue_into(&mut self, batch: &mut Batch, max: usize) -> bool {
        let Some(request) = &mut self.request else {
            return false;
        };
        let ForeignRequest { extent: Extent { pages, whole }, action, class, repeat, .. } = request;
        let whole = whole.as_ref().filter(|_| self.columns.operations);
        match (*action, whole) {
            (Action::Trim, whole) => {
                if let Some(whole) = whole {
                    let time = if self.columns.requests { self.now } else { 0 };
                    batch.trim(*whole.start(), *whole.end(), time);
                }
                self.request = None;
                return true;
            }
            (Action::Write, Some(whole)) => {
                for page in pages.by_ref().take(max - batch.len()) {
                    match whole.contains(&page) {
                        true => batch.push_whole(page),
                        false => batch.push(page, true),
                    }
                }
            }
            (action, _) => {
                for page in pages.by_ref().take(max - batch.len()) {
                    batch.push(page, action == Action::Write);
                }
            }
        }
        if self.columns.classes {
            batch.classes.resize(batch.len(), *class);
        }
        if self.columns.requests {
            let detail = RequestDetail { time_us: self.now, bypass: 0 };
            batch.requests.resize(batch.len(), detail);
        }
        if !pages.is_empty() {
            return true;
        }
        *repeat -= 1;
        match &self.pages {
            Some(all) if *repeat > 0 => *pages = all.clone(),
            _ => self.request = None,
        }
        true
    }
}

/// Converts bytes on volumes into pages; each volume has its own page numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Volumes {
    pub(super) page_size: u64,
}

impl Volumes {
    /// With the page size that the user named; `what` names the unit of the format for the
    /// message.
    pub(super) fn new(stream: &Stream, decoding: &Decoding, what: &str) -> Result<Volumes, TraceError> {
        match decoding.options.page_size {
            Some(page_size) => Ok(Volumes { page_size: page_size.get() }),
            None => Err(TraceError::NoPageSize { file: stream.label().to_owned(), what: what.to_owned() }),
        }
    }

    /// The request of `bytes` bytes from `unit` x `offset` on; `None` for 0 bytes.
    pub(super) fn request(
        self,
        volume: u64,
        (offset, unit): (u64, u64),
        bytes: u64,
        action: impl Into<Action>,
    ) -> Result<Option<ForeignRequest>, Expected> {
        if bytes == 0 {
            return Ok(None);
        }
        let action = action.into();
        if bytes > LONGEST_REQUEST && action != Action::Trim {
            return Err("a size up to 2^40 bytes");
        }
        if volume >= MOST_VOLUMES {
            return Err("at most 65536 volumes");
        }
        let offset = u128::from(offset) * u128::from(unit);
        let extent = Extent::of_bytes(offset, bytes, self.page_size);
        let extent = match action {
            Action::Trim => match extent.and_then(Extent::within_volume) {
                // No page that a trace can have.
                None => return Ok(None),
                within => within,
            },
            Action::Read | Action::Write => extent,
        };
        extent
            .and_then(|extent| extent.in_volume(volume))
            .map(|extent| Some(ForeignRequest::new(extent, action)))
            .ok_or("an offset below 2^48 pages")
    }
}

/// The class of each volume, in order of the first request.
#[derive(Debug, Default)]
pub(super) struct VolumeClasses(ClassNumbers<u64>);

impl VolumeClasses {
    /// The request with the class of its volume.
    pub(super) fn of(
        &mut self,
        volume: u64,
        request: Option<ForeignRequest>,
        name: impl FnOnce() -> String,
    ) -> Option<ForeignRequest> {
        let mut request = request?;
        request.class = self.0.number(&volume, name).unwrap_or(0);
        Some(request)
    }

    /// The classes that have appeared.
    pub(super) fn classes(&self) -> PageClasses {
        self.0.classes()
    }
}

/// The names of volumes that one reading of a trace has met, in all of its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct VolumeNames {
    numbers: Arc<Mutex<HashMap<Vec<u8>, u64>>>,
    are_used: Arc<AtomicBool>,
    /// True if a part may be read before earlier references of another one.
    are_mixed: bool,
}

impl VolumeNames {
    /// Of a trace whose parts are merged by time, or come one after the other.
    pub(crate) fn new(are_mixed: bool) -> VolumeNames {
        VolumeNames { are_mixed, ..VolumeNames::default() }
    }

    /// A key of these names in their order, and of `key`, which remains if there are none.
    pub(crate) fn key(&self, key: [u8; 32]) -> [u8; 32] {
        let numbers = lock(&self.numbers);
        let mut names: Vec<(&u64, &Vec<u8>)> = numbers.iter().map(|(name, number)| (number, name)).collect();
        if names.is_empty() {
            return key;
        }
        names.sort_unstable();
        let mut hasher = blake3::Hasher::new_keyed(&key);
        for (_, name) in names {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
        }
        *hasher.finalize().as_bytes()
    }

    /// The same names, for one part.
    pub(crate) fn for_part(&self) -> VolumeNames {
        VolumeNames { are_used: Arc::default(), ..self.clone() }
    }

    /// True if a part may be read before earlier references of another one.
    pub(crate) fn are_mixed(&self) -> bool {
        self.are_mixed
    }

    /// True if a part has pages with such numbers.
    pub(crate) fn are_used(&self) -> bool {
        self.are_used.load(Ordering::Relaxed)
    }
}

/// Numbers names in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: VolumeNames,
    last: Vec<u8>,
    last_number: Option<u64>,
}

impl Names {
    /// Goes on where the parts before have ended: the same name means the same volume.
    pub(super) fn of_reading(numbers: &VolumeNames) -> Names {
        numbers.are_used.store(true, Ordering::Relaxed);
        Names { numbers: numbers.clone(), ..Names::default() }
    }

    /// The number of a name that such a request has: a trim of pages that were never referenced numbers nothing, and ends nothing.
    pub(super) fn number_for(&mut self, name: &[u8], action: Action) -> Option<u64> {
        match action {
            Action::Trim if !self.numbers.are_mixed => lock(&self.numbers.numbers).get(name).copied(),
            _ => Some(self.number(name)),
        }
    }

    /// The number of a name, from 0.
    pub(super) fn number(&mut self, name: &[u8]) -> u64 {
        // Most requests are of the same volume as the one before.
        if let Some(number) = self.last_number.filter(|_| self.last == name) {
            return number;
        }
        let mut numbers = lock(&self.numbers.numbers);
        let next = numbers.len() as u64;
        let number = *numbers.entry_ref(name).or_insert(next);
        self.last.clear();
        self.last.extend_from_slice(name);
        self.last_number = Some(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_pages() {
        let volumes = Volumes { page_size: 4096 };
        let pages = |volume, offset, bytes| {
            let request = volumes.request(volume, offset, bytes, false);
            request.map(|request| request.map(|request| request.extent.pages.into_inner()))
        };
        assert_eq!(pages(0, (0, 1), 4096), Ok(Some((0, 0))));
        assert_eq!(pages(0, (4095, 1), 2), Ok(Some((0, 1))));
        assert_eq!(pages(0, (15, 512), 1024), Ok(Some((1, 2))));
        assert_eq!(pages(0, (15, 512), 0), Ok(None));
        assert_eq!(pages(1, (8, 512), 1), Ok(Some((VOLUME + 1, VOLUME + 1))));
        let last = VOLUME * 8 - 1;
        assert_eq!(pages(65535, (last, 512), 512), Ok(Some((u64::MAX, u64::MAX))));
        assert!(pages(65535, (last, 512), 513).is_err());
        assert!(pages(65536, (0, 1), 1).is_err());
        assert!(pages(0, (0, 1), LONGEST_REQUEST).is_ok());
        assert!(pages(0, (0, 1), LONGEST_REQUEST + 1).is_err());
        assert!(pages(0, (u64::MAX, 512), 512).is_err());
        for beyond in [VOLUME, u64::MAX / 4096, u64::MAX] {
            assert_eq!(volumes.request(1, (beyond, 4096), 4096, Action::Trim), Ok(None));
        }
    }

    #[test]
    fn pages_are_whole_if_a_request_has_all_of_their_bytes() {
        let whole = |offset, bytes| {
            Extent::of_bytes(offset, bytes, 4096).and_then(|extent| extent.whole).map(RangeInclusive::into_inner)
        };
        assert_eq!(whole(0, 4096), Some((0, 0)));
        assert_eq!(whole(0, 4095), None);
        assert_eq!(whole(1, 4095), None);
        assert_eq!(whole(1, 8191), Some((1, 1)));
        assert_eq!(whole(4095, 3 * 4096), Some((1, 2)));
        assert_eq!(whole(4096 * (1 << 64) - 4096, 4096), Some((u64::MAX, u64::MAX)));
    }

    #[test]
    fn names_are_numbered_as_they_appear() {
        let mut names = Names::default();
        let numbers = [&b""[..], b"b", b"b", b"a", b"b", b"", b"a"].map(|name| names.number(name));
        assert_eq!(numbers, [0, 1, 1, 2, 1, 0, 2]);
    }
}

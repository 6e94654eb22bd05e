//! From PostgreSQL's events to references.

use std::collections::VecDeque;

use hashbrown::HashMap;
use serde::Serialize;

use super::catalog::is_fork;
use super::programs::{AFTER_LEFT_OUT, IS_HIT, IS_NEW, kind};
use crate::event::PageEvent;
use crate::recorder::CaptureBuffer;

/// A backend's latest requests, among which a page that becomes dirty is looked for: it is pinned then, and a backend pins a
/// few pages at a time.
const RECENT: usize = 64;

/// Scans of a statement whose pages are remembered.
const MOST_SCANS: usize = 4;

/// Rings that a backend may have at the same time; those of aborted transactions are never given back.
const MOST_RINGS: usize = 8;

/// The first number of relations that users make (`FirstNormalObjectId`).
const FIRST_USER_RELATION: u32 = 16384;

/// `P_NEW`: at the entry of `ReadBufferExtended`, the page that is to be added.
const NEW_PAGE: u32 = u32::MAX;

/// Kinds of rings (`BufferAccessStrategyType`), the same as in a trace's column `bypass`.
const BULK_READ: u32 = 1;
const VACUUM: u32 = 3;

/// The ring of a backend that scans, writes or cleans a relation.
#[derive(Clone, Copy, Debug)]
struct BackendRing {
    /// Numbers all rings of a capture.
    number: u32,
    kind: u32,
    /// The relation, known with the first request, and the page of the latest request.
    relation: Option<(u32, u32)>,
    /// A page of the relation that does not follow that one: of another access, or the first one of a parallel scan's next chunk.
    jumped: Option<u32>,
}

/// What a request of the relation is to a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanStep {
    /// Not the scan's, as far as one can say.
    Other,
    /// The scan's.
    Next,
    /// The scan's, and so was the one before.
    SecondOfChunk,
}

impl BackendRing {
    /// A scan goes from page to page and may wrap around. A process of a parallel scan goes on elsewhere when its chunk of pages ends,
    /// which the second page of the next chunk shows. Of chunks of one page, which tables below 32 MiB have, nothing shows it.
    fn step(&mut self, object: u32, latest: u32, page: u32) -> ScanStep {
        let follows = |at: u32| page == at || page == at.wrapping_add(1);
        let of_chunk = self.jumped.take().is_some_and(|jumped| page == jumped.wrapping_add(1));
        if !(follows(latest) || page == 0 || of_chunk) {
            self.jumped = Some(page);
            return ScanStep::Other;
        }
        self.relation = Some((object, page));
        if of_chunk { ScanStep::SecondOfChunk } else { ScanStep::Next }
    }
}

#[derive(Debug, Default)]
struct Backend {
    /// Object and page of the latest request.
    latest: Option<(u32, u32)>,
    /// Pages that a scan has pinned, as far as requests show it: a statement that changes a row requests the page that its
    /// scan has just requested. The scan goes on to pin the page, although the statement requests others meanwhile.
    pinned_by_scans: VecDeque<(u32, u32)>,
    /// Object, page, and position of the reference of the latest requests.
    recent: VecDeque<(u32, u32, usize)>,
    rings: Vec<BackendRing>,
    /// The present request of a scan gives up a dirty page of its ring.
    gives_up: bool,
}

impl Backend {
    /// True if the backend has the page pinned already. The page is its latest from now on.
    fn has_pinned(&mut self, object: u32, page: u32) -> bool {
        let requested = (object, page);
        let repeats = self.latest.replace(requested) == Some(requested);
        let by_scan = self.pinned_by_scans.contains(&requested);
        if repeats && !by_scan {
            if self.pinned_by_scans.len() == MOST_SCANS {
                self.pinned_by_scans.pop_front();
            }
            self.pinned_by_scans.push_back(requested);
        }
        repeats || by_scan
    }

    fn remember(&mut self, object: u32, page: u32, position: Option<usize>) {
        let Some(position) = position else { return };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((object, page, position));
    }

    /// The position of the reference with which the backend requested the page.
    fn request_of(&self, object: u32, page: u32) -> Option<usize> {
        let mut latest = self.recent.iter().rev();
        let found = latest.find(|request| (request.0, request.1) == (object, page));
        found.map(|request| request.2)
    }

    /// The ring through which a request goes, as a trace's column `bypass` has it; 0 if it goes through none. No event
    /// says so: a scan goes on in its relation, and a vacuum reads a table and its indexes. With it the page of an earlier request of
    /// the relation, and the ring through which that went, as is known only now.
    fn ring_of(&mut self, event: &PageEvent, object: u32) -> (u32, Option<(u32, u32)>) {
        let [_, database, relation, fork] = event.object;
        if fork != 0 {
            return (0, None);
        }
        let mut begins = None;
        for ring in self.rings.iter_mut().rev() {
            let fits = match (ring.kind, ring.relation) {
                (VACUUM, _) => database != 0 && relation >= FIRST_USER_RELATION,
                (_, None) => true,
                (BULK_READ, Some((scanned, latest))) if scanned == object => {
                    let step = ring.step(object, latest, event.page);
                    begins =
                        (step == ScanStep::SecondOfChunk).then(|| (event.page.wrapping_sub(1), ring.number << 2 | BULK_READ));
                    step != ScanStep::Other
                }
                (BULK_READ, Some(_)) => false,
                (_, Some((written, _))) => written == object,
            };
            if fits {
                ring.relation = Some((object, event.page));
                let gives_up = std::mem::take(&mut self.gives_up);
                let bypass = match ring.kind {
                    BULK_READ if gives_up => ring.number << 2,
                    kind => ring.number << 2 | kind,
                };
                return (bypass, begins);
            }
        }
        (0, None)
    }

    fn take_ring(&mut self, number: u32, kind: u32) {
        if self.rings.len() == MOST_RINGS {
            self.rings.remove(0);
        }
        self.rings.push(BackendRing { number, kind, relation: None, jumped: None });
    }

    fn give_ring_back(&mut self, kind: u32) {
        if let Some(at) = self.rings.iter().rposition(|ring| ring.kind == kind) {
            self.rings.remove(at);
        }
    }
}

/// What events were, besides references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PostgresCounts {
    /// Requests for pages that exist; the server counts the same.
    pub requests: u64,
    /// Those of which the server said that the page was in the buffer (up to PostgreSQL 15).
    pub hits: u64,
    /// Requests of a page that the backend has pinned already: PostgreSQL does not count these as a use of the page, so that
    /// they are no references.
    pub repeats: u64,
    /// Requests through a ring.
    pub ring_requests: u64,
    /// Dirty pages that rings gave up because their log was not written yet.
    pub given_up: u64,
    /// Pages that were added to relations.
    pub extensions: u64,
    /// Pages that became dirty without a request in the capture: a reference each.
    pub unrequested: u64,
    /// Pages that were written from the buffer, by backends, the background writer and checkpoints.
    pub flushes: u64,
}

/// Decodes events in the order in which they happened.
#[derive(Debug, Default)]
pub struct PostgresDecoder {
    backends: HashMap<u32, Backend>,
    rings: u32,
    /// True if a request's event comes before the server looks for a frame.
    requests_come_first: bool,
    /// What the events were so far.
    pub counts: PostgresCounts,
}

impl PostgresDecoder {
    /// A decoder for a server of this major version.
    pub fn new(major: u32) -> PostgresDecoder {
        PostgresDecoder { requests_come_first: major >= 16, ..PostgresDecoder::default() }
    }

    /// Takes an event and records the references that it stands for.
    pub fn record(&mut self, event: &PageEvent, recorder: &mut CaptureBuffer) {
        match event.kind {
            kind::READ | kind::EXTEND | kind::DIRTY if !is_fork(event.object[3]) => {}
            kind::READ => self.request(event, recorder),
            kind::EXTEND => self.extend(event, recorder),
            kind::DIRTY => self.dirty(event, recorder),
            // The type 0 is no ring.
            kind::RING if matches!(event.detail, 1..=3) => {
                // The number has 30 bits in a trace.
                self.rings = self.rings.wrapping_add(1) & (u32::MAX >> 2);
                let number = self.rings.max(1);
                let backend = self.backends.entry(event.process).or_default();
                backend.take_ring(number, event.detail);
            }
            kind::UNLOGGED_VICTIM if (event.page, event.detail) == (BULK_READ, 1) => {
                let backend = self.backends.entry(event.process).or_default();
                self.counts.given_up += 1;
                // From PostgreSQL 16 on the request is seen before the server looks for a frame.
                let seen = if self.requests_come_first { backend.recent.back() } else { None };
                match seen {
                    Some(&(_, _, position)) => recorder.give_up(position),
                    None => backend.gives_up = true,
                }
            }
            kind::FLUSH => self.counts.flushes += 1,
            kind::STATEMENT_END => {
                let backend = self.backends.entry(event.process).or_default();
                backend.pinned_by_scans.clear();
                backend.latest = None;
            }
            kind::RING_END => {
                let backend = self.backends.entry(event.process).or_default();
                backend.give_ring_back(event.detail);
            }
            _ => {}
        }
    }

    fn request(&mut self, event: &PageEvent, recorder: &mut CaptureBuffer) {
        if event.page == NEW_PAGE {
            // The page is known when it becomes dirty.
            return;
        }
        let object = recorder.object(event.object);
        let backend = self.backends.entry(event.process).or_default();
        let is_new = event.detail & IS_NEW != 0;
        self.counts.requests += 1;
        self.counts.extensions += u64::from(is_new);
        self.counts.hits += u64::from(event.detail & IS_HIT != 0);
        if event.detail & AFTER_LEFT_OUT != 0 {
            // Its latest page is another one, which is not in the sample.
            backend.latest = None;
        }
        if backend.has_pinned(object, event.page) && !is_new {
            self.counts.repeats += 1;
            return;
        }
        let (bypass, earlier) = backend.ring_of(event, object);
        self.counts.ring_requests += u64::from(bypass != 0);
        if let Some((page, ring)) = earlier
            && let Some(position) = backend.request_of(object, page)
        {
            self.counts.ring_requests += u64::from(recorder.bypassed(position, ring));
        }
        let position = recorder.reference(object, event.page.into(), false, bypass);
        backend.remember(object, event.page, position);
    }

    fn extend(&mut self, event: &PageEvent, recorder: &mut CaptureBuffer) {
        /// PostgreSQL adds at most 64 pages at once (`MAX_BUFFERS_TO_EXTEND_BY`); more is no event of it.
        const MOST: u32 = 64;
        let object = recorder.object(event.object);
        let backend = self.backends.entry(event.process).or_default();
        for page in (event.page..=u32::MAX).take(event.detail.min(MOST) as usize) {
            let at = PageEvent { page, ..*event };
            let (bypass, _) = backend.ring_of(&at, object);
            let Some(position) = recorder.reference(object, page.into(), false, bypass) else {
                break;
            };
            self.counts.extensions += 1;
            backend.remember(object, page, Some(position));
            backend.latest = Some((object, page));
        }
    }

    fn dirty(&mut self, event: &PageEvent, recorder: &mut CaptureBuffer) {
        let object = recorder.object(event.object);
        let backend = self.backends.entry(event.process).or_default();
        if let Some(position) = backend.request_of(object, event.page) {
            recorder.mark_written(position);
            return;
        }
        self.counts.unrequested += 1;
        let position = recorder.reference(object, event.page.into(), true, 0);
        backend.remember(object, event.page, position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u32 = 20000;
    const INDEX: u32 = 20001;

    fn event(kind: u32, relation: u32, page: u32, detail: u32) -> PageEvent {
        PageEvent { kind, process: 7, object: [1663, 5, relation, 0], page, detail }
    }

    /// Relation, page, write and ring of each reference.
    fn decoded(events: &[PageEvent]) -> (Vec<(u32, u64, bool, u32)>, PostgresCounts) {
        let (mut decoder, mut recorder) = (PostgresDecoder::default(), CaptureBuffer::default());
        for event in events {
            decoder.record(event, &mut recorder);
        }
        let references = recorder.references.iter().map(|reference| {
            let object = &recorder.objects[reference.object as usize];
            let page = reference.page();
            (object.key[2], page, reference.is_write(), reference.bypass)
        });
        (references.collect(), decoder.counts)
    }

    #[test]
    fn an_update_requests_its_page_three_times_and_uses_it_once() {
        let read = |relation, page| event(kind::READ, relation, page, IS_HIT);
        let update = [
            read(INDEX, 3),
            read(TABLE, 8),
            read(TABLE, 8),
            event(kind::DIRTY, TABLE, 8, 0),
            read(TABLE, 9),
            event(kind::DIRTY, TABLE, 9, 0),
            read(INDEX, 3),
            event(kind::DIRTY, INDEX, 3, 0),
            // The check that the key is unique looks at the old row, whose page the scan has pinned still.
            read(TABLE, 8),
            event(kind::STATEMENT_END, 0, 0, 0),
            // Another statement uses the page again.
            read(TABLE, 8),
        ];
        let (references, counts) = decoded(&update);
        let expected =
            [(INDEX, 3, false, 0), (TABLE, 8, true, 0), (TABLE, 9, true, 0), (INDEX, 3, true, 0), (TABLE, 8, false, 0)];
        assert_eq!(references, expected);
        assert_eq!((counts.requests, counts.repeats, counts.hits), (7, 2, 7));
    }

    #[test]
    fn a_page_is_no_repeat_if_one_between_was_left_out_of_the_sample() {
        let root = |detail| event(kind::READ, INDEX, 3, detail);
        let (references, counts) =
            decoded(&[root(IS_HIT), root(IS_HIT | AFTER_LEFT_OUT), root(IS_HIT | AFTER_LEFT_OUT), root(IS_HIT)]);
        assert_eq!((references.len(), counts.repeats), (3, 1));
    }

    #[test]
    fn a_scan_goes_through_its_ring_and_an_index_does_not() {
        let read = |relation, page| event(kind::READ, relation, page, 0);
        let (references, counts) = decoded(&[
            event(kind::RING, 0, 0, BULK_READ),
            read(TABLE, 5),
            read(TABLE, 6),
            read(INDEX, 7),
            read(TABLE, 30),
            read(TABLE, 7),
            // The scan began at page 5 and goes on at page 0.
            read(TABLE, 0),
            read(TABLE, 1),
            event(kind::RING_END, 0, 0, BULK_READ),
            read(TABLE, 2),
        ]);
        let rings: Vec<u32> = references.iter().map(|reference| reference.3).collect();
        let ring = 1 << 2 | BULK_READ;
        assert_eq!(rings, [ring, ring, 0, 0, ring, ring, ring, 0]);
        assert_eq!(counts.ring_requests, 5);
    }

    /// A worker scans chunks of 4 pages, between which others have scanned theirs, and wraps around; a look-up in between is no part.
    #[test]
    fn a_parallel_scan_goes_through_the_rings_of_its_processes() {
        let read = |page| event(kind::READ, TABLE, page, 0);
        let chunk = |first: u32| (first..first + 4).map(read);
        let scan = [event(kind::RING, 0, 0, BULK_READ)].into_iter().chain(chunk(16)).chain(chunk(28)).chain([read(7)]);
        let events: Vec<PageEvent> = scan.chain(chunk(52)).chain(chunk(4)).collect();
        let (references, counts) = decoded(&events);
        let ring = 1 << 2 | BULK_READ;
        let others: Vec<u64> = references.iter().filter(|reference| reference.3 != ring).map(|reference| reference.1).collect();
        assert_eq!((references.len(), others, counts.ring_requests), (17, vec![7], 16));
    }

    #[test]
    fn a_ring_gives_up_a_page_whose_log_is_not_written() {
        let read = |page| event(kind::READ, TABLE, page, 0);
        let given_up = event(kind::UNLOGGED_VICTIM, 0, BULK_READ, 1);
        let scan = event(kind::RING, 0, 0, BULK_READ);
        // Up to PostgreSQL 15 a request is seen when it has its frame, later when it is made.
        for (major, events) in
            [(15, [scan, read(1), given_up, read(2), read(3)]), (17, [scan, read(1), read(2), given_up, read(3)])]
        {
            let (mut decoder, mut recorder) = (PostgresDecoder::new(major), CaptureBuffer::default());
            for event in events {
                decoder.record(&event, &mut recorder);
            }
            let rings: Vec<u32> = recorder.references.iter().map(|it| it.bypass).collect();
            assert_eq!(rings, [4 | BULK_READ, 4, 4 | BULK_READ], "{major}");
            assert_eq!(decoder.counts.given_up, 1);
        }
    }

    #[test]
    fn pages_that_are_added_are_references_of_their_own() {
        let (references, counts) = decoded(&[
            event(kind::EXTEND, TABLE, 10, 3),
            event(kind::DIRTY, TABLE, 11, 0),
            // Dirty without a request in the capture.
            event(kind::DIRTY, TABLE, 99, 0),
            event(kind::READ, TABLE, NEW_PAGE, 0),
        ]);
        let expected = [(TABLE, 10, false, 0), (TABLE, 11, true, 0), (TABLE, 12, false, 0), (TABLE, 99, true, 0)];
        assert_eq!(references, expected);
        assert_eq!((counts.extensions, counts.unrequested), (3, 1));
    }

    #[test]
    fn an_event_that_no_server_makes_is_not_believed() {
        let forks = [3, 4, u32::MAX].map(|fork| PageEvent { object: [1663, 5, TABLE, fork], ..event(kind::READ, TABLE, 1, 0) });
        let (references, counts) = decoded(&forks);
        assert_eq!((references.len(), counts.requests), (1, 1));
        let (references, counts) = decoded(&[event(kind::EXTEND, TABLE, 10, 1 << 16)]);
        assert_eq!((references.len(), counts.extensions), (64, 64));
        // Nor is what comes behind the last reference counted.
        let (mut decoder, mut recorder) = (PostgresDecoder::default(), CaptureBuffer::with_limit(10));
        decoder.record(&event(kind::EXTEND, TABLE, 10, 64), &mut recorder);
        assert_eq!((recorder.len(), decoder.counts.extensions), (10, 10));
    }

    #[test]
    fn vacuum_reads_tables_and_indexes_of_users_through_its_ring() {
        let (references, _) = decoded(&[
            event(kind::RING, 0, 0, VACUUM),
            event(kind::READ, TABLE, 4, 0),
            event(kind::READ, INDEX, 900, 0),
            event(kind::READ, 1259, 1, 0),
        ]);
        let rings: Vec<u32> = references.iter().map(|reference| reference.3 & 3).collect();
        assert_eq!(rings, [VACUUM, VACUUM, 0]);
    }
}

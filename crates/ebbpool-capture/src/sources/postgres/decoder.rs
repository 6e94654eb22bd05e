//! From PostgreSQL's events to references.

use std::collections::VecDeque;

use hashbrown::HashMap;
use serde::Serialize;

use super::programs::{IS_HIT, IS_NEW, kind};
use crate::event::PageEvent;
use crate::recorder::Recorder;

/// A backend's latest requests, among which a page that becomes dirty is looked for: it is pinned then, and a backend pins a
/// few pages at a time.
const RECENT: usize = 64;

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
}

#[derive(Debug, Default)]
struct Backend {
    /// Object, page, and position of the reference of the latest requests.
    recent: VecDeque<(u32, u32, usize)>,
    rings: Vec<BackendRing>,
}

impl Backend {
    fn remember(&mut self, object: u32, page: u32, position: usize) {
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
    /// says so: a scan goes from page to page and may wrap around, and a vacuum reads a table and its indexes.
    fn ring_of(&mut self, event: &PageEvent, object: u32) -> u32 {
        let [_, database, relation, fork] = event.object;
        if fork != 0 {
            return 0;
        }
        for ring in self.rings.iter_mut().rev() {
            let fits = match (ring.kind, ring.relation) {
                (VACUUM, _) => database != 0 && relation >= FIRST_USER_RELATION,
                (_, None) => true,
                (BULK_READ, Some((scanned, latest))) => {
                    let follows = event.page == latest || event.page == latest.wrapping_add(1);
                    scanned == object && (follows || event.page == 0)
                }
                (_, Some((written, _))) => written == object,
            };
            if fits {
                ring.relation = Some((object, event.page));
                return ring.number << 2 | ring.kind;
            }
        }
        0
    }

    fn take_ring(&mut self, number: u32, kind: u32) {
        if self.rings.len() == MOST_RINGS {
            self.rings.remove(0);
        }
        self.rings.push(BackendRing {
            number,
            kind,
            relation: None,
        });
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
    /// Requests that repeat the backend's latest page, which it has pinned still: PostgreSQL does not count these as a use
    /// of the page, so that they are no references.
    pub repeats: u64,
    /// Requests through a ring.
    pub ring_requests: u64,
    /// Pages that were added to relations.
    pub extensions: u64,
    /// Pages that became dirty without a request in the capture: a reference each.
    pub unrequested: u64,
}

/// Decodes events in the order in which they happened.
#[derive(Debug, Default)]
pub struct PostgresDecoder {
    backends: HashMap<u32, Backend>,
    rings: u32,
    /// What the events were so far.
    pub counts: PostgresCounts,
}

impl PostgresDecoder {
    /// Takes an event and records the references that it stands for.
    pub fn take(&mut self, event: &PageEvent, recorder: &mut Recorder) {
        match event.kind {
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
            kind::RING_END => {
                let backend = self.backends.entry(event.process).or_default();
                backend.give_ring_back(event.detail);
            }
            _ => {}
        }
    }

    fn request(&mut self, event: &PageEvent, recorder: &mut Recorder) {
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
        let latest = backend.recent.back();
        let repeats = latest.is_some_and(|it| (it.0, it.1) == (object, event.page));
        if repeats && !is_new {
            self.counts.repeats += 1;
            return;
        }
        let bypass = backend.ring_of(event, object);
        self.counts.ring_requests += u64::from(bypass != 0);
        let position = recorder.reference(object, event.page.into(), false, bypass);
        backend.remember(object, event.page, position);
    }

    fn extend(&mut self, event: &PageEvent, recorder: &mut Recorder) {
        /// PostgreSQL adds at most 64 pages at once (`MAX_BUFFERS_TO_EXTEND_BY`); more is no event of it.
        const MOST: u32 = 1 << 16;
        let object = recorder.object(event.object);
        let backend = self.backends.entry(event.process).or_default();
        for page in (event.page..=u32::MAX).take(event.detail.min(MOST) as usize) {
            self.counts.extensions += 1;
            let at = PageEvent { page, ..*event };
            let bypass = backend.ring_of(&at, object);
            let position = recorder.reference(object, page.into(), false, bypass);
            backend.remember(object, page, position);
        }
    }

    fn dirty(&mut self, event: &PageEvent, recorder: &mut Recorder) {
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

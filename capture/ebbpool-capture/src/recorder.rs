//! The references of a capture in memory, until the sizes of all objects are known and pages can be numbered.

use hashbrown::HashMap;

/// What identifies an object: four words whose meaning depends on the source.
pub type ObjectKey = [u32; 4];

/// A file, a relation, or another sequence of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedObject {
    /// What identifies it.
    pub key: ObjectKey,
    /// Pages: the last one referenced, or more if the source knows its size.
    pub pages: u64,
    /// References to it.
    pub references: u64,
    /// References that write to it.
    pub writes: u64,
}

/// A reference: 24 bytes, of which a capture may hold tens of millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CapturedReference {
    /// Page of the object << 1 | write.
    page_and_write: u64,
    /// The object's position among the objects.
    pub(crate) object: u32,
    /// Milliseconds from the start of the capture.
    pub(crate) time_ms: u32,
    /// The ring of the request, as in a trace's column `bypass`.
    pub(crate) bypass: u32,
}

impl CapturedReference {
    pub(crate) fn page(self) -> u64 {
        self.page_and_write >> 1
    }

    pub(crate) fn is_write(self) -> bool {
        self.page_and_write & 1 == 1
    }
}

/// The most objects of a capture. A trace names no more classes, and a server that lies could name a new one in each request.
const MOST_OBJECTS: usize = 1 << 20;

/// Records references, up to a limit.
#[derive(Debug)]
pub struct CaptureBuffer {
    /// References that stand for the pages that the target's cache had when the capture began.
    pub(crate) resident: Vec<CapturedReference>,
    pub(crate) references: Vec<CapturedReference>,
    pub(crate) objects: Vec<CapturedObject>,
    positions: HashMap<ObjectKey, u32>,
    /// Milliseconds from the start to the events that are being recorded.
    pub(crate) now_ms: u32,
    /// The most references; what comes behind them is left out.
    limit: usize,
    /// True once there was an object for which there is no room.
    has_too_many_objects: bool,
}

impl Default for CaptureBuffer {
    fn default() -> Self {
        CaptureBuffer::with_limit(usize::MAX)
    }
}

impl CaptureBuffer {
    /// Records that many references at most, besides those for pages that the target's cache has.
    pub(crate) fn with_limit(limit: usize) -> CaptureBuffer {
        CaptureBuffer {
            resident: Vec::new(),
            references: Vec::new(),
            objects: Vec::new(),
            positions: HashMap::new(),
            now_ms: 0,
            limit,
            has_too_many_objects: false,
        }
    }

    /// True if no reference more is recorded.
    pub(crate) fn is_full(&self) -> bool {
        self.references.len() >= self.limit || self.has_too_many_objects
    }

    /// True if no reference more is recorded because there are too many objects.
    pub(crate) fn has_too_many_objects(&self) -> bool {
        self.has_too_many_objects
    }

    /// The position of an object, which is added if it is new. Where there are too many, nothing is recorded any more, and the
    /// position is that of another one.
    pub(crate) fn object(&mut self, key: ObjectKey) -> u32 {
        let objects = &mut self.objects;
        if objects.len() >= MOST_OBJECTS && !self.positions.contains_key(&key) {
            self.has_too_many_objects = true;
            return 0;
        }
        *self.positions.entry(key).or_insert_with(|| {
            objects.push(CapturedObject { key, pages: 0, references: 0, writes: 0 });
            objects.len() as u32 - 1
        })
    }

    /// Records a reference and returns its position; `None` if there are as many as may be.
    pub(crate) fn reference(&mut self, object: u32, page: u64, write: bool, bypass: u32) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        let used = &mut self.objects[object as usize];
        used.pages = used.pages.max(page.saturating_add(1));
        used.references += 1;
        used.writes += u64::from(write);
        self.references.push(CapturedReference {
            page_and_write: page << 1 | u64::from(write),
            object,
            time_ms: self.now_ms,
            bypass,
        });
        Some(self.references.len() - 1)
    }

    /// Records that the target's cache has a page already. The references of a trace begin with these pages, for an analysis
    /// that begins with a full cache.
    pub(crate) fn resident(&mut self, object: u32, page: u64, dirty: bool) {
        if self.has_too_many_objects {
            return;
        }
        let used = &mut self.objects[object as usize];
        used.pages = used.pages.max(page.saturating_add(1));
        self.resident.push(CapturedReference { page_and_write: page << 1 | u64::from(dirty), object, time_ms: 0, bypass: 0 });
    }

    /// References with which the trace begins, and that are no requests: they stand for the pages that the target's cache
    /// had when the capture began.
    pub fn resident_references(&self) -> usize {
        self.resident.len()
    }

    /// Makes a reference a write.
    pub(crate) fn mark_written(&mut self, position: usize) {
        let reference = &mut self.references[position];
        if !reference.is_write() {
            reference.page_and_write |= 1;
            self.objects[reference.object as usize].writes += 1;
        }
    }

    /// The objects, in the order in which they appeared.
    pub fn objects(&self) -> &[CapturedObject] {
        &self.objects
    }

    /// This reference went through a ring; false if that was known.
    pub(crate) fn bypassed(&mut self, position: usize, ring: u32) -> bool {
        let bypass = &mut self.references[position].bypass;
        let is_new = *bypass == 0;
        if is_new {
            *bypass = ring;
        }
        is_new
    }

    /// At this reference, one of a scan, the scan's ring gives up a dirty page.
    pub(crate) fn give_up(&mut self, position: usize) {
        const BULK_READ: u32 = 1;
        let bypass = &mut self.references[position].bypass;
        if *bypass & 3 == BULK_READ {
            *bypass &= !3;
        }
    }

    /// References so far.
    pub fn len(&self) -> usize {
        self.references.len()
    }

    /// True before the first reference.
    pub fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// References that write.
    pub fn writes(&self) -> u64 {
        self.objects.iter().map(|object| object.writes).sum()
    }

    /// Gives objects other keys; those that get the same key become one.
    pub(crate) fn rename(&mut self, key: impl Fn(&ObjectKey) -> ObjectKey) {
        let mut renamed = CaptureBuffer::default();
        let places = self.objects.iter().map(|object| {
            let place = renamed.object(key(&object.key));
            let known = &mut renamed.objects[place as usize];
            known.pages = known.pages.max(object.pages);
            known.references += object.references;
            known.writes += object.writes;
            place
        });
        let places: Vec<u32> = places.collect();
        for reference in self.resident.iter_mut().chain(&mut self.references) {
            reference.object = places[reference.object as usize];
        }
        self.objects = renamed.objects;
        self.positions = renamed.positions;
    }

    /// Removes the references that `keep` refuses, as if they had not been recorded.
    pub(crate) fn retain(&mut self, keep: impl Fn(&ObjectKey, u64) -> bool) {
        let objects = &mut self.objects;
        self.resident.retain(|it| keep(&objects[it.object as usize].key, it.page()));
        self.references.retain(|reference| {
            let object = &mut objects[reference.object as usize];
            let kept = keep(&object.key, reference.page());
            if !kept {
                object.references -= 1;
                object.writes -= u64::from(reference.is_write());
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_recorder_records_no_more() {
        let mut recorder = CaptureBuffer::with_limit(2);
        let object = recorder.object([0; 4]);
        for page in 0..1000 {
            let expected = (page < 2).then_some(page as usize);
            assert_eq!(recorder.reference(object, page, true, 0), expected);
        }
        assert!(recorder.is_full());
        assert_eq!(recorder.len(), 2);
        assert_eq!((recorder.writes(), recorder.objects[0].pages), (2, 2));
    }

    #[test]
    fn a_capture_of_too_many_objects_ends() {
        let mut recorder = CaptureBuffer::default();
        for number in 0..MOST_OBJECTS as u32 + 10 {
            assert_eq!(recorder.is_full(), number > MOST_OBJECTS as u32);
            let object = recorder.object([number, 0, 0, 0]);
            recorder.reference(object, 1, false, 0);
            recorder.resident(object, 1, false);
        }
        assert!(recorder.has_too_many_objects());
        assert_eq!((recorder.objects.len(), recorder.len()), (MOST_OBJECTS, MOST_OBJECTS));
        assert_eq!(recorder.resident_references(), MOST_OBJECTS);
    }

    #[test]
    fn objects_with_the_same_key_become_one() {
        let mut recorder = CaptureBuffer::default();
        for (key, page) in [(7, 1), (8, 5), (9, 2), (7, 3)] {
            let object = recorder.object([key, 0, 0, 0]);
            recorder.reference(object, page, page == 5, 0);
        }
        recorder.rename(|key| [key[0].min(8), 0, 0, 0]);
        let objects = recorder.objects();
        assert_eq!(objects.len(), 2);
        assert_eq!((objects[1].key[0], objects[1].references, objects[1].writes), (8, 2, 1));
        assert_eq!(objects[1].pages, 6);
        let of = recorder.references.iter().map(|reference| reference.object);
        assert_eq!(of.collect::<Vec<u32>>(), [0, 1, 1, 0]);
        let again = recorder.object([8, 0, 0, 0]);
        assert_eq!(again, 1);
    }

    #[test]
    fn objects_count_their_references() {
        let mut recorder = CaptureBuffer::default();
        let (one, other) = (recorder.object([1, 2, 3, 0]), recorder.object([1, 2, 4, 0]));
        assert_eq!((recorder.object([1, 2, 3, 0]), other), (one, 1));
        recorder.now_ms = 20;
        recorder.reference(one, 7, false, 0);
        let at = recorder.reference(other, 0, false, 6).expect("recorded");
        recorder.mark_written(at);
        recorder.mark_written(at);
        assert_eq!((recorder.len(), recorder.writes()), (2, 1));
        assert_eq!(recorder.objects[0].pages, 8);
        assert_eq!((recorder.references[1].page(), recorder.references[1].time_ms), (0, 20));
        recorder.retain(|key, _| key[2] == 3);
        assert_eq!((recorder.len(), recorder.writes()), (1, 0));
    }
}

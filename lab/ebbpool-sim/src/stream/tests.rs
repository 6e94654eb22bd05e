//! A policy of the tests sees the classes of the pages that it misses.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ebbpool_policy::{Access, Capabilities, Frame, Ghost, Page};
use ebbpool_trace::{Format, Metadata, PageClasses, Writer};

use super::*;

/// The pages missed, with the class reported before each miss.
type Misses = Arc<Mutex<Vec<(Page, Option<PageClass>)>>>;

/// FIFO that notes each miss with the class that was reported before it.
struct NotesClasses {
    asks: bool,
    class: Option<PageClass>,
    queue: std::collections::VecDeque<Frame>,
    misses: Misses,
}

impl Policy for NotesClasses {
    const CAPABILITIES: Capabilities = Capabilities::CLASSES;

    fn hit(&mut self, _frame: Frame, _access: Access) {
        assert_eq!(self.class, None, "hits have no class");
    }

    fn miss(&mut self, page: Page, _ghost: Option<Ghost>, _access: Access) {
        let miss = (page, self.class.take());
        self.misses.lock().expect("no panic").push(miss);
    }

    fn victim<F: Fn(Frame) -> bool>(&mut self, _incoming: Option<(Page, Access)>, may_evict: F) -> Option<Frame> {
        self.queue.iter().copied().find(|&frame| may_evict(frame))
    }

    fn admit(&mut self, frame: Frame, _page: Page, _access: Access) {
        self.queue.push_back(frame);
    }

    fn evicted(&mut self, frame: Frame) {
        self.queue.retain(|&other| other != frame);
    }

    fn cleaned(&mut self, _frame: Frame) {}

    fn capabilities(&self) -> Capabilities {
        let mut found = Self::CAPABILITIES;
        found.set(Capabilities::CLASSES, self.asks);
        found
    }

    fn class(&mut self, class: PageClass) {
        assert_eq!(self.class.replace(class), None, "one call for each miss");
    }
}

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

/// The misses of two frames over the trace, with the classes reported.
fn misses(source: &Source, asks: bool) -> Vec<(Page, Option<PageClass>)> {
    let progress = PassControl { report: &|_| {}, stop: &NEVER_STOP };
    let cell = SimCell { policy: "fifo".parse().expect("a policy"), frames: 2, asymmetry: 1.0 };
    let misses = Misses::default();
    let policy = NotesClasses { asks, class: None, queue: std::collections::VecDeque::new(), misses: Arc::clone(&misses) };
    let engines = |mut setups: Vec<RunParameters>| {
        let setup = setups.remove(0);
        Ok(vec![Box::new(Engine::new(policy, NoObserver, setup)) as Box<dyn RunningEngine>])
    };
    let options = SimOptions::default();
    pass(source, &[cell], &options, &progress, engines).expect("a run");
    misses.lock().expect("no panic").clone()
}

fn trace(classes: &[u32]) -> (tempfile::TempDir, Source) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.parquet");
    let pages = [7, 8, 7, 9, 1 << 40, 7, 7, 8];
    let mut batch: Batch = pages.into_iter().map(|page| (page, false)).collect();
    batch.classes = classes.to_vec();
    let known = PageClasses::default();
    let known = (!classes.is_empty()).then_some(&known);
    let metadata = Metadata::default();
    let writer = Writer::create_with_classes(&path, Format::Native, &metadata, known, None);
    let mut writer = writer.expect("a file");
    writer.write(&batch).expect("room");
    writer.finish().expect("room");
    let source = Source::parse(path.to_str().expect("a plain path"), None).expect("a trace");
    (directory, source)
}

#[test]
fn a_policy_that_asks_receives_the_class_of_each_page_it_misses() {
    // The class of a page is that of its first reference.
    let (_directory, source) = trace(&[3, 0, 9, 5, u32::MAX, 9, 9, 9]);
    let with = |classes: [Option<PageClass>; 6]| -> Vec<_> { [7, 8, 9, 1 << 40, 7, 8].into_iter().zip(classes).collect() };
    let reported = [Some(3), Some(0), Some(5), Some(u32::MAX), Some(3), Some(0)];
    assert_eq!(misses(&source, true), with(reported));
    assert_eq!(misses(&source, false), with([None; 6]));
    let (_directory, source) = trace(&[]);
    assert_eq!(misses(&source, true), with([None; 6]));
}

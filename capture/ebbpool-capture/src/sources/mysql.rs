//! MySQL 8.0 and later, and MariaDB with debug symbols: every request of a page to InnoDB's buffer pool.
//!
//! The probes are at the entries of `buf_page_get_gen`, `buf_page_optimistic_get` and `buf_page_get_known_nowait`; together they count as
//! `Innodb_buffer_pool_read_requests` does. A request that latches its page exclusively is a write, but for page 1 of each group of
//! pages, the change buffer's bitmap, which is latched so whenever a page is read. That is more than the pages that the server changes:
//! it includes those that an operation latches and leaves as they were.

mod programs;
mod server;
mod tablespaces;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::arch::Arch;
use crate::error::CaptureError;
use crate::event::PageEvent;
use crate::hold::CaptureLock;
use crate::probes::{Channel, ProbedFile, Probes, Site};
use crate::recorder::CaptureBuffer;
use crate::session::{CaptureSource, EventStream};
use crate::target::Process;
use crate::trace_file::{CapturedTrace, NamedObject};
use crate::written::{KernelFiles, WriteCounters};

use tablespaces::Tablespaces;

pub use server::{MysqlServer, servers};
pub use tablespaces::space_number;

/// How often the open files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What was captured, besides references: requests by the latch that they take on the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MysqlCounts {
    /// All requests.
    pub requests: u64,
    /// With a shared latch.
    pub shared: u64,
    /// With an exclusive latch.
    pub exclusive: u64,
    /// With a latch that lets others read.
    pub shared_exclusive: u64,
    /// Without a latch.
    pub unlatched: u64,
}

/// Decodes InnoDB's events.
#[derive(Debug)]
pub struct MysqlDecoder {
    page_size: u64,
    /// What the events were so far.
    pub counts: MysqlCounts,
}

impl MysqlDecoder {
    /// A decoder for a server with pages of that many bytes, at least 1.
    pub fn new(page_size: u64) -> MysqlDecoder {
        MysqlDecoder { page_size: page_size.max(1), counts: MysqlCounts::default() }
    }

    /// Takes an event and records the reference that it stands for.
    pub fn record(&mut self, event: &PageEvent, recorder: &mut CaptureBuffer) {
        /// `RW_S_LATCH`, `RW_X_LATCH`, `RW_SX_LATCH` of sync0rw.h.
        const SHARED: u32 = 1;
        const EXCLUSIVE: u32 = 2;
        const SHARED_EXCLUSIVE: u32 = 4;
        /// `FSP_IBUF_BITMAP_OFFSET`: its page in each group of as many pages as a page has bytes.
        const BITMAP: u64 = 1;
        if event.kind != programs::REQUEST {
            return;
        }
        let (counts, page, latch) = (&mut self.counts, event.page, event.detail & 0xff);
        counts.requests += 1;
        match latch {
            SHARED => counts.shared += 1,
            EXCLUSIVE => counts.exclusive += 1,
            SHARED_EXCLUSIVE => counts.shared_exclusive += 1,
            _ => counts.unlatched += 1,
        }
        let is_bitmap = u64::from(page) % self.page_size == BITMAP;
        let object = recorder.object([0, 0, event.object[2], 0]);
        recorder.reference(object, page.into(), latch == EXCLUSIVE && !is_bitmap, 0);
    }
}

/// A server under capture.
pub struct MysqlSource {
    /// The server.
    pub server: MysqlServer,
    decoder: MysqlDecoder,
    tablespaces: Tablespaces,
    looked: Option<Instant>,
    lock: CaptureLock,
}

impl MysqlSource {
    /// The server with this number, or the only one; `symbols` is a file with the debug symbols of its program.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if there is no server or several, if another capture runs, if the build hides what is needed, or if the
    /// symbols are of another build.
    pub fn open(pid: Option<i32>, symbols: Option<&Path>) -> Result<MysqlSource, CaptureError> {
        let process = server::choose(pid)?;
        let lock = process.lock()?;
        process.check_first_thread()?;
        let server = MysqlServer::open(process, symbols)?;
        Ok(MysqlSource {
            decoder: MysqlDecoder::new(server.page_size),
            server,
            tablespaces: Tablespaces::default(),
            looked: None,
            lock,
        })
    }

    /// What was captured, besides references.
    pub fn counts(&self) -> MysqlCounts {
        self.decoder.counts
    }

    /// The server's process.
    pub fn process(&self) -> Process {
        self.server.process
    }

    /// What the capture will do, in a sentence.
    pub fn description(&self) -> String {
        let server = &self.server;
        let frames = match server.frames {
            Some(frames) => format!(", innodb_buffer_pool_size {frames} pages"),
            None => String::new(),
        };
        format!(
            "{}, process {}, data directory {}, pages of {} bytes{frames}",
            server.program_name, server.process.0, server.data, server.page_size
        )
    }

    /// The captured trace, with the names of the tables; without `names`, tablespaces are called by their numbers.
    pub fn trace(&mut self, recorder: CaptureBuffer, names: bool) -> CapturedTrace {
        let (process, page_size) = (self.server.process, self.server.page_size);
        self.tablespaces.refresh(process, &self.server.data);
        self.tablespaces.look_at_tables(process, &self.server.data);
        let objects = recorder.objects.iter().map(|object| {
            let space = object.key[2];
            let found = self.tablespaces.find(space);
            let named = found.filter(|_| names);
            NamedObject {
                name: named.map_or_else(|| format!("space {space}"), |it| it.name.clone()),
                group: named.map_or_else(String::new, |it| it.schema.clone()),
                kind: Some("tablespace".into()),
                part: String::new(),
                pages: found.map_or(0, |it| it.bytes / page_size).max(object.pages),
            }
        });
        CapturedTrace {
            name: format!("innodb {}", self.server.process.0),
            page_size,
            below_cache: false,
            objects: objects.collect(),
            recorder,
        }
    }
}

impl CaptureSource for MysqlSource {
    fn attach(&mut self, ring_bytes: u32) -> Result<Box<dyn EventStream>, CaptureError> {
        let channel = Channel::new(ring_bytes)?;
        let server = &self.server;
        let sites = server.sites.iter().map(|site| {
            let address = server.program.entry(site.address);
            let memory = address.wrapping_add(server.displacement);
            Site {
                name: site.symbol.clone(),
                address,
                code: programs::request(Arch::THIS, channel.maps_at(&server.program, address), memory, site.function),
            }
        });
        let sites: Vec<Site> = sites.collect();
        let target = ProbedFile {
            file: &server.file,
            name: &server.program_name,
            program: &server.program,
            is_the_same: &|| self.lock.is_the_same() && !self.is_another_program(),
        };
        Probes::attach(channel, &target, &sites, Some(server.process.0))
    }

    fn record_event(&mut self, event: &[u8], recorder: &mut CaptureBuffer) {
        if let Some(event) = PageEvent::parse(event) {
            self.decoder.record(&event, recorder);
        }
    }

    fn refresh(&mut self) {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            self.tablespaces.refresh(self.server.process, &self.server.data);
        }
    }

    fn is_alive(&self) -> bool {
        self.lock.is_alive()
    }

    fn is_another_program(&self) -> bool {
        let process = self.server.process;
        process.has_lost_first_thread() || !self.server.file.is_behind(&process.path("exe"))
    }

    fn debugged(&self) -> Option<Process> {
        Some(self.server.process).filter(|process| process.is_debugged())
    }

    fn processes(&self) -> Vec<Process> {
        vec![self.server.process]
    }

    fn processor_time(&self) -> Option<Duration> {
        self.server.process.processor_time()
    }

    fn write_counters(&self) -> WriteCounters {
        let process = self.server.process;
        let kernel = KernelFiles::default();
        WriteCounters {
            processes: kernel.bytes_of(&process.descendants()),
            log_position: None,
            device: kernel.device_below(Path::new(&process.path("cwd"))),
        }
    }

    fn sample_position(&self, object: &[u32; 4], page: u64) -> Option<u64> {
        let event = PageEvent { object: *object, page: page as u32, ..PageEvent::default() };
        Some(event.sample_position())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_latches_write_but_for_bitmaps() {
        let (mut decoder, mut recorder) = (MysqlDecoder::new(16384), CaptureBuffer::default());
        let event = |page, latch| PageEvent {
            kind: programs::REQUEST,
            object: [0, 0, 7, 0],
            page,
            detail: latch,
            ..PageEvent::default()
        };
        for event in [event(3, 1), event(4, 2), event(1, 2), event(16385, 2), event(5, 4), event(6, 8), PageEvent::default()] {
            decoder.record(&event, &mut recorder);
        }
        let expected = MysqlCounts { requests: 6, shared: 1, exclusive: 3, shared_exclusive: 1, unlatched: 1 };
        assert_eq!(decoder.counts, expected);
        assert_eq!((recorder.len(), recorder.writes()), (6, 1));
        assert_eq!(recorder.objects[0].key, [0, 0, 7, 0]);
    }
}

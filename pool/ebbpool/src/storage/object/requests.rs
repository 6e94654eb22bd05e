//! The requests to an object store.

use std::io;
use std::ops::AddAssign;
use std::sync::Arc;

use futures_util::stream::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, Result};

/// The name of a group's object, in the order of groups.
pub(super) fn name(group: u64) -> String {
    format!("{group:016x}")
}

/// The last group that has an object.
pub(super) async fn last_group(store: Arc<dyn ObjectStore>, prefix: Path) -> Result<Option<u64>> {
    let number = |path: &Path| {
        let name = path.filename()?;
        let number = u64::from_str_radix(name, 16).ok()?;
        (self::name(number) == name).then_some(number)
    };
    let listed = store.list(Some(&prefix));
    let later = |last: Option<u64>, path: Path| async move { Ok(last.max(number(&path))) };
    listed.map_ok(|object| object.location).try_fold(None, later).await
}

/// The stored layout; if there is none, stores `expected` and returns it.
pub(super) async fn layout(store: Arc<dyn ObjectStore>, path: Path, expected: String) -> Result<String> {
    let create = PutOptions::from(PutMode::Create);
    let put = store.put_opts(&path, PutPayload::from(expected.clone().into_bytes()), create);
    match put.await {
        Ok(_) => Ok(expected),
        Err(Error::AlreadyExists { .. }) => {
            let found = store.get(&path).await?.bytes().await?;
            Ok(String::from_utf8_lossy(&found).into_owned())
        }
        Err(error) => Err(error),
    }
}

/// The number of requests that the store charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Billed {
    pub(super) gets: u64,
    pub(super) puts: u64,
}

impl AddAssign for Billed {
    fn add_assign(&mut self, other: Self) {
        self.gets += other.gets;
        self.puts += other.puts;
    }
}

/// A page of a group.
pub(super) struct PageUpdate {
    /// Its index in the group.
    pub(super) page: usize,
    pub(super) bytes: Vec<u8>,
}

/// Some pages of a group. If the object does not exist, they are zeros.
pub(super) struct FoundPages {
    first: usize,
    bytes: Option<bytes::Bytes>,
}

impl FoundPages {
    /// A page by its index in the group.
    pub(super) fn page(&self, page: usize, page_size: usize) -> Option<&[u8]> {
        let from = page.checked_sub(self.first)? * page_size;
        self.bytes.as_ref()?.get(from..from + page_size)
    }
}

/// A group's object.
pub(super) struct Group {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    pub(super) number: u64,
    pub(super) page_size: usize,
    pub(super) pages: usize,
    /// The object may exist. If it does not, it is not requested.
    pub(super) exists: bool,
}

/// The number of the group, the requests that it took, and the result.
type GroupResult<T> = (u64, Billed, io::Result<T>);

impl Group {
    /// Reads the pages from the first to the last, with one GET.
    pub(super) async fn read(self, first: usize, last: usize) -> GroupResult<FoundPages> {
        let mut billed = Billed::default();
        let found = self.get(first, last, &mut billed).await;
        let found = found.map(|bytes| FoundPages { first, bytes });
        (self.number, billed, found)
    }

    /// Changes pages, and puts the whole object.
    pub(super) async fn write(self, updates: Vec<PageUpdate>) -> GroupResult<()> {
        let mut billed = Billed::default();
        let outcome = self.change(updates, &mut billed).await;
        (self.number, billed, outcome)
    }

    async fn change(&self, updates: Vec<PageUpdate>, billed: &mut Billed) -> io::Result<()> {
        let mut object = vec![0; self.pages * self.page_size];
        let mut whole = vec![false; self.pages];
        for update in &updates {
            if let Some(written) = whole.get_mut(update.page) {
                *written = true;
            }
        }
        if whole.contains(&false)
            && let Some(before) = self.get(0, self.pages - 1, billed).await?
        {
            object.copy_from_slice(&before);
        }
        for update in &updates {
            let at = update.page * self.page_size;
            match object.get_mut(at..at + self.page_size) {
                Some(page) if page.len() == update.bytes.len() => {
                    page.copy_from_slice(&update.bytes);
                }
                _ => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("a buffer of {} bytes is no page of {}", update.bytes.len(), self.page_size),
                    ));
                }
            }
        }
        billed.puts += 1;
        self.store.put(&self.path, PutPayload::from(object)).await?;
        Ok(())
    }

    /// The bytes of some pages; `None` if there is no object.
    async fn get(&self, first: usize, last: usize, billed: &mut Billed) -> io::Result<Option<bytes::Bytes>> {
        if !self.exists {
            return Ok(None);
        }
        billed.gets += 1;
        let range = (first * self.page_size) as u64..((last + 1) * self.page_size) as u64;
        let length = range.end - range.start;
        match self.store.get_range(&self.path, range).await {
            Ok(found) if found.len() as u64 == length => Ok(Some(found)),
            Ok(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} is shorter than {} pages of {} bytes: something else wrote it",
                    self.path, self.pages, self.page_size
                ),
            )),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

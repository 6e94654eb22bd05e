//! The regular files that a process has open, by `/proc/PID/fd`.

use std::os::unix::fs::MetadataExt;

use hashbrown::HashMap;

use crate::foreign;
use crate::target::Process;

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenFile {
    /// Its path, as the kernel has it for this process.
    pub(super) path: String,
    /// A path by which this process can read it.
    pub(super) link: String,
    /// The device of the file system, as the kernel numbers devices.
    pub(super) device: u32,
    /// The number in the file system.
    pub(super) inode: u64,
    /// Its size.
    pub(super) bytes: u64,
}

/// A device's number in the kernel: 12 bits of the major, 20 of the minor number.
pub(super) fn kernel_device(device: u64) -> u32 {
    libc::major(device) << 20 | libc::minor(device)
}

/// The regular files that a process has open. Empty if the process has ended.
pub(super) fn open_files(process: Process) -> Vec<OpenFile> {
    let directory = process.path("fd");
    let files = foreign::kernel_names(&directory).into_iter().filter_map(|name| {
        let link = format!("{directory}/{name}");
        let metadata = foreign::regular_behind(&link)?;
        Some(OpenFile {
            path: foreign::link_text(&link).ok()?,
            device: kernel_device(metadata.dev()),
            inode: metadata.ino(),
            bytes: metadata.len(),
            link,
        })
    });
    files.collect()
}

/// The most files whose names are remembered; a process can open new ones for as long as it is captured.
const MOST_FILES: usize = 1 << 18;

/// Files by what programs say of them: device and number.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    files: HashMap<(u32, u64), OpenFile>,
}

impl FileNames {
    /// Adds files, of which the newest sizes and paths count.
    pub(super) fn add(&mut self, files: Vec<OpenFile>) {
        for file in files {
            let key = (file.device, file.inode);
            if self.files.len() < MOST_FILES || self.files.contains_key(&key) {
                self.files.insert(key, file);
            }
        }
    }

    /// The file with this number. Where several file systems share a device (as in Btrfs and overlays), programs see another
    /// device than `stat` does, and the number alone must do; it does if it is the only such file.
    pub(super) fn find(&self, device: u32, inode: u64) -> Option<&OpenFile> {
        self.files.get(&(device, inode)).or_else(|| {
            let mut same = self.files.values().filter(|file| file.inode == inode);
            match (same.next(), same.next()) {
                (Some(file), None) => Some(file),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_found_by_device_and_number_or_number_alone() {
        let file = |path: &str, device, inode| OpenFile { path: path.into(), link: String::new(), device, inode, bytes: 1 };
        let mut names = FileNames::default();
        names.add(vec![file("a", 1, 7), file("b", 2, 7), file("c", 1, 8)]);
        let path = |device, inode| names.find(device, inode).map(|file| file.path.as_str());
        assert_eq!((path(1, 7), path(2, 7)), (Some("a"), Some("b")));
        assert_eq!((path(9, 8), path(9, 7), path(1, 9)), (Some("c"), None, None));
    }

    #[test]
    fn open_files_of_this_process_are_listed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), [0; 100]).expect("written");
        let found = open_files(Process::current());
        let path = fs::canonicalize(file.path()).expect("a path");
        let found = found.iter().find(|it| it.path == path.to_string_lossy()).expect("the file");
        assert_eq!(found.bytes, 100);
        assert_eq!(fs::read(&found.link).expect("bytes").len(), 100);
    }
}

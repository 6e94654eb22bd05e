//! The regular files that a process has open, by `/proc/PID/fd`.

use std::time::Instant;

use hashbrown::HashMap;

use crate::foreign;
use crate::kernel::FileHandle;
use crate::target::Process;

/// A file that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// What shows its generation, where its file system has that.
    pub(super) handle: Option<FileHandle>,
    /// True if programs in the kernel may see another device.
    pub(super) has_two_devices: bool,
}

/// A device's number in the kernel: 12 bits of the major, 20 of the minor number.
pub(super) fn kernel_device(device: u64) -> u32 {
    libc::major(device) << 20 | libc::minor(device)
}

/// The regular files that a process has open. Empty if the process has ended.
pub(super) fn open_files(process: Process) -> Vec<OpenFile> {
    let names = foreign::kernel_names(&process.path("fd"));
    files_of(&process.path("fd"), &names).collect()
}

/// Some of them, from that position of its descriptors on and until that time; and where the next ones are, if some are left.
pub(super) fn open_files_from(process: Process, first: usize, until: Instant) -> (Vec<OpenFile>, Option<usize>) {
    /// Files between two looks at the clock.
    const TOGETHER: usize = 64;
    let directory = process.path("fd");
    let names = foreign::kernel_names(&directory);
    let (mut files, mut at) = (Vec::new(), first.min(names.len()));
    while at < names.len() {
        let end = names.len().min(at + TOGETHER);
        files.extend(files_of(&directory, &names[at..end]));
        at = end;
        if Instant::now() >= until {
            break;
        }
    }
    (files, Some(at).filter(|at| *at < names.len()))
}

fn files_of(directory: &str, names: &[String]) -> impl Iterator<Item = OpenFile> {
    names.iter().filter_map(move |name| {
        let link = format!("{directory}/{name}");
        let found = foreign::regular_behind(&link)?;
        Some(OpenFile {
            path: foreign::link_text(&link).ok()?,
            device: kernel_device(found.device),
            inode: found.inode,
            bytes: found.bytes,
            handle: found.handle,
            has_two_devices: found.has_two_devices,
            link,
        })
    })
}

/// The most files whose names are remembered; a process can open new ones for as long as it is captured.
const MOST_FILES: usize = 1 << 18;

/// Files by their numbers.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    files: HashMap<u64, Vec<OpenFile>>,
    count: usize,
}

/// A file as programs in the kernel see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeenFile {
    pub(super) device: u32,
    pub(super) inode: u64,
    pub(super) generation: u32,
    /// True if no other file with this device and number was seen.
    pub(super) is_only: bool,
}

impl FileNames {
    /// Adds files, of which the newest sizes and paths count.
    pub(super) fn add(&mut self, files: Vec<OpenFile>) {
        for file in files {
            let same = self.files.entry(file.inode).or_default();
            let known = same.iter_mut().find(|it| it.device == file.device && it.handle == file.handle);
            match known {
                Some(known) => *known = file,
                None if self.count < MOST_FILES => {
                    self.count += 1;
                    same.push(file);
                }
                None => {}
            }
        }
    }

    /// The file, if it can be no other one. The number of a deleted file is given to the next one at once (ext4), which another
    /// generation shows; where the file system says no generation, a number is a name only for the one file that had it. Where it
    /// states another device than the kernel's own, the number alone must do.
    pub(super) fn find(&self, seen: SeenFile) -> Option<&OpenFile> {
        let is_it = |file: &&OpenFile| match &file.handle {
            Some(handle) => handle.has_generation(seen.generation),
            None => seen.is_only,
        };
        let same = self.files.get(&seen.inode)?;
        let only = |on_device: &dyn Fn(&OpenFile) -> bool| {
            let mut found = same.iter().filter(|file| on_device(file)).filter(is_it);
            found.next().filter(|_| found.next().is_none())
        };
        let is_on = |file: &OpenFile| file.device == seen.device;
        match same.iter().any(is_on) {
            true => only(&is_on),
            false => only(&|file| file.has_two_devices),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_found_where_they_can_be_no_other_one() {
        let file = |path: &str, device, inode| OpenFile {
            path: path.into(),
            device,
            inode,
            has_two_devices: path.starts_with("overlay"),
            ..OpenFile::default()
        };
        let mut names = FileNames::default();
        names.add(vec![file("a", 1, 7), file("b", 2, 7), file("c", 1, 8), file("overlay", 3, 9), file("overlay 2", 4, 10)]);
        names.add(vec![file("renamed", 1, 8), file("overlay 3", 5, 10)]);
        let path = |device, inode, is_only| {
            names.find(SeenFile { device, inode, generation: 5, is_only }).map(|file| file.path.as_str())
        };
        assert_eq!((path(1, 7, true), path(2, 7, true), path(1, 8, true)), (Some("a"), Some("b"), Some("renamed")));
        // Two files of one number cannot be distinguished without generations, and one of another file system is another one.
        assert_eq!((path(1, 7, false), path(9, 8, true), path(1, 9, true)), (None, None, Some("overlay")));
        assert_eq!((path(3, 9, true), path(1, 10, true)), (Some("overlay"), None));
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

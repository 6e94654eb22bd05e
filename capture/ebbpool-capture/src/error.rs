//! Why a capture is refused or fails.

use std::io;

use ebbpool_trace::TraceError;

/// Why a capture is refused or fails. The target runs on as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The caller may not attach probes.
    #[error(
        "cannot {attempt}: {source}; capturing needs root (run it with sudo), or four capabilities (docs/capture.md), since the kernel lets no other user probe programs"
    )]
    Privilege {
        /// What was refused.
        attempt: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel lacks something.
    #[error(
        "this kernel cannot {attempt}: {detail}; capturing needs Linux 5.8 or later with CONFIG_BPF_SYSCALL, CONFIG_UPROBE_EVENTS and, for processes and devices, CONFIG_DEBUG_INFO_BTF"
    )]
    Kernel {
        /// What is missing.
        attempt: String,
        /// What the kernel says.
        detail: String,
    },
    /// There is no such process or server.
    #[error("{0}")]
    NotFound(String),
    /// What the caller asks for makes no sense.
    #[error("{0}")]
    Request(String),
    /// Several servers run, and the caller has to choose.
    #[error("{kind} runs {count} times; choose one with its process number: {list}")]
    Several {
        /// The kind of server.
        kind: &'static str,
        /// The number of servers.
        count: usize,
        /// The servers.
        list: String,
    },
    /// The program is built so that its requests cannot be seen.
    #[error("{program}: {problem}; {remedy}")]
    Build {
        /// The program's file.
        program: String,
        /// What is missing.
        problem: String,
        /// What the user can do.
        remedy: String,
    },
    /// A file of the program, of the kernel or of the data directory is not what it should be.
    #[error("{file}: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The target has ended, or has become another program, since it was looked at.
    #[error(
        "{0}: the process ended, or its program changed, before the probes were attached; nothing is attached: start the capture again"
    )]
    Changed(String),
    /// A debugger is attached to a process that would get breakpoints.
    #[error(
        "a debugger is attached to process {0}: where it sets a breakpoint, it would take the capture's for the program's code, and write it there for good when it leaves; let it leave first"
    )]
    Debugged(i32),
    /// Another capture of the same target runs.
    #[error("process {0} is being captured by another program; wait for its end")]
    Busy(i32),
    /// Nothing happened.
    #[error("{0}")]
    Nothing(String),
    /// The capture was written elsewhere.
    #[error("{problem}; the capture is in {file} instead")]
    Elsewhere {
        /// Why it is not where it should be.
        problem: String,
        /// The trace.
        file: String,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file beside the trace cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The file.
        file: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl CaptureError {
    pub(crate) fn read(file: impl Into<String>) -> impl FnOnce(io::Error) -> CaptureError {
        let file = file.into();
        move |source| CaptureError::Read { file, source }
    }

    pub(crate) fn malformed(file: impl Into<String>, problem: impl Into<String>) -> CaptureError {
        CaptureError::Malformed { file: file.into(), problem: problem.into() }
    }

    /// The refusal of a system call of the kernel's probes.
    pub(crate) fn of_kernel(attempt: &str, error: io::Error) -> CaptureError {
        let attempt = attempt.to_owned();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => CaptureError::Privilege { attempt, source: error },
            _ => CaptureError::Kernel { attempt, detail: error.to_string() },
        }
    }

    /// True if the request is wrong, and not the system.
    pub fn is_request(&self) -> bool {
        matches!(self, CaptureError::Several { .. } | CaptureError::Request(_))
    }
}

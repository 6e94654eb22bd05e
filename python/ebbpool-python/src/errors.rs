//! Errors of the lab as exceptions, with texts that name arguments of Python in place of options of the command.

use ebbpool_lab::{ErrorKind, LabError, RequestError};
use ebbpool_sim::SimError;
use ebbpool_trace::TraceError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// The classes of exceptions, which `python/ebbpool/_errors.py` declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// All other failures.
    Failure,
    /// An argument is wrong.
    Usage,
    /// The references are not those of a trace.
    Trace,
    /// A file cannot be read.
    File,
    /// A policy of the caller failed.
    Policy,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Class::Failure => "EbbpoolError",
            Class::Usage => "UsageError",
            Class::Trace => "TraceError",
            Class::File => "TraceFileError",
            Class::Policy => "PolicyError",
        }
    }
}

/// An exception of a class with this text.
pub(crate) fn raise(py: Python<'_>, class: Class, text: &str) -> PyErr {
    let text = with_arguments(text);
    let class = py.import("ebbpool._errors").and_then(|errors| errors.getattr(class.name()));
    match class.and_then(|class| class.call1((&text,))) {
        Ok(exception) => PyErr::from_value(exception),
        // The Python half is missing, as when the extension is imported alone.
        Err(_) => PyRuntimeError::new_err(text),
    }
}

/// A [`Class::Usage`] error about one argument.
pub(crate) fn wrong(py: Python<'_>, argument: &str, error: impl std::fmt::Display) -> PyErr {
    raise(py, Class::Usage, &format!("{argument}=: {error}"))
}

/// The exception for an error of the lab.
pub(crate) fn lab_error(py: Python<'_>, error: LabError) -> PyErr {
    let text = format!("{error}{}", ebbpool_cli::remedy(&error));
    let class = match error.kind() {
        ErrorKind::Request => Class::Usage,
        _ => Class::Failure,
    };
    match error {
        LabError::Trace(error) | LabError::Sim(SimError::Trace(error)) => trace_error(py, error),
        LabError::Sim(SimError::Guest { source, .. }) => match source.downcast::<PyErr>() {
            Ok(exception) => *exception,
            Err(_) => raise(py, Class::Policy, &text),
        },
        LabError::Request(RequestError::Policy(error)) => wrong(py, "policies", error),
        LabError::Request(
            error @ (RequestError::TwoPolicies(_) | RequestError::PolicyName(_) | RequestError::RegisteredName(_)),
        ) => {
            let text = format!("{error}; a class has it from its name, or from its attribute name");
            wrong(py, "policies", text)
        }
        LabError::Sim(SimError::Interrupted) => PyKeyboardInterrupt::new_err("interrupted"),
        LabError::Sim(SimError::Empty { .. }) => raise(py, Class::Trace, &text),
        _ => raise(py, class, &text),
    }
}

/// The exception for an error of a trace.
pub(crate) fn trace_error(py: Python<'_>, error: TraceError) -> PyErr {
    let class = match &error {
        TraceError::Io { .. } | TraceError::NotFound { .. } | TraceError::Directory { .. } => Class::File,
        error if error.is_usage() => Class::Usage,
        _ => Class::Trace,
    };
    let text = error.to_string();
    if let TraceError::Io { file, error, .. } = error
        && let Some(Ok(exception)) = error.into_inner().map(|inner| inner.downcast::<PyErr>())
    {
        // The caller's own code has raised it. The note is a help only.
        let reading = format!("while the trace {file} was read");
        let _ = exception.value(py).call_method1("add_note", (reading,));
        return *exception;
    }
    raise(py, class, &text)
}

/// Options of the command whose arguments have other names in Python.
const RENAMED: [(&str, &str); 3] = [("trace-format", "format="), ("no-cache", "cache=False"), ("memory-budget", "budget=")];

/// Replaces options of the command in a text by arguments: `--page-size 8k` by `page_size='8k'`, `--page-size` by
/// `page_size=`.
fn with_arguments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        let name_length =
            option[2..].find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(option.len() - 2);
        let name = &option[2..2 + name_length];
        let begins = before.is_empty() || before.ends_with([' ', '(', '`']);
        out.push_str(before);
        if name.is_empty() || !begins {
            out.push_str("--");
            rest = &option[2..];
            continue;
        }
        let renamed = RENAMED.iter().find(|(option, _)| *option == name);
        match renamed {
            Some((_, argument)) => out.push_str(argument),
            None => {
                out.push_str(&name.replace('-', "_"));
                out.push('=');
            }
        }
        rest = &option[2 + name_length..];
        if let Some((value, length)) = rest.strip_prefix(' ').and_then(of_shell) {
            out.push_str(&format!("'{}'", value.replace('\\', r"\\").replace('\'', "\\'")));
            rest = &rest[1 + length..];
            continue;
        }
        let value = rest.strip_prefix(' ').map(|rest| value_of(rest, name == "columns")).unwrap_or_default();
        if !value.is_empty() {
            match value.parse::<f64>() {
                Ok(_) => out.push_str(value),
                Err(_) => out.push_str(&format!("'{value}'")),
            }
            rest = &rest[1 + value.len()..];
        }
    }
    out.push_str(rest);
    out
}

/// The text in quotation marks of a shell at the beginning, and the bytes that it takes there.
fn of_shell(text: &str) -> Option<(String, usize)> {
    const APOSTROPHE: &str = r"'\''";
    let (mut value, mut at) = (String::new(), 1);
    text.strip_prefix('\'')?;
    loop {
        let end = at + text[at..].find('\'')?;
        value.push_str(&text[at..end]);
        if !text[end..].starts_with(APOSTROPHE) {
            return Some((value, end + 1));
        }
        value.push('\'');
        at = end + APOSTROPHE.len();
    }
}

/// The value at the beginning of the text after an option: a word with a digit or a colon in it, or all columns.
fn value_of(text: &str, are_columns: bool) -> &str {
    if are_columns {
        let end = text.find([' ', ';', ')']).unwrap_or(text.len());
        let value = text[..end].trim_end_matches([',', '.', ':']);
        return if value.contains('=') { value } else { "" };
    }
    let end = text.find([' ', ',', ';', ')']).unwrap_or(text.len());
    let word = text[..end].trim_end_matches('.');
    let is_value = word.starts_with(|first: char| first.is_ascii_digit()) || word.contains(':');
    if is_value { word } else { "" }
}

"""Exceptions. Their texts name the argument that is wrong, or the file."""

from __future__ import annotations


class EbbpoolError(Exception):
    """Ebbpool cannot answer."""


class UsageError(EbbpoolError, ValueError):
    """An argument is wrong; the text names it."""


class TraceError(EbbpoolError, ValueError):
    """The references are not those of a trace; the text names the row or the column."""


class TraceFileError(EbbpoolError, OSError):
    """A file of a trace cannot be read or written."""


class PolicyError(EbbpoolError, RuntimeError):
    """A policy of the caller returned what it must not return; the text names the reference."""


class Interrupted(EbbpoolError):
    """Workers were lost, or refused. Finished results are stored; the same call continues from there."""

    def __init__(self, text: str, done: int = 0, all: int = 0) -> None:
        super().__init__(text)
        #: Finished tasks.
        self.done = done
        #: All tasks.
        self.all = all

    def __reduce__(self) -> tuple[object, ...]:
        return (Interrupted, (self.args[0], self.done, self.all))

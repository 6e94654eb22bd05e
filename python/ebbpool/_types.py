"""The types of arguments."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, Protocol, TypeAlias, Union, runtime_checkable


@runtime_checkable
class SupportsArrowStream(Protocol):
    """A table or stream of Polars, pyarrow, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class Policy(Protocol):
    """A policy by frame, as in Rust. Only `victim` is required.

    The driver makes one policy for each run, from its number of frames, and owns the pages: a frame is a number from 0
    to `frames - 1`. For each reference it calls either `hit`, or `miss`, then, if no frame is free, `victim` and
    `evicted`, and last `admit`. Other methods that it calls where the policy has them:

    * `page_class(number)`: the class of the page that the next call of `miss` is about, 0 if it is unknown; where the trace has
      classes
    * `evicted_with(frame) -> list[int]`: frames that are evicted together with the victim
    * `cleaned_with(frame) -> list[int]`: dirty frames that are written together with the victim, and stay
    * `cleaned(frame)`: the page in the frame was written, and stays
    * `costs(read, write)`: the costs of a page read and a page write; a policy with this method runs once per asymmetry. Where there
      are several, the driver first makes a policy with 1 frame to see whether it has the method
    """

    def victim(self) -> int:
        """The frame to evict, which must hold a page."""


Array: TypeAlias = Any
"""An array with the buffer protocol, such as that of NumPy."""

TraceLike: TypeAlias = Union[
    str,
    "PathLike[str]",
    "Any",
    SupportsArrowStream,
    tuple[Array, Array],
    tuple[Array, Array, Array],
    Callable[[], SupportsArrowStream],
]
"""A path, a URL, a generator such as `zipf:pages=1000,refs=50000`, a `Trace`, a table, arrays (pages, writes) or (pages,
writes, classes), or a function that returns a new stream each time."""

PolicyLike: TypeAlias = Union[str, Callable[[int], Any], "Any"]
"""The name of a policy, such as `cfdc:cluster=16`, a class of policies, or a `Compiled` one."""

Size: TypeAlias = Union[int, str]
"""Frames, or a text: per cent of the database's pages (`"3%"`), bytes (`"128MiB"`), or frames (`"8000"`)."""

Asymmetry: TypeAlias = Union[float, str]
"""The cost of a page write in page reads; `"rm1"`, `"rm2"` or `"file:changes.csv"` for a cost that changes."""

Watch: TypeAlias = Union[bool, Callable[[float], None], None]
"""Progress: a function that gets the share done, True for a bar of tqdm, False for none, None for a bar if standard error is
a terminal or the caller is a notebook that has ipywidgets."""

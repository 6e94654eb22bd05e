"""Traces, and what can stand for one."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _ebbpool
from ._arguments import path_of, shown, text_or_none, whole
from ._errors import TraceError, UsageError
from ._table import Row
from ._types import SupportsArrowStream, TraceLike, Watch

#: The name of the sample that ships with Ebbpool, as results state it.
SAMPLE = "pg-tpcc"


class Trace:
    """Page references with the options for reading them. It never changes.

    `source` is a path, a URL that fsspec can open, a generator, a table with `__arrow_c_stream__`, arrays of NumPy or others
    (pages, writes) or (pages, writes, classes), or a function that returns a new Arrow stream each time it is called.

    * `format`: the format of a file whose name and content do not show it
    * `columns`: the columns of a CSV or a table and their roles, as `--columns` of the command has them: a text
      (`"page=blk,write=op:W"`) or a dict (`{"offset": "lba:512", "write": "op:W", "volume": ["host", "disk"]}`). Without
      `columns` their names say which are which, or an error asks. Roles are `page`, `offset`, `size`, `volume`, `write`, `read`,
      `trim`, `skip`, `class`, `time`, `repeat` and `only`, in any kind of table
    * `page_size`: bytes of a page, or a text such as `"8k"`
    * `database_pages`: pages of the database, of which memory sizes in per cent are shares; only for references that are not
      in a file, since a file states its own
    * `name`: the name in results, for references that are not in a file
    * `skip`, `limit`: references to leave out at the start, and the most to read
    * `skip_bad_lines`: malformed lines to leave out
    * `below_cache`: whether the trace has only the requests that a cache did not answer, where its format or metadata do not say so
    * `whole_writes`: whether each write replaces all of its page, so that a miss by a write reads nothing; else only those do
      of which the trace says so
    * `apart`: whether the parts of several traces are of several databases, so that no page of one is a page of another
    * `key`: 32 bytes that identify the references that a function streams; without it their results are not stored

    A trace pickles as its name, options and key, or as a native file if its references are in memory.

    >>> trace = Trace("zipf:pages=1000,refs=5000")
    >>> trace.info().references
    5000
    """

    def __init__(
        self,
        source: TraceLike,
        *,
        format: str | None = None,
        columns: str | Mapping[str, str | Sequence[str]] | None = None,
        page_size: int | str | None = None,
        database_pages: int | None = None,
        name: str | None = None,
        skip: int = 0,
        limit: int | None = None,
        skip_bad_lines: int = 0,
        below_cache: bool | None = None,
        whole_writes: bool = False,
        references: int | None = None,
        key: bytes | None = None,
        apart: bool = False,
        by_time: bool = False,
    ) -> None:
        self._source = source
        self._options: dict[str, Any] = {
            "format": format,
            "columns": columns if isinstance(columns, (str, type(None))) else _mapping(columns),
            "page_size": page_size,
            "database_pages": database_pages,
            "name": name,
            "skip": whole("skip", skip),
            "limit": None if limit is None else whole("limit", limit),
            "skip_bad_lines": whole("skip_bad_lines", skip_bad_lines),
            "below_cache": None if below_cache is None else bool(below_cache),
            "whole_writes": bool(whole_writes),
            "references": references,
            "key": key,
            "apart": apart,
            "by_time": by_time,
        }
        self._expected_key: bytes | None = None
        self._native = _open(source, self._options)

    @staticmethod
    def concat(
        *parts: TraceLike,
        skip: int = 0,
        limit: int | None = None,
        page_size: int | str | None = None,
        apart: bool = False,
        by_time: bool = False,
    ) -> Trace:
        """Traces one after the other, as one trace, or with `by_time` in the order of their times, which are of one clock. With
        `apart` no page of one is a page of another.

        >>> Trace.concat("zipf:pages=10,refs=20", "zipf:pages=10,refs=30").info().references
        50
        """
        whole = _Parts(tuple(trace_of(part) for part in parts))
        return Trace(whole, skip=skip, limit=limit, page_size=page_size, apart=apart, by_time=by_time)

    def sample(self, rate: float, grain: int = 1) -> Trace:
        """The references to a share of the pages, chosen by a hash of their numbers: the pages that `curve(sample=rate)`
        samples (Waldspurger et al. 2015).

        Memory scales along: a policy with 1 % of the frames of the sample behaves about as with 1 % of those of the whole.
        `grain` neighbouring pages are in the sample together or not at all, for policies with clusters or blocks.

        >>> whole = Trace("zipf:pages=1000,refs=5000")
        >>> 50 < whole.sample(0.1).info().distinct_pages < 150
        True
        """
        if not 0 < rate <= 1:
            raise UsageError(f"rate=: {rate!r} is not a share above 0 and up to 1")
        return Trace(_Sampled(self, float(rate), whole("grain", grain, 1)))

    @property
    def name(self) -> str:
        """The name in results."""
        return self._native.label

    def key(self) -> bytes:
        """A key of the references and the metadata: traces with equal keys are equal."""
        try:
            return self._native.key()
        except TraceError:
            if _is_in_memory(self._source):
                # A value may be wrong, and then the error says which.
                self._native.check()
            raise

    def info(self, *, progress: Watch = None) -> Row:
        """Reads the trace to its end and describes it: references, writes, distinct pages, and more.

        >>> info = Trace("zipf:pages=1000,refs=5000,write=0.5").info()
        >>> info.references, info.distinct_pages <= 1000
        (5000, True)
        """
        with shown(progress, self.name) as show:
            text, _ = self._native.describe(show)
        page_size, database_pages, _, below_cache = self._native.stated()
        stated = {"page_size": page_size, "database_pages": database_pages, "below_cache": below_cache}
        return Row({"trace": self.name, **stated, **json.loads(text)})

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        level: int | None = None,
        progress: Watch = None,
    ) -> None:
        """Writes the trace to a file. `format` is that of the name if it is not given; `level` is that of zstd or gzip. Warnings
        have the notes on what was read, and say what the format cannot store."""
        with shown(progress, self.name) as show:
            notes = self._native.write(path_of(path), format, level, show)
        for note in notes:
            warnings.warn(note, stacklevel=2)

    def __repr__(self) -> str:
        return f"Trace({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        source, options = self._source, dict(self._options)
        if _moves_as_a_file(source):
            source, options = _stored(self), {}
        return (_of_name, (source, options, self._expected_key))


class _Parts:
    """The parts of a trace."""

    def __init__(self, parts: tuple[Trace, ...]) -> None:
        self.parts = parts


class _Files:
    """The files or generators of a trace of which each is named, and which is read as the command reads them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names


class _Sampled:
    """A share of the pages of a trace."""

    def __init__(self, whole: Trace, rate: float, grain: int) -> None:
        self.whole = whole
        self.rate = rate
        self.grain = grain


class _Stored:
    """A trace as a file in memory, and the key of the trace that it was."""

    def __init__(self, name: str, content: bytes, key: bytes) -> None:
        self.name = name
        self.content = content
        self.key = key


def _stored(trace: Trace) -> _Stored:
    """The references after all options."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.parquet")
        # Higher levels take ten times as long, for a file as large.
        trace._native.write(path, None, 1, None)
        with open(path, "rb") as file:
            return _Stored(trace.name, file.read(), trace.key())


def concat_as_the_command(names: Sequence[str], **options: Any) -> Trace:
    """Files or generators one after the other, as `--concat` of the command has them: its results are those of this trace."""
    return Trace(_Files(tuple(names)), **options)


def everywhere(trace: Trace) -> Trace:
    """The trace by a name that does not depend on the current directory, or as a file in memory."""
    source = trace._source
    if _moves_as_a_file(source):
        return Trace(_stored(trace))
    if isinstance(source, (str, os.PathLike)):
        moved: Any = os.path.abspath(source) if os.path.exists(source) else source
    elif isinstance(source, _Parts):
        moved = _Parts(tuple(everywhere(part) for part in source.parts))
    elif isinstance(source, _Files):
        moved = _Files(tuple(os.path.abspath(name) if os.path.exists(name) else name for name in source.names))
    elif isinstance(source, _Sampled):
        moved = _Sampled(everywhere(source.whole), source.rate, source.grain)
    else:
        return trace
    return Trace(moved, **trace._options)


def _is_in_memory(source: Any) -> bool:
    return isinstance(source, tuple) or hasattr(source, "__arrow_c_stream__")


def _moves_as_a_file(source: Any) -> bool:
    # Parts number their devices together; by itself each would begin anew.
    if isinstance(source, _Parts):
        return any(_moves_as_a_file(part._source) for part in source.parts)
    return _is_in_memory(source)


def _is_function(source: Any) -> bool:
    return callable(source) and not hasattr(source, "__arrow_c_stream__")


def _of_name(source: Any, options: dict[str, Any], key: bytes | None) -> Trace:
    trace = Trace(source, **options)
    trace._expected_key = key
    return trace


def sample() -> Trace:
    """The sample that ships with Ebbpool: a TPC-C run of PostgreSQL."""
    return Trace(None)


def trace_of(given: TraceLike | None) -> Trace:
    """The trace that an argument stands for."""
    return given if isinstance(given, Trace) else Trace(given)


def traces_of(given: TraceLike | Sequence[TraceLike] | None) -> list[Trace]:
    """The traces of a list, or the only one."""
    if isinstance(given, list):
        if not given:
            raise UsageError("trace=: the list is empty; give at least one trace")
        return [trace_of(one) for one in given]
    return [trace_of(given)]


def _mapping(columns: Mapping[str, str | Sequence[str]]) -> str:
    """The text of columns by their roles, of which a role may have several."""
    each = [(role, [given] if isinstance(given, str) else given) for role, given in columns.items()]
    # A comma is part of a name here.
    names = [(role, re.sub(r"(?<!\\),", r"\\,", column)) for role, given in each for column in given]
    return ",".join(f"{role}={column}" for role, column in names)


def _open(source: Any, options: dict[str, Any]) -> _ebbpool.Trace:
    reading = {
        "format": options["format"],
        "columns": options["columns"],
        "page_size": text_or_none(options["page_size"]),
        "skip": options["skip"],
        "limit": options["limit"],
        "skip_bad_lines": options["skip_bad_lines"],
        "below_cache": options["below_cache"],
        "whole_writes": options["whole_writes"],
        "apart": options["apart"],
        "by_time": options["by_time"],
    }
    if isinstance(source, _Stored):
        return _ebbpool.Trace.stored(source.name, source.content, source.key)
    named = source is None or isinstance(source, (str, os.PathLike, _Parts, _Files, _Sampled))
    if named:
        for name in ("name", "database_pages", "key", "references"):
            if options[name] is not None:
                raise UsageError(f"{name}=: a file or a generator states its own; leave it out")
    if source is None:
        return _ebbpool.Trace.sample(reading)
    if isinstance(source, _Parts):
        return _ebbpool.Trace.sequence([part._native for part in source.parts], reading)
    if isinstance(source, _Sampled):
        return _ebbpool.Trace.sampled(source.whole._native, source.rate, source.grain)
    if isinstance(source, _Files):
        return _ebbpool.Trace.concatenated([local(name) for name in source.names], reading)
    if isinstance(source, (str, os.PathLike)):
        return _ebbpool.Trace.named(local(os.fspath(source)), reading, False)
    if options["format"] is not None:
        raise UsageError("format=: only a file has a format; leave it out")
    stated = (options["name"] or _name_of(source), options["database_pages"])
    if isinstance(source, tuple) and len(source) in (2, 3):
        classes = source[2] if len(source) == 3 else None
        if any(hasattr(array, "filled") for array in source):
            raise UsageError("trace=: an array has a mask; give those without, such as array.compressed()")
        return _ebbpool.Trace.arrays(source[0], _bytes_of(source[1]), classes, stated, reading)
    if hasattr(source, "__arrow_c_stream__"):
        return _ebbpool.Trace.arrow(source, stated, reading)
    if callable(source):
        references, key = options["references"], options["key"]
        if key is not None and len(key) != 32:
            raise UsageError(f"key=: a key has 32 bytes, and this one has {len(key)}")
        return _ebbpool.Trace.stream(source, stated, references, key, reading)
    raise UsageError(
        f"trace=: {type(source).__name__} is not a trace; give a path, a generator such as 'zipf:pages=1000,refs=50000', a "
        "table with __arrow_c_stream__, arrays (pages, writes), or a function that returns a new stream"
    )


def _name_of(source: Any) -> str:
    name = getattr(source, "__name__", None)
    if isinstance(name, str) and name != "<lambda>":
        return name
    return {"tuple": "arrays", "function": "stream"}.get(type(source).__name__, "table")


def _bytes_of(writes: Any) -> Any:
    """An array of writes as bytes: a boolean of NumPy has a format that is not a number's."""
    try:
        view = memoryview(writes)
    except TypeError:
        raise UsageError("trace=: the writes have to be an array, such as that of NumPy, of booleans or bytes") from None
    if view.format not in ("?", "b"):
        return view
    # Only an array without gaps can be seen as bytes.
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def local(name: str) -> str:
    """The file of a URL, which fsspec fetches once; other names remain."""
    if "://" not in name:
        return name
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"trace=: {name} is a URL, which needs fsspec; install it") from None
    cache = os.environ.get("EBBPOOL_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "ebbpool")
    # A name of its own for each URL, which still ends as the URL does, since the ending shows the format.
    folder = os.path.join(cache, "traces")
    opened = fsspec.open_local(f"simplecache::{name}", simplecache={"cache_storage": folder, "same_names": True})
    return str(opened)


def generate(name: str, **parameters: object) -> Trace:
    """A trace of a generator, with its parameters as keywords; `-` in their names is `_`.

    >>> generate("zipf", pages=1000, refs=5000, write_alpha=1.2).name
    'zipf:pages=1000,refs=5000,write-alpha=1.2'
    """
    items = ",".join(f"{key.replace('_', '-')}={_spelled(value)}" for key, value in parameters.items())
    text = f"{name}:{items}" if items else name
    trace = Trace.__new__(Trace)
    reading = {"format": None, "columns": None, "page_size": None, "skip": 0, "limit": None, "skip_bad_lines": 0, "below_cache": None, "whole_writes": False, "apart": False, "by_time": False}
    trace._native = _ebbpool.Trace.named(text, reading, True)
    trace._source = text
    trace._options = {}
    trace._expected_key = None
    return trace


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

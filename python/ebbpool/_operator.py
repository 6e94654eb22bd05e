"""Advice for an operator, differences between results, replays in the pool, and the papers' experiments."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from . import _ebbpool
from ._arguments import a_text, counting, number, numbers, path_of, shown, sizes, text_if_given, text_or_none, threads_or_none, whole
from ._comparison import write_page
from ._errors import EbbpoolError, UsageError
from ._executor import reproduce_with
from ._lab import _one, policies_of
from ._store import results_of
from ._table import Row, Table, table_of
from ._trace import trace_of
from ._types import PolicyLike, Size, TraceLike, Watch


class _SaidAdvice:
    """What advice says. It goes to other processes in place of the advice itself."""

    def __init__(self, native: _ebbpool.Advice) -> None:
        self.notes = native.notes
        self._json = native.json()
        self._paragraphs = native.paragraphs()
        self._page = native.page()

    def json(self) -> str:
        return self._json

    def paragraphs(self) -> list[tuple[str, list[str], tuple[list[str], list[list[str]]] | None]]:
        return self._paragraphs

    def page(self) -> str:
        return self._page


class Advice(Row):
    """The answer to an operator; its fields are those of `ebbpool advise --format json`, such as `recommendation`, `saves`,
    `curve`, `knee`, `life` and `knobs`."""

    def __init__(self, native: _ebbpool.Advice) -> None:
        super().__init__(json.loads(native.json()))
        self._native: _ebbpool.Advice | _SaidAdvice = native

    def __getstate__(self) -> dict[str, Any]:
        native = self._native
        return {**self.__dict__, "_native": native if isinstance(native, _SaidAdvice) else _SaidAdvice(native)}

    @property
    def notes(self) -> list[str]:
        """Notes on the work."""
        return self._native.notes

    @property
    def advice(self) -> str:
        """The answer in sentences."""
        return "\n".join(self._native.paragraphs()[0][1])

    def to_json(self) -> str:
        """The answer as JSON."""
        return self._native.json()

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the answer as a page of HTML."""
        write_page(path, self._native.page())

    def __repr__(self) -> str:
        parts = []
        for title, sentences, table in self._native.paragraphs():
            lines = [title, *sentences]
            if table is not None:
                head, rows = table
                widths = [max(map(len, column)) for column in zip(head, *rows)]
                lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in (head, *rows)]
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = []
        for title, sentences, table in self._native.paragraphs():
            parts.append(f"<h4>{html.escape(title)}</h4><p>{'<br>'.join(map(html.escape, sentences))}</p>")
            if table is not None:
                head, rows = table
                heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
                body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
                parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")
        return "".join(parts)


def advise(
    trace: TraceLike | None = None,
    *,
    device: str | None = None,
    asymmetry: float | None = None,
    server: str | None = None,
    now: str | None = None,
    frames: Size | None = None,
    budget: str | None = None,
    memory_price: float | None = None,
    rate: float | str | None = None,
    duration: str | None = None,
    writes_per_day: float | str | None = None,
    life: str | None = None,
    warmup: int | str = 0,
    at_end: str = "flush",
    checkpoints: int | str | None = None,
    facts: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    cache: bool | str | os.PathLike[str] | MutableMapping[str, bytes] = True,
    progress: Watch = None,
) -> Advice:
    """Advises an operator: the policy to take, the memory worth having, and how long the device lives.

    * `server`: `"postgresql"`, `"innodb"`, `"sqlite"` or `"other"`; without it, by the trace's name
    * `now`, `frames`: the present policy and memory
    * `budget`: the most memory that the buffer may have, such as `"512MiB"`
    * `memory_price`: the price of a GiB of memory for a month in $
    * `rate`, `duration`, `writes_per_day`: one of them says how fast references arrive
    * `life`: how long the device should live, such as `"5y"`
    * `facts`: the file of facts of a capture, with the bytes that the server and its device wrote meanwhile

    >>> answer = advise("zipf:pages=2000,refs=20000", frames=60, now="lru", asymmetry=32)
    >>> answer.recommendation["policy"]
    'ebb'
    """
    one = trace_of(trace)
    request = {
        "asymmetry": [] if asymmetry is None else numbers("asymmetry", [asymmetry]),
        "device": text_if_given("device", device),
        "server": text_if_given("server", server),
        "now": text_if_given("now", now),
        "frames": None if frames is None else _one(sizes("frames", frames), "frames")[0],
        "budget": text_if_given("budget", budget),
        "memory_price": memory_price,
        "duration": text_if_given("duration", duration),
        "writes_per_day": text_or_none(writes_per_day),
        "life": text_if_given("life", life),
        "facts": None if facts is None else Path(facts).read_text(encoding="utf-8"),
        "counting": counting(warmup, at_end, 16, rate, checkpoints),
    }
    native = results_of(cache).native
    with shown(progress, one.name) as show:
        return Advice(_ebbpool.advise(one._native, request, native, threads=threads_or_none(threads), progress=show))


class Diff(Row):
    """The differences between two results; its fields are those of `ebbpool diff --format json`, such as `matched`,
    `changed` and `changes`."""

    def __init__(self, text: str, sentence: str, page: str, differs: bool) -> None:
        super().__init__(json.loads(text))
        #: The differences in a sentence.
        self.sentence = sentence
        self._page = page
        self._differs = differs
        self._text = text

    def __bool__(self) -> bool:
        """True if anything differs beyond noise."""
        return self._differs

    def to_json(self) -> str:
        """The differences as JSON."""
        return self._text

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the differences as a page of HTML."""
        write_page(path, self._page)

    def __repr__(self) -> str:
        return self.sentence


def diff(before: Any, after: Any, *, noise: float = 0.2) -> Diff:
    """Compares two results of the same function: results, or files with the JSON of the command.

    `noise` is the share of a measured figure, such as a time, from which on it counts as changed.

    >>> import ebbpool
    >>> one = ebbpool.compare("zipf:pages=1000,refs=20000", "lru", [50, 100], 8)
    >>> two = ebbpool.compare("zipf:pages=1000,refs=20000,seed=2", "lru", [50, 100], 8)
    >>> bool(diff(one, one)), bool(diff(one, two))
    (False, True)
    """
    return Diff(*_ebbpool.diff(_named_json("before", before), _named_json("after", after), float(noise)))


def _named_json(name: str, result: Any) -> tuple[str, str]:
    if hasattr(result, "to_json"):
        return (name, result.to_json())
    if isinstance(result, (str, os.PathLike)):
        path = path_of(result)
        with open(path, encoding="utf-8") as file:
            return (path, file.read())
    raise UsageError(f"{name}=: {type(result).__name__} is not a result; give a result, or a file with the command's JSON")


def replay(
    trace: TraceLike | None,
    policies: PolicyLike | Sequence[PolicyLike],
    frames: Size,
    file: str | os.PathLike[str] | None = None,
    *,
    create: bool = False,
    overwrite: bool = False,
    engine: str = "auto",
    direct: bool = True,
    page_size: int | None = None,
    asymmetry: float | None = None,
    threads: int = 1,
    background: bool = False,
    read_ahead: int = 0,
    warmup: int | str = 0,
    at_end: str = "flush",
    cluster_size: int = 16,
    verify: bool = True,
    events: str | os.PathLike[str] | None = None,
    record: str | os.PathLike[str] | None = None,
    progress: Watch = None,
) -> Table:
    """Runs a trace through the pool with one policy after the other, on a file or a block device, or without one in memory.

    * `policies`: names and classes, of which a pool of each runs; classes follow the names in the result
    * `create`, `overwrite`: create the file, or overwrite one whatever it contains
    * `engine`, `direct`: `"auto"`, `"uring"` or `"threads"`, and whether I/O bypasses the kernel's page cache
    * `asymmetry`: R for policies and bill; without it, the measured one
    * `background`: whether the pool writes dirty pages before their eviction
    * `events`, `record`: files for write-backs and evictions, and for the references as the pool gets them

    >>> (row,) = replay("zipf:pages=500,refs=5000", "lru", 50, asymmetry=8)
    >>> row.hits + row.misses
    5000
    """
    one = trace_of(trace)
    request = {
        "policies": policies_of(policies),
        "frames": _one(sizes("frames", frames), "frames")[0],
        "file": None if file is None else path_of(file),
        "create": bool(create),
        "overwrite": bool(overwrite),
        "engine": a_text("engine", engine),
        "direct": bool(direct),
        "page_size": None if page_size is None else whole("page_size", page_size, 1),
        "asymmetry": None if asymmetry is None else number("asymmetry", asymmetry),
        "threads": whole("threads", threads, 1),
        "background": bool(background),
        "read_ahead": whole("read_ahead", read_ahead),
        "counting": counting(warmup, at_end, cluster_size, None),
        "verify": bool(verify),
        "events": None if events is None else path_of(events),
        "record": None if record is None else path_of(record),
    }
    with shown(progress, one.name) as show:
        text, notes = _ebbpool.replay(one._native, request, show)
    return _flat(text, notes)


def _flat(text: str, notes: Sequence[str]) -> Table:
    """A table of the fields that have one value; `to_json` has the others."""
    rows = json.loads(text)
    columns = [name for name, value in rows[0].items() if not isinstance(value, (dict, list))] if rows else []
    table = table_of(rows, columns, text)
    table.notes = list(notes)
    return table


class Reproduction(Table):
    """The claims of papers with our figures: a row for each claim, with `experiment`, `claim`, `paper`, `ours`, `verdict` and
    `why`."""

    def __init__(self, text: str, notes: Sequence[str], out: str | None) -> None:
        experiments: list[dict[str, Any]] = json.loads(text)
        rows = [
            {
                "experiment": one["id"],
                "claim": claim["says"],
                "paper": claim["paper"],
                "ours": claim["ours"],
                "verdict": claim["verdict"],
                "why": claim["why"],
            }
            for one in experiments
            for claim in one["claims"]
        ]
        table = table_of(rows, ["experiment", "claim", "paper", "ours", "verdict", "why"], text)
        super().__init__(table._table, text, notes)
        #: The experiments with all points, as dicts.
        self.experiments = experiments
        #: The directory of the report, in which `index.html` has all results, if one was given.
        self.out = out


def reproduce(
    *experiments: str,
    full: bool = False,
    policies: PolicyLike | Sequence[PolicyLike] = (),
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    executor: Any = None,
    cache: bool | str | os.PathLike[str] | MutableMapping[str, bytes] = True,
    progress: Watch = None,
) -> Reproduction:
    """Computes tables and figures of the papers again, and judges their claims.

    * `experiments`: names of `experiments()`, papers (`"cikm"`, `"tc"`, `"adlru"`, `"ppe"`, `"cfdc"`), `"ebb"`, or files;
      without any, the experiments of all papers
    * `full`: at the scale of the papers, as far as it is known
    * `policies`: additional policies for every figure, names and classes. Classes run at the client also with `executor`,
      and not in the study of `ebb`'s estimates or in timings
    * `out`: a directory for the report; without one there is none
    """
    names = list(experiments)
    added = (policies_of(policies) or []) if policies else []
    with tempfile.TemporaryDirectory() as directory:
        request = (names, bool(full), added, directory if out is None else path_of(out))
        results = results_of(cache)
        with shown(progress, "experiments") as show:
            if executor is not None:
                ids = [row["id"] for row in json.loads(_ebbpool.experiments_json(names))]
                results = reproduce_with(executor, ids, request, results, show)
            answer = _ebbpool.reproduce(request, results.native, threads=threads_or_none(threads), progress=show)
    text, failed, notes = answer
    if failed:
        raise EbbpoolError(f"{failed} experiments failed: {'; '.join(notes)}")
    return Reproduction(text, notes, None if out is None else path_of(out))


def experiments() -> Table:
    """The experiments of the papers, and the study of `ebb`, with their claims.

    >>> "cikm-table2" in experiments().to_dict()["id"]
    True
    """
    text = _ebbpool.experiments_json([])
    return table_of(json.loads(text), ["id", "title", "claim"], text)

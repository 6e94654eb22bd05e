"""Comparisons, curves and runs as results."""

from __future__ import annotations

import html
import json
import os
from typing import Any

from . import _ebbpool
from ._arguments import number, path_of, sizes, whole
from ._errors import UsageError
from ._table import Row, Table, table_of
from ._types import Asymmetry, Size

#: How far above the least bill a cell has no tint.
_FARTHEST = 0.25


class _Said:
    """What a comparison says of itself. It goes to other processes in place of the comparison, which has the traces' details."""

    def __init__(self, native: _ebbpool.Comparison) -> None:
        self._json = native.json()
        self._answers = native.answers()
        self._cells = native.cells()
        self._price_tables = native.price_tables()
        self._summary = Table(native.summary())
        self._text = native.text()
        self._for_text = [native.for_text(latex) for latex in (False, True)]
        self._page = native.page()
        self._figure = native.figure()
        self._over_all = native.over_all()

    def json(self) -> str:
        return self._json

    def answers(self) -> list[tuple[str, list[str], list[tuple[str, int]]]]:
        return self._answers

    def cells(self) -> _ebbpool._Cells:
        return self._cells

    def price_tables(self) -> list[tuple[int, str, str, float, int, int]]:
        return self._price_tables

    def summary(self) -> _ebbpool.Table:
        return self._summary._table

    def text(self) -> str:
        return self._text

    def for_text(self, latex: bool) -> str:
        return self._for_text[latex]

    def page(self) -> str:
        return self._page

    def figure(self) -> str | None:
        return self._figure

    def over_all(self) -> list[str]:
        return self._over_all

    def report(self, path: str) -> None:
        write_page(path, self._page)


class _SaidCurve:
    """The same for a curve."""

    def __init__(self, native: _ebbpool.Curve) -> None:
        self.sentence = native.sentence
        self._page = native.page()

    def report(self, path: str) -> None:
        write_page(path, self._page)


class Comparison(Table):
    """The results of `compare`: a row for each trace, asymmetry, policy and size.

    It pickles with all that it says, the report included."""

    def __init__(self, native: _ebbpool.Comparison) -> None:
        super().__init__(native.table(), "", native.notes)
        self._native: _ebbpool.Comparison | _Said = native

    def __getstate__(self) -> dict[str, Any]:
        native = self._native
        return {**super().__getstate__(), "_native": native if isinstance(native, _Said) else _Said(native)}

    def to_json(self) -> str:
        """The results as `ebbpool compare --format json` prints them, with the figures of a device."""
        return self._native.json()

    def to_markdown(self) -> str:
        """The tables in Markdown, as `ebbpool compare --format markdown` prints them."""
        return self._native.for_text(False)

    def to_latex(self) -> str:
        """The tables in LaTeX, with the package booktabs; the sentences are comments, so that a text can `input` all of it."""
        return self._native.for_text(True)

    def figure(self, path: str | os.PathLike[str]) -> None:
        """Writes the bills against memory size as a picture for a text, in SVG: a panel for each trace and price, with means and
        95 % intervals over the seeds of a generator."""
        picture = self._native.figure()
        if picture is None:
            raise UsageError("figure(): no run has finished")
        write_page(path, picture, "svg")

    @property
    def details(self) -> list[dict[str, Any]]:
        """The results with the figures of a device, such as its wear, as dicts."""
        details: list[dict[str, Any]] = json.loads(self.to_json())
        return details

    @property
    def advice(self) -> str:
        """The answer in sentences: the policy to take at the usual size, over all sizes and asymmetries, and over all traces.

        >>> import ebbpool
        >>> answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "cflru"], ["3%"], 32)
        >>> "cflru" in answer.advice
        True
        """
        answers = self._native.answers()
        names = [f"{name}: " if len(answers) > 1 else "" for name, *_ in self._native.cells()[1]]
        lines = [name + sentence for name, (_, sentences, _) in zip(names, answers) for sentence in sentences]
        return "\n".join(lines + self._native.over_all())

    def best(
        self, *, frames: Size | None = None, asymmetry: Asymmetry | None = None, trace: str | int | None = None
    ) -> Row:
        """The policy to take: the one with the least bill, of those whose device has not failed. One that knows the future,
        such as `belady`, is taken only among its like. `trace` is a name, or the number of a trace in the request, from 0 on.

        With one cell left, that is its row. Over several, it is a row with

        * `policy`: the one that pays in the fewest of the cells in which another pays nothing, and of those with as few the
          one with the least `cost`
        * `cost`: the geometric mean of its bills in the cells in which every online policy pays; each trace counts as much as any other
        * `above_least`: its largest bill over the least of the same cell, less 1; infinite if another pays nothing there
        * `cells`: all cells; sizes of as many frames, equal prices and equal traces count once
        * `free_cells`: those of them in which the least bill is 0

        >>> import ebbpool
        >>> answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "cflru"], ["3%", "6%"], [8, 32])
        >>> answer.best(frames="3%", asymmetry=32).policy
        'cflru'
        >>> answer.best().cells
        4
        """
        (size,) = [None] if frames is None else sizes("frames", frames)
        price = None if asymmetry is None else number("asymmetry", asymmetry)
        name, at = (trace, None) if trace is None or isinstance(trace, str) else (None, whole("trace", trace))
        try:
            best = _ebbpool.best(self._native.cells(), size, price, name, at)
        except UsageError as error:
            wanted = f"frames={frames!r}, asymmetry={asymmetry!r}, trace={trace!r}"
            raise UsageError(f"{error} with {wanted}" if "there is no" in str(error) else str(error)) from None
        if best is None:
            raise UsageError("best(): no policy has finished in all cells; limit them by frames=, asymmetry= or trace=")
        policy, cost, above, cells, free, row = best
        if row is not None:
            found: Row = self[row]
            return found
        return Row({"policy": policy, "cost": cost, "above_least": above, "cells": cells, "free_cells": free})

    @property
    def summary(self) -> Table:
        """Several traces in one table: a row for each policy that has finished everywhere, the one with the least mean first.

        >>> import ebbpool
        >>> traces = [f"zipf:pages=1000,refs=10000,seed={seed}" for seed in range(5)]
        >>> summary = ebbpool.compare(traces, ["lru", "cflru"], ["3%", "6%"], 32).summary
        >>> summary[0].policy, summary[0].wins, summary[1].against_best_low > 1
        ('cflru', 10, True)
        """
        return Table(self._native.summary())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: one page of HTML with charts and tables. With `compare(report=True)` it also describes the
        trace."""
        self._native.report(page_path(path))

    def show(self, height: int = 700) -> Frame:
        """The report in a frame of a notebook, `height` pixels high."""
        return Frame(self._native.page(), height)

    def __repr__(self) -> str:
        return self._native.text()

    def _repr_html_(self) -> str:
        """A block for each trace and asymmetry, tinted by the distance from the least bill of the column."""
        answers = self._native.answers()
        tables = self._native.price_tables()
        parts = []
        for trace, label, _, factor, first, end in tables:
            _, _, spellings = answers[trace]
            spelled = {frames: size for size, frames in spellings if size != str(frames)}
            rows = self[first:end]
            name = f"{rows[0].trace}, " if len(answers) > 1 else ""
            parts.append(_block(f"{name}R = {label}", rows, spelled, factor))
        for at, (title, sentences, _) in enumerate(answers):
            units = [unit for trace, _, unit, *_ in tables if trace == at]
            text = "<br>".join(html.escape(sentence) for sentence in [title, *units[:1], *sentences])
            parts.append(f"<p>{text}</p>")
        return "".join(parts)


def page_path(path: str | os.PathLike[str], kind: str = "html") -> str:
    """The path of a page of HTML, or of a picture; the name must not be that of a file of another kind."""
    name = path_of(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in ("", f".{kind}", ".htm" if kind == "html" else ""):
        raise UsageError(f"path=: this writes {kind.upper()}, and {ending} is another format; end the name with .{kind}")
    return name


def write_page(path: str | os.PathLike[str], page: str, kind: str = "html") -> None:
    """Writes a page of HTML, or a picture."""
    with open(page_path(path, kind), "w", encoding="utf-8") as file:
        file.write(page)


def _described(result: str) -> str:
    """The columns of a result with their units and meanings, for the documentation."""
    lines = []
    for name, unit, about in _ebbpool.fields(result):
        lines.append(f"* `{name}`{f' ({unit})' if unit else ''}: {about}")
    return "\n\nColumns:\n\n" + "\n".join(lines)


class Frame:
    """A page of HTML in a frame of a notebook. Its script runs there, which viewers would drop outside of a frame."""

    def __init__(self, page: str, height: int) -> None:
        self._page = page
        self._height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" style="width:100%;height:{self._height}px;border:0" '
            f'srcdoc="{html.escape(self._page, quote=True)}"></iframe>'
        )


def _names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.policy for row in rows))


def _block(head: str, rows: list[Row], spelled: dict[int, str], factor: float) -> str:
    """One table; the tint lies over the page's own background, so that it suits light and dark pages. `factor` is a bill of one
    page read in the unit of the table."""
    sizes = sorted({row.frames for row in rows})
    # The bill of a run whose device failed covers a part of the trace only.
    cells = {(row.policy, row.frames): row.cost for row in rows if row.failed is None}
    failed = {(row.policy, row.frames): row.failed for row in rows if row.failed is not None}
    least = {size: min((cost for (_, frames), cost in cells.items() if frames == size), default=0.0) for size in sizes}
    lines = []
    for policy in _names(rows):
        line = [f'<th style="text-align:left">{html.escape(policy)}</th>']
        for size in sizes:
            cost = cells.get((policy, size))
            if (policy, size) in failed:
                line.append(f'<td title="{html.escape(failed[policy, size])}">failed</td>')
                continue
            if cost is None:
                line.append("<td>-</td>")
                continue
            above = cost / least[size] - 1 if least[size] > 0 else 0.0
            tint = 0.5 * max(0.0, 1 - above / _FARTHEST)
            text = f"<b>{factor * cost:.4f}</b>" if cost <= least[size] else f"{factor * cost:.4f}"
            style = f"text-align:right;background:rgba(0,150,110,{tint:.2f})"
            line.append(f'<td style="{style}" title="{100 * above:.1f} % above">{text}</td>')
        lines.append(f"<tr>{''.join(line)}</tr>")
    spellings = (f"{html.escape(spelled[size])}<br>" if size in spelled else "" for size in sizes)
    heads = "".join(f'<th style="text-align:right">{spelling}{size}</th>' for spelling, size in zip(spellings, sizes))
    return (
        f'<table><thead><tr><th style="text-align:left">{html.escape(head)}</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


class Curve(Table):
    """The results of `curve`: a row for each policy and size, then the smallest memory for a target."""

    def __init__(self, native: _ebbpool.Curve) -> None:
        super().__init__(native.table(), native.json(), native.notes)
        self._native: _ebbpool.Curve | _SaidCurve = native

    def __getstate__(self) -> dict[str, Any]:
        native = self._native
        return {**super().__getstate__(), "_native": native if isinstance(native, _SaidCurve) else _SaidCurve(native)}

    @property
    def advice(self) -> str:
        """The answer in sentences."""
        return self._native.sentence

    def smallest(self) -> dict[str, Row]:
        """The smallest memory of each policy that reaches the target, with the estimated figures.

        >>> import ebbpool
        >>> study = ebbpool.curve("zipf:pages=1000,refs=20000", ["lru", "cflru"], target="writes -20%", baseline="lru@10%")
        >>> study.smallest()["cflru"].frames < study.smallest()["lru"].frames
        True
        """
        return {row.policy: row for row in self if row.target is not None}

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report: one page of HTML with charts and tables."""
        self._native.report(page_path(path))


class Run(Table):
    """The result of `run`: one row."""

    def __init__(self, native: _ebbpool.Table, json: str, notes: list[str], events: str | None, series: str | None) -> None:
        super().__init__(native, json, notes)
        self._events = events
        self._series = series

    @property
    def result(self) -> Row:
        """The row."""
        return Row(self._table.row(0))

    @property
    def details(self) -> dict[str, Any]:
        """The result with the figures of a device, as a dict."""
        details: dict[str, Any] = json.loads(self._json)
        return details

    @property
    def events(self) -> Table:
        """Every write-back and eviction in order, with the columns `event` (`write` or `evict`), `page`, and `counted`, which
        is false during the warm-up."""
        if self._events is None:
            raise UsageError("the run has recorded no events; give events=True")
        rows, counted = [], False
        for line in self._events.splitlines():
            if line.startswith("#"):
                # The only such line: "# counted from here".
                counted = True
                continue
            event, page = line.split()
            rows.append({"event": event, "page": int(page), "counted": counted})
        return table_of(rows, ["event", "page", "counted"])

    @property
    def series(self) -> Table:
        """The state every 1,000 references: pool sizes, target and estimates."""
        if self._series is None:
            raise UsageError("the run has recorded no series; give series=True")
        head, *lines = self._series.splitlines()
        columns = head.split(",")
        rows = [dict(zip(columns, map(_number, line.split(",")))) for line in lines]
        return table_of(rows, columns)


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return int(text) if text.isdigit() else float(text)


Comparison.__doc__ = (Comparison.__doc__ or "") + _described("compare")
Comparison.summary.__doc__ = (Comparison.summary.__doc__ or "") + _described("summary")
Curve.__doc__ = (Curve.__doc__ or "") + _described("curve")

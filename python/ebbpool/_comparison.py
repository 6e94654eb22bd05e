"""Comparisons, curves and runs as results."""

from __future__ import annotations

import html
import json
import os
from typing import Any

from . import _ebbpool
from ._arguments import path_of
from ._errors import UsageError
from ._table import Row, Table, table_of

#: How far above the least bill a cell has no tint.
_FARTHEST = 0.25


class _Said:
    """What a comparison says of itself. It goes to other processes in place of the comparison, which has the traces' details."""

    def __init__(self, native: _ebbpool.Comparison) -> None:
        self._json = native.json()
        self._answers = native.answers()
        self._offline = native.offline()
        self._summary = Table(native.summary())
        self._text = native.text()
        self._page = native.page()

    def json(self) -> str:
        return self._json

    def answers(self) -> list[tuple[str, list[str], list[tuple[str, int]]]]:
        return self._answers

    def offline(self) -> list[str]:
        return self._offline

    def summary(self) -> _ebbpool.Table:
        return self._summary._table

    def text(self) -> str:
        return self._text

    def page(self) -> str:
        return self._page

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

    @property
    def details(self) -> list[dict[str, Any]]:
        """The results with the figures of a device, such as its wear, as dicts."""
        details: list[dict[str, Any]] = json.loads(self.to_json())
        return details

    @property
    def advice(self) -> str:
        """The answer in sentences: the policy to take at the usual size, and over all sizes and asymmetries.

        >>> import ebbpool
        >>> answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "cflru"], ["3%"], 32)
        >>> "cflru" in answer.advice
        True
        """
        return "\n".join(sentence for _, sentences, _ in self._native.answers() for sentence in sentences)

    def best(self, *, frames: int | str | None = None, asymmetry: float | None = None, trace: str | None = None) -> Row:
        """The policy to take: the one with the least bill, of those whose device has not failed. One that knows the future,
        such as `belady`, is taken only among its like.

        With one cell left, that is its row. Over several, it is a row with `policy`, `cost` (the geometric mean of its
        bills), `above_least` (its largest bill over the least of the same cell, less 1) and `cells`.

        >>> import ebbpool
        >>> answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "cflru"], ["3%", "6%"], [8, 32])
        >>> answer.best(frames="3%", asymmetry=32).policy
        'cflru'
        >>> answer.best().cells
        4
        """
        rows = [row for row in self if self._is_in(row, frames, asymmetry, trace)]
        if not rows:
            raise UsageError(f"best(): there is no result with frames={frames!r}, asymmetry={asymmetry!r}, trace={trace!r}")
        cells: dict[tuple[Any, ...], dict[str, Row]] = {}
        for row in rows:
            cell = cells.setdefault((row.trace, row.frames, row.asymmetry), {})
            # The figures of a run whose device failed cover a part of the trace only.
            if row.failed is None:
                cell[row.policy] = row
        names, offline = _names(rows), self._native.offline()
        bills = [[cell[name].cost if name in cell else None for name in names] for cell in cells.values()]
        best = _ebbpool.best([name not in offline for name in names], bills)
        if best is None:
            raise UsageError("best(): no policy has finished in all cells; limit them by frames=, asymmetry= or trace=")
        policy, cost, above = names[best[0]], best[1], max(best[2], default=1.0) - 1
        if len(cells) == 1:
            (cell,) = cells.values()
            return cell[policy]
        return Row({"policy": policy, "cost": cost, "above_least": above, "cells": len(cells)})

    def _is_in(self, row: Row, frames: int | str | None, asymmetry: float | None, trace: str | None) -> bool:
        if frames is not None:
            spelled = {spelling: number for _, _, sizes in self._native.answers() for spelling, number in sizes}
            if row.frames != spelled.get(str(frames), frames):
                return False
        return (asymmetry is None or row.asymmetry == asymmetry) and (trace is None or row.trace == trace)

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
        self._native.report(path_of(path))

    def show(self, height: int = 700) -> Frame:
        """The report in a frame of a notebook, `height` pixels high."""
        return Frame(self._native.page(), height)

    def __repr__(self) -> str:
        return self._native.text()

    def _repr_html_(self) -> str:
        """A block for each trace and asymmetry, tinted by the distance from the least bill of the column."""
        parts = []
        answers = {title: sentences for title, sentences, _ in self._native.answers()}
        blocks: dict[tuple[str, float], list[Row]] = {}
        for row in self:
            blocks.setdefault((row.trace, row.asymmetry), []).append(row)
        traces = {trace for trace, _ in blocks}
        spelled = {frames: size for _, _, sizes in self._native.answers() for size, frames in sizes if size != str(frames)}
        for (trace, asymmetry), rows in blocks.items():
            name = f"{trace}, " if len(traces) > 1 else ""
            parts.append(_block(f"{name}R = {asymmetry:g}", rows, spelled))
        for title, sentences in answers.items():
            text = "<br>".join(html.escape(sentence) for sentence in sentences)
            parts.append(f"<p>{html.escape(title)}<br>bill per reference in page reads<br>{text}</p>")
        return "".join(parts)


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Writes a page of HTML."""
    with open(path_of(path), "w", encoding="utf-8") as file:
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


def _block(head: str, rows: list[Row], spelled: dict[int, str]) -> str:
    """One table; the tint lies over the page's own background, so that it suits light and dark pages."""
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
            text = f"<b>{cost:.4f}</b>" if cost <= least[size] else f"{cost:.4f}"
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
        """The answer in a sentence."""
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
        self._native.report(path_of(path))


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

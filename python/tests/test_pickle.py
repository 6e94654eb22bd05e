"""Results in other processes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from policies import Lru

import ebbpool

TRACE = "zipf:pages=2000,refs=20000"


def again(result: Any) -> Any:
    return pickle.loads(pickle.dumps(result))


def columns(table: Any) -> list[tuple[str, str, bool, list[Any]]]:
    parts: list[tuple[str, str, bool, list[Any]]] = table._table.parts()
    return parts


@pytest.mark.parametrize("generations", [1, 2])
def test_a_comparison_says_the_same(generations: int, tmp_path: Path) -> None:
    one = ebbpool.compare([TRACE, f"{TRACE},seed=2"], ["lru", "cflru", Lru], ["3%", 100], [8, 32], cache=False)
    two = one
    for _ in range(generations):
        two = again(two)
    assert type(two) is ebbpool.Comparison and columns(two) == columns(one)
    assert (repr(two), two.to_json(), two.advice, two.notes, two._repr_html_()) == (
        repr(one),
        one.to_json(),
        one.advice,
        one.notes,
        one._repr_html_(),
    )
    assert dict(two.best(frames="3%", asymmetry=32, trace=one[0].trace)) == dict(
        one.best(frames="3%", asymmetry=32, trace=one[0].trace)
    )
    assert dict(two.best()) == dict(one.best())
    assert columns(two.summary) == columns(one.summary) and two.details == one.details
    two.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!") and "cflru" in page and two.show()._repr_html_()
    assert not ebbpool.diff(one, two)


def test_other_results_say_the_same(tmp_path: Path) -> None:
    study = ebbpool.curve(TRACE, ["lru", "cflru"], frames=[50, 100], target="writes -20%", baseline="lru@10%")
    back = again(study)
    assert columns(back) == columns(study) and (back.advice, back.to_json()) == (study.advice, study.to_json())
    assert {name: dict(row) for name, row in back.smallest().items()} == {name: dict(row) for name, row in study.smallest().items()}
    again(back).report(tmp_path / "curve.html")
    assert "cflru" in (tmp_path / "curve.html").read_text(encoding="utf-8")
    run = ebbpool.run("zipf:pages=500,refs=3000", "fd-buffer", 50, events=True, series=True)
    back = again(run)
    assert dict(back.result) == dict(run.result) and columns(back.series) == columns(run.series) and len(back.events) > 0
    advice = ebbpool.advise(TRACE, frames=60, now="lru", asymmetry=32)
    back = again(again(advice))
    assert dict(back) == dict(advice) and (repr(back), back.notes, back.to_json()) == (repr(advice), advice.notes, advice.to_json())
    back.report(tmp_path / "advice.html")
    assert (tmp_path / "advice.html").stat().st_size > 1000
    bound = ebbpool.bound("zipf:pages=500,refs=3000", 50)
    assert columns(again(bound)) == columns(bound)
    replayed = ebbpool.replay("zipf:pages=500,refs=3000", "lru", 50, asymmetry=8)
    assert columns(again(replayed)) == columns(replayed)
    changes = ebbpool.diff(study, study)
    assert (repr(again(changes)), bool(again(changes))) == (repr(changes), bool(changes))
    claims = ebbpool.reproduce("cikm-table2")
    assert columns(again(claims)) == columns(claims) and again(claims).experiments == claims.experiments
    assert dict(again(study[0])) == dict(study[0]) and columns(copy.deepcopy(study)) == columns(study)

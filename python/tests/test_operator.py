"""`advise`, `diff`, `replay`, `reproduce`, and the command in the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_compare import without_times
from test_executors import Counting

import ebbpool

TRACE = "zipf:pages=2000,refs=30000,write=0.4"


def test_advice_is_that_of_the_command(command: Any, tmp_path: Path) -> None:
    words = ["--frames", "60", "--now", "lru", "--device", "s3-standard", "--memory-budget", "2MiB", "--duration", "10min"]
    words += ["--memory-price", "2.5"]
    theirs = command("advise", TRACE, "--page-size", "4k", *words)
    arguments: dict[str, Any] = {"frames": 60, "now": "lru", "device": "s3-standard", "duration": "10min"}
    ours = ebbpool.advise(ebbpool.Trace(TRACE, page_size="4k"), budget="2MiB", memory_price=2.5, **arguments)
    del theirs["commands"]
    assert json.loads(ours.to_json()) == theirs == dict(ours)
    assert ours.recommendation["policy"] in ours.advice
    assert "Reads and writes" in repr(ours) and "<h4>Memory</h4>" in ours._repr_html_()
    ours.report(tmp_path / "page.html")
    assert "<!DOCTYPE html>" in (tmp_path / "page.html").read_text()


def test_advice_takes_checkpoints_and_the_facts_of_a_capture(command: Any, tmp_path: Path) -> None:
    facts = tmp_path / "capture.json"
    written = {"seconds": 60.0, "page_bytes": 60_000_000, "log_bytes": 40_000_000, "process_bytes": 110_000_000, "device": None}
    facts.write_text(json.dumps({"references": 30_000, "resident_references": 0, "written": written}))
    words = ["--frames", "60", "--now", "lru", "--device", "sd-a1", "--duration", "1min", "--life", "5y"]
    theirs = command("advise", TRACE, *words, "--page-size", "4k", "--checkpoints", "5000", "--facts", str(facts))
    trace = ebbpool.Trace(TRACE, page_size="4k")
    arguments: dict[str, Any] = {"frames": 60, "now": "lru", "device": "sd-a1", "duration": "1min", "life": "5y"}
    ours = ebbpool.advise(trace, checkpoints=5000, facts=facts, **arguments)
    del theirs["commands"]
    assert json.loads(ours.to_json()) == theirs
    assert ours.checkpoints == "5000" and ours.now["checkpoint_writes"] > 0
    assert ours.now["bytes_written_per_day"] == pytest.approx(100e6 * 1440)
    with pytest.raises(ebbpool.UsageError, match="another trace"):
        ebbpool.advise("zipf:pages=2000,refs=20000", facts=facts, **arguments)
    facts.write_text("{}")
    with pytest.raises(ebbpool.UsageError, match="facts=: .*'written'"):
        ebbpool.advise(trace, facts=facts, **arguments)


def test_wrong_questions_of_operators_are_refused() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("give one of them", {"rate": 5, "duration": "10min"}),
        ("server=: 'oracle'", {"server": "oracle"}),
        ("budget=: ", {"budget": "many"}),
        ("page_size=", {"budget": "2MiB"}),
        ("no price of a GiB", {"memory_price": -1.0}),
        ("duration=: ", {"duration": "soon"}),
        ("life=: ", {"life": "long"}),
        ("now=", {"now": "belady"}),
    ]
    for text, wrong in cases:
        with pytest.raises(ebbpool.UsageError, match=text):
            ebbpool.advise(TRACE, **wrong)


def test_differences_are_those_of_the_command(command: Any, tmp_path: Path) -> None:
    one = ebbpool.compare(TRACE, ["lru", "cflru"], [50], 8)
    two = ebbpool.compare(TRACE, ["lru", "ebb"], [50], 8)
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(one.to_json())
    after.write_text(two.to_json())
    theirs = command("diff", str(before), str(after))
    ours = ebbpool.diff(before, after)
    assert json.loads(ours.to_json()) == theirs
    assert ours and not ebbpool.diff(one, before)
    assert ours.only_before == ebbpool.diff(one, two).only_before
    ours.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").exists() and repr(ours) == ours.sentence
    with pytest.raises(ebbpool.UsageError, match="before=: int is not a result"):
        ebbpool.diff(5, two)
    with pytest.raises(ebbpool.UsageError):
        ebbpool.diff(one, ebbpool.curve(TRACE, "lru", frames=[50]))


def test_a_replay_has_the_counts_of_a_simulation(tmp_path: Path) -> None:
    simulated = ebbpool.compare(TRACE, ["lru", "cflru"], [50], 8)
    replayed = ebbpool.replay(TRACE, ["lru", "cflru"], 50, asymmetry=8)
    for row, expected in zip(replayed, simulated):
        assert (row.policy, row.hits, row.writes, row.cost) == (expected.policy, expected.hits, expected.writes, expected.cost)
    file, record = tmp_path / "pool.pages", tmp_path / "fixed.parquet"
    on_file = ebbpool.replay(TRACE, "lru", 50, file, create=True, engine="threads", direct=False, record=record)
    assert on_file[0].writes == simulated[0].writes and "pages_read" in json.loads(on_file.to_json())[0]
    assert ebbpool.Trace(record).info().references == 30_000
    with pytest.raises(ebbpool.UsageError, match="engine=: 'fast'"):
        ebbpool.replay(TRACE, "lru", 50, engine="fast")


def test_experiments_are_those_of_the_command(command: Any, tmp_path: Path) -> None:
    theirs = command("reproduce", "cikm-table2", "--policy", "arc", "--out", str(tmp_path / "theirs"))
    out = tmp_path / "ours"
    ours = ebbpool.reproduce("cikm-table2", policies=["arc"], out=out)
    varying = ("seconds", "results_known", "results_computed")

    def stable(experiments: Any) -> Any:
        return [{name: value for name, value in one.items() if name not in varying} for one in experiments]

    assert stable(ours.experiments) == stable(theirs)
    assert {row.experiment for row in ours} == {"cikm-table2"} and (out / "index.html").exists()
    executor = Counting()
    elsewhere = ebbpool.reproduce("cikm-table2", policies=["arc"], executor=executor, cache=False)
    assert len(executor.tasks) == 1 and stable(elsewhere.experiments) == stable(theirs)
    assert [one["results_computed"] for one in elsewhere.experiments] == [0]
    assert elsewhere.out is None
    with pytest.raises(ebbpool.UsageError, match="'nope' is not an experiment"):
        ebbpool.reproduce("nope")
    assert ebbpool.experiments().columns == ["id", "title", "claim"]


def test_the_package_has_the_command() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "ebbpool", *arguments]
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)

    assert run("--version").stdout.startswith("ebbpool ")
    answer = run("compare", TRACE, "--policies", "lru", "--frames", "50", "--asymmetry", "8", "--format", "json")
    assert json.loads(answer.stdout) == json.loads(ebbpool.compare(TRACE, "lru", 50, 8).to_json())
    wrong = run("compare", "missing.parquet")
    assert wrong.returncode != 0 and wrong.stderr.startswith("ebbpool: error: missing.parquet: no such file")
    assert without_times({"seconds": 1, "a": 2}) == {"a": 2}

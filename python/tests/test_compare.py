"""`compare`, `run`, `curve` and `bound` against the command's JSON."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLE

import ebbpool


def test_checkpoints_are_those_of_the_command(command: Any) -> None:
    trace = "zipf:pages=1000,refs=20000,write=0.4"
    words = ["--policies", "lru,clock", "--frames", "50", "--asymmetry", "8", "--checkpoints", "3000,writes=500"]
    for function, name in ((ebbpool.compare, "compare"), (ebbpool.curve, "curve")):
        theirs = command(name, trace, *words)
        ours = function(trace, ["lru", "clock"], frames=50, asymmetry=8, checkpoints="3000,writes=500")
        assert without_times(json.loads(ours.to_json())) == without_times(theirs), name
        assert all(row.checkpoint_writes > 0 and row.checkpoints == "3000,writes=500" for row in ours)
    assert ebbpool.run(trace, "lru", 50, asymmetry=8, checkpoints=3000).result.checkpoints == "3000"
    with pytest.raises(ebbpool.UsageError, match="checkpoints=: '0'"):
        ebbpool.compare(trace, "lru", 50, 8, checkpoints=0)
    with pytest.raises(ebbpool.UsageError, match="has no times"):
        ebbpool.compare(trace, "lru", 50, 8, checkpoints="5min")


def without_times(result: Any) -> Any:
    """A result without the figures that vary from run to run."""
    if isinstance(result, list):
        return [without_times(one) for one in result]
    return {name: value for name, value in result.items() if name not in ("seconds", "references_per_second")}


def test_all_224_results_are_those_of_the_command(command: Any) -> None:
    theirs = command("compare", str(SAMPLE))
    ours = ebbpool.compare(str(SAMPLE))
    assert len(ours) == len(theirs) == 224
    assert json.loads(ours.to_json()) == theirs
    for row, their in zip(ours, theirs):
        assert dict(row) == {name: their.get(name) for name in row}


def test_options_are_those_of_the_command(command: Any) -> None:
    trace = "zipf:pages=3000,refs=30000,write=0.4"
    theirs = command(
        *("compare", trace, "--policies", "lru,cfdc:cluster=8,ebb", "--frames", "2%,100", "--asymmetry", "4,rm1"),
        *("--warmup", "10%", "--at-end", "free", "--cluster-size", "8", "--skip", "100", "--limit", "20000"),
    )
    ours = ebbpool.compare(
        ebbpool.Trace(trace, skip=100, limit=20000),
        ["lru", "cfdc:cluster=8", "ebb"],
        ["2%", 100],
        [4, "rm1"],
        warmup="10%",
        at_end="free",
        cluster_size=8,
    )
    assert json.loads(ours.to_json()) == theirs


def test_a_device_has_the_figures_of_the_command(command: Any) -> None:
    trace, device = "zipf:pages=2000,refs=30000,write=0.4", "flash:slc-mt29f4g08aaa,blocks=64"
    theirs = command("compare", trace, "--policies", "lru,cflru", "--frames", "5%", "--device", device)
    ours = ebbpool.compare(trace, "lru,cflru", "5%", device=device)
    assert ours.details == theirs
    assert "host_writes" in ours.details[0]


def test_the_bound_is_that_of_the_command(command: Any) -> None:
    trace = "zipf:pages=500,refs=3000"
    theirs = command("compare", trace, "--policies", "lru", "--frames", "10%", "--asymmetry", "8", "--bound")
    ours = ebbpool.compare(trace, "lru", "10%", 8, bound=True)
    assert json.loads(ours.to_json()) == theirs
    both = command("bound", trace, "--frames", "5%,10%", "--asymmetry", "8")
    assert without_times(json.loads(ebbpool.bound(trace, ["5%", "10%"], 8).to_json())) == without_times(both)
    one = command("bound", trace, "--frames", "50", "--asymmetry", "2", "--at-end", "free")
    assert without_times(json.loads(ebbpool.bound(trace, 50, 2, at_end="free").to_json())) == without_times(one)


def test_a_curve_is_that_of_the_command(command: Any) -> None:
    trace = "zipf:pages=1000,refs=20000"
    theirs = command("curve", trace, "--policies", "lru,cflru", "--target", "writes -20%", "--baseline", "cflru@10%")
    ours = ebbpool.curve(trace, ["lru", "cflru"], target="writes -20%", baseline="cflru@10%")
    assert json.loads(ours.to_json()) == theirs
    assert set(ours.smallest()) <= {"lru", "cflru"}
    theirs = command("curve", trace, "--policies", "lru", "--frames", "50,100", "--clean-pools", "100", "--sample", "50%")
    ours = ebbpool.curve(trace, "lru", frames=[50, 100], clean_pools=100, sample=0.5)
    assert json.loads(ours.to_json()) == theirs


def test_a_run_is_that_of_the_command(command: Any) -> None:
    trace = "zipf:pages=1000,refs=20000"
    theirs = command("run", trace, "--policy", "fd-buffer", "--frames", "5%", "--asymmetry", "8", "--warmup", "1000")
    ours = ebbpool.run(trace, "fd-buffer", "5%", asymmetry=8, warmup=1000, events=True, series=True)
    assert without_times(ours.details) == without_times(theirs)
    events = ours.events.to_dict()
    counted = sum(event == "write" and is_counted for event, is_counted in zip(events["event"], events["counted"]))
    # Pages that the warm-up left dirty are written, and not counted.
    assert counted == ours.result.writes + ours.result.dirty_before
    assert [row.reference for row in ours.series][:2] == [1000, 2000]


def test_several_traces_have_their_results_in_order() -> None:
    traces = ["zipf:pages=100,refs=2000", "uniform:pages=100,refs=2000"]
    both = ebbpool.compare(traces, "lru", 10, [1, 8])
    assert [(row.trace, row.asymmetry) for row in both] == [(trace, ratio) for trace in traces for ratio in (1, 8)]


def test_results_are_stored_and_found() -> None:
    trace = "zipf:pages=1000,refs=20000"
    first = ebbpool.compare(trace, "lru,cflru", [50, 100], 8)
    again = ebbpool.compare(trace, "lru,cflru", [50, 100], 8)
    assert first.notes == []
    assert again.notes == [f"{trace}: 4 of 4 results were computed before"]
    assert again.to_json() == first.to_json()
    mapping: dict[str, bytes] = {}
    ebbpool.compare(trace, "lru", 50, 8, cache=mapping)
    assert mapping and all(len(key) == 64 for key in mapping)
    assert ebbpool.compare(trace, "lru", 50, 8, cache=mapping).notes
    assert ebbpool.compare(trace, "lru", 50, 8, cache=False).notes == []


def test_a_command_finds_the_results_of_python(command: Any) -> None:
    import subprocess

    from conftest import built_program

    ebbpool.compare(str(SAMPLE), "lru", "3%", 8)
    words = [built_program(), "compare", str(SAMPLE), "--policies", "lru", "--frames", "3%", "--asymmetry", "8"]
    finished = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "1 of 1 results were computed before" in finished.stderr


def test_the_best_policy_over_cells_has_the_least_geometric_mean() -> None:
    answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "cflru", "ebb"], ["3%", "6%"], [1, 32])
    rows = answer.to_dict()
    products = {name: 1.0 for name in rows["policy"]}
    for name, cost in zip(rows["policy"], rows["cost"]):
        products[name] *= cost
    best = answer.best()
    assert best.policy == min(products, key=lambda name: products[name])
    assert best.cost == pytest.approx(products[best.policy] ** 0.25)
    assert answer.advice.startswith((f"{best.policy} is the cheapest in all 4", f"{best.policy} is the best choice over all 4"))
    cell = answer.best(frames="3%", asymmetry=32)
    same = [row for row in answer if row.frames == 60 and row.asymmetry == 32]
    assert cell.cost == min(row.cost for row in same)
    with pytest.raises(ebbpool.UsageError, match="frames=7"):
        answer.best(frames=7)


def test_sizes_of_as_many_frames_and_equal_prices_count_once() -> None:
    answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["sieve", "s3-fifo"], ["1%", 20, "20", "3%"], [1, 1])
    assert (answer.best().policy, answer.best().cells) == ("sieve", 2)
    assert "sieve is the best choice over all 2 sizes" in answer.advice


def test_a_policy_that_costs_nothing_in_a_cell_is_the_best() -> None:
    import numpy
    import random

    # After the warm-up s3-fifo needs no page that it has not got, with 7 frames.
    draw = random.Random(0)
    hot = list(range(draw.randint(3, 8)))
    warm = [draw.choice(hot) for _ in range(60)] + [100 + page for page in range(draw.randint(3, 20))]
    pages = warm + [draw.choice(hot) for _ in range(draw.randint(20, 60))]
    trace = (numpy.array(pages), numpy.array([draw.random() < 0.2 and page < 100 for page in pages]))
    policies = ["lru", "ebb", "s3-fifo"]
    answer = ebbpool.compare(trace, policies, [7, 2], 1, warmup=len(warm), at_end="free", cache=False)
    best = answer.best()
    assert (best.policy, best.cells, best.free_cells) == ("s3-fifo", 2, 1)
    assert "s3-fifo is the cheapest in all 2 sizes" in answer.advice and 0 <= best.above_least < 0.1
    two = ebbpool.compare(trace, ["lru", "ebb"], [7, 2], 1, warmup=len(warm), at_end="free", cache=False)
    assert two.best().free_cells == 0


def test_each_trace_counts_as_much_in_best_as_in_the_summary() -> None:
    traces = ["zipf:pages=2000,refs=20000", "zipf:pages=90,refs=3000"]
    answer = ebbpool.compare(traces, ["sieve", "lirs"], ["0.5%", "1%", "3%"], 1)
    assert answer.best().policy == answer.summary[0].policy == "lirs"
    assert answer.best().cells == answer.summary[0].cells == 5


def test_traces_of_one_name_remain_apart() -> None:
    import numpy

    numbers = numpy.arange(5000)
    traces = [(numbers * 7919 % 300, numbers % 3 == 0), (numbers * 31 % 200, numbers % 7 == 0)]
    answer = ebbpool.compare(traces, ["lru", "ebb"], [20, 50], [1, 8], cache=False)
    assert {row.trace for row in answer} == {"arrays"} and len(answer) == 16
    assert answer.best().cells == answer.summary[0].cells == 8
    assert answer._repr_html_().count("<table>") == 4
    for at in (0, 1):
        cell = answer.best(trace=at, frames=20, asymmetry=8)
        rows = [row for row in list(answer)[8 * at : 8 * at + 8] if (row.frames, row.asymmetry) == (20, 8)]
        assert cell.cost == min(row.cost for row in rows)
    assert answer.best(trace="arrays").cells == 8
    with pytest.raises(ebbpool.UsageError, match="trace=2"):
        answer.best(trace=2)


def test_asymmetries_that_change_remain_apart() -> None:
    answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "ebb"], ["3%", "6%"], ["rm1", "rm2", 32])
    assert answer.to_dict()["asymmetry_changes"] == ["rm1"] * 4 + ["rm2"] * 4 + [None] * 4
    assert answer.best().cells == 6 and "all 6 sizes" in answer.advice
    assert answer.best(asymmetry=32).cells == answer.best(asymmetry="rm1").cells == 2
    assert answer.best(asymmetry="rm1", frames="3%").asymmetry_changes == "rm1"
    assert answer.best(asymmetry="32", frames="3%").asymmetry_changes is None
    heads = answer._repr_html_()
    assert heads.count("<table>") == 3 and all(f"R = {label}<" in heads for label in ("rm1", "rm2", "32"))


def test_best_takes_every_spelling_of_a_size_in_every_trace() -> None:
    traces = ["zipf:pages=2000,refs=20000", "zipf:pages=1000,refs=20000,write=0.9"]
    answer = ebbpool.compare(traces, ["lru", "ebb"], ["3.0%", 128], 8)
    assert answer.best(frames="3%").cells == answer.best(frames="128").cells == answer.best(frames=128).cells == 2
    for trace, frames in zip(traces, (60, 30)):
        row = answer.best(frames="3%", trace=trace, asymmetry="8")
        assert (row.trace, row.frames) == (trace, frames)
    with pytest.raises(ebbpool.UsageError, match="frames=: 'x%'"):
        answer.best(frames="x%")


def test_a_notebook_has_the_unit_of_a_device() -> None:
    answer = ebbpool.compare("zipf:pages=1000,refs=5000", ["lru"], [30], device="flash-136")
    unit = answer.best().cost_us / answer.best().cost
    page = answer._repr_html_()
    assert "time per reference in µs" in page and "page reads" not in page
    assert f"{unit * answer.best().cost:.4f}" in page


def test_a_request_without_sizes_or_asymmetries_is_refused() -> None:
    trace = "zipf:pages=100,refs=1000"
    for frames in ([], ()):
        with pytest.raises(ebbpool.UsageError, match="no memory size is named; name some with frames="):
            ebbpool.compare(trace, "lru", frames, 8)
        with pytest.raises(ebbpool.UsageError, match="no memory size is named"):
            ebbpool.bound(trace, frames, 8)
    with pytest.raises(ebbpool.UsageError, match="no asymmetry is named"):
        ebbpool.bound(trace, [10], [])
    with pytest.raises(ebbpool.UsageError, match="0 to 1e15"):
        ebbpool.compare(trace, "lru", 10, 1e308)


def test_tables_for_a_text_are_those_of_the_command(tmp_path: Path) -> None:
    answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "ebb"], ["3%"], [8, 32])
    for said in (answer, pickle.loads(pickle.dumps(answer))):
        latex = said.to_latex()
        assert latex.count(r"\begin{table}") == latex.count(r"\label{tab:") == latex.count(r"\centering") == 2
        outside = [line for line in latex.split(r"\end{table}")[-1].splitlines() if line]
        assert outside and all(line.startswith("% ") for line in outside)
        assert said.to_markdown().count("| :--- |") == 2
        said.figure(tmp_path / "bills.svg")
        picture = (tmp_path / "bills.svg").read_text()
        assert picture.startswith("<svg ") and picture.count("bill per reference, in page reads") == 2


def test_a_policy_that_knows_the_future_is_the_best_only_among_its_like() -> None:
    trace = "zipf:pages=2000,refs=20000"
    answer = ebbpool.compare(trace, ["belady", "lru", "ebb"], ["3%", "6%"], [1, 32])
    assert answer.best(asymmetry=1, frames="3%").policy == answer.best(asymmetry=1).policy == answer.best().policy == "ebb"
    assert "ebb is the cheapest in all 4 sizes and asymmetries" in answer.advice and answer.best().above_least == 0
    alone = ebbpool.compare(trace, ["belady", "cost-belady"], ["3%"], 32)
    assert alone.best().cost == min(row.cost for row in alone)
    # A policy of the caller knows nothing of the future.
    answer = ebbpool.compare(trace, [Queue, "cost-belady"], ["3%"], 32)
    assert answer.best().policy == "Queue"


class Queue:
    """Evicts the page that came first."""

    def __init__(self, frames: int) -> None:
        self.queue: dict[int, None] = {}

    def hit(self, frame: int, write: bool) -> None:
        pass

    def victim(self) -> int:
        return next(iter(self.queue))

    def admit(self, frame: int, page: int, write: bool) -> None:
        self.queue[frame] = None

    def evicted(self, frame: int) -> None:
        del self.queue[frame]


def test_the_bill_of_a_run_whose_device_failed_is_not_shown(tmp_path: Any) -> None:
    chip = tmp_path / "weak.toml"
    chip.write_text(
        'name = "weak"\npage_bytes = 2048\npages_per_block = 16\nblocks = 64\nread_us = [25.0]\nprogram_us = [220.0]\n'
        'erase_us = 1500.0\ntransfer_ns_per_byte = 25.0\nendurance = 60\nsource = "made to wear out"\n'
    )
    policies = ["lru", "cflru:window=1"]
    answer = ebbpool.compare("zipf:pages=600,refs=120000,write=0.5", policies, ["5%"], device=f"flash:{chip}", cache=False)
    by_policy = {row.policy: row for row in answer}
    assert "device failed" in by_policy["lru"].failed and by_policy["cflru:window=1"].failed is None
    html = answer._repr_html_()
    assert ">failed</td>" in html and f"{by_policy['lru'].cost:.4f}" not in html
    assert f"{by_policy['cflru:window=1'].cost_us:.2f} µs per reference" in html
    alone = ebbpool.compare("zipf:pages=600,refs=120000,write=0.5", "lru", ["5%"], device=f"flash:{chip}", cache=False)
    assert ">failed</td>" in alone._repr_html_()


def test_a_comparison_is_shown(tmp_path: Any) -> None:
    answer = ebbpool.compare("zipf:pages=2000,refs=20000", ["lru", "ebb"], ["3%", "6%"], [1, 32], report=True)
    assert "saving against lru" in repr(answer)
    html = answer._repr_html_()
    assert html.count("<table>") == 2 and "ebb" in html and "<script" not in html
    page = tmp_path / "report.html"
    answer.report(page)
    assert "<!DOCTYPE html>" in page.read_text() and "Ebbpool report" in page.read_text()
    frame = answer.show()._repr_html_()
    assert frame.startswith("<iframe") and "srcdoc=" in frame


def test_progress_reaches_the_end() -> None:
    seen: list[float] = []
    ebbpool.compare("zipf:pages=20000,refs=1000000", ["lru", "ebb"], "5%", 8, progress=seen.append, cache=False)
    assert seen[-1] == 1.0 and all(0 <= share <= 1 for share in seen)


def test_a_catalogue_has_policies_devices_and_generators(command: Any) -> None:
    names = ebbpool.policies().to_dict()["policy"]
    assert {"lru", "ebb", "cflru", "belady"} <= set(names)
    cfdc = ebbpool.policy("cfdc:cluster=16")
    assert {one["name"]: one["value"] for one in cfdc.parameters}["cluster"] == "16"
    devices = command("devices")
    assert json.loads(ebbpool.devices().to_json()) == devices
    assert dict(ebbpool.device("flash-136")) == command("devices", "flash-136")
    assert "zipf" in ebbpool.generators().to_dict()["generator"]


def test_an_argument_that_is_no_text_is_named() -> None:
    trace, wrong = "zipf:pages=100,refs=1000", 5
    calls: dict[str, Any] = {
        "device": lambda: ebbpool.compare(trace, "lru", 10, device=wrong),
        "at_end": lambda: ebbpool.compare(trace, "lru", 10, 8, at_end=wrong),
        "target": lambda: ebbpool.curve(trace, "lru", target=wrong),
        "baseline": lambda: ebbpool.curve(trace, "lru", baseline=wrong),
        "now": lambda: ebbpool.advise(trace, now=wrong),
        "engine": lambda: ebbpool.replay(trace, "lru", 10, engine=wrong),
    }
    for name, call in calls.items():
        with pytest.raises(ebbpool.UsageError, match=f"{name}=: 5 is not a text"):
            call()


def test_a_rate_is_for_a_device() -> None:
    for call in (ebbpool.compare, ebbpool.run):
        with pytest.raises(ebbpool.UsageError, match="references arrive at a rate only where a device .* rate= with device="):
            call("zipf:pages=100,refs=1000", "lru", 10, asymmetry=8, rate=1000)


def test_a_file_has_the_name_of_its_kind(tmp_path: Path) -> None:
    answer = ebbpool.compare("zipf:pages=100,refs=1000", ["lru"], [10], 8)
    for wrong in [lambda: answer.figure(tmp_path / "f.pdf"), lambda: answer.report(tmp_path / "f.svg")]:
        with pytest.raises(ebbpool.UsageError, match="another format"):
            wrong()
    answer.figure(tmp_path / "f.svg")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["f.svg"]


def test_the_answer_over_several_traces_names_them_and_has_one_over_all(command: Any) -> None:
    traces = ["zipf:pages=300,refs=5000,write=0.4", "uniform:pages=300,refs=5000"]
    answer = ebbpool.compare(traces, ["lru", "ebb"], [30], 8)
    lines = answer.advice.splitlines()
    assert lines[0].startswith("zipf") and lines[-1].startswith(("ebb is ", "lru is "))
    assert lines[-1] in str(answer)
    assert pickle.loads(pickle.dumps(answer)).advice == answer.advice

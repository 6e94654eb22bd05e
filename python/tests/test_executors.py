"""Work on executors gives the results of one process, whatever happens to workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from policies import Lru

import ebbpool
from ebbpool._executor import Answer, bins, number_of_tasks

TRACE = "zipf:pages=2000,refs=60000,write=0.4"
QUESTION: Any = (TRACE, ["lru", "cflru", "ebb", "belady", "cfdc"], ["1%", "3%", 100], [1, 32])


@pytest.fixture(scope="module")
def expected() -> str:
    return ebbpool.compare(*QUESTION, cache=False).to_json()


class Counting(Executor):
    """An executor in this process that counts tasks, and fails from the third on if it has an error."""

    _max_workers = 2

    def __init__(self, fail: Any = None) -> None:
        self.tasks: list[Any] = []
        self.fail = fail

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.tasks.append(arguments)
        future: Future[Any] = Future()
        try:
            if self.fail is not None and len(self.tasks) > 2:
                raise self.fail
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_give_the_same_results(method: str, expected: str) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert ebbpool.compare(*QUESTION, cache=False, executor=pool).to_json() == expected


def test_a_policy_with_the_name_of_another_is_refused_before_a_worker_has_a_task() -> None:
    same = ["lru,cflru", type("cflru", (Lru,), {"name": "cflru"})]
    executor = Counting()
    calls: list[Any] = [
        lambda: ebbpool.compare(TRACE, same, 50, 8, executor=executor),
        lambda: ebbpool.curve(TRACE, same, frames=[50], executor=executor),
        lambda: ebbpool.reproduce("cikm-table2", policies=same, executor=executor),
    ]
    for call in calls:
        with pytest.raises(ebbpool.UsageError, match="'cflru' is the name of a built-in policy"):
            call()
    assert executor.tasks == []


def test_threads_give_the_same_results(expected: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert ebbpool.compare(*QUESTION, cache=False, executor=pool).to_json() == expected


def test_workers_do_all_work_and_the_client_finds_it(expected: str) -> None:
    executor = Counting()
    store: dict[str, bytes] = {}
    answer = ebbpool.compare(*QUESTION, cache=store, executor=executor)
    assert answer.to_json() == expected
    assert 2 <= len(executor.tasks) <= 16
    # Each cell is stored, and the client has computed none of them again.
    assert answer.notes == [f"{TRACE}: 30 of 30 results were computed before"]
    again = Counting()
    assert ebbpool.compare(*QUESTION, cache=store, executor=again).to_json() == expected
    assert again.tasks == []


def test_only_missing_results_are_computed(expected: str) -> None:
    store: dict[str, bytes] = {}
    trace, policies, frames, asymmetry = QUESTION
    ebbpool.compare(trace, ["ebb", "belady"], frames, asymmetry, cache=store)
    executor = Counting()
    assert ebbpool.compare(*QUESTION, cache=store, executor=executor).to_json() == expected
    computed = {policy for _, _, task, _, _ in executor.tasks for policy in task.arguments[0]["policies"]}
    assert computed == {"lru", "cflru", "cfdc"}


def test_tasks_are_as_many_as_their_cost_allows() -> None:
    assert number_of_tasks(8, 2) == 2
    assert number_of_tasks(40, 2) == 5
    assert number_of_tasks(1000, 2) == 8
    groups = bins([("a", 5.0), ("b", 1.0), ("c", 1.0), ("d", 3.0)], 2)
    assert sorted(cost for _, cost in groups) == [5.0, 5.0]


def test_an_interrupted_sweep_continues(expected: str) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(ebbpool.Interrupted, match="workers were lost") as raised:
        ebbpool.compare(*QUESTION, cache=store, executor=Counting(fail=RuntimeError("no such node")))
    assert raised.value.done == 2 and raised.value.all > 2
    executor = Counting()
    assert ebbpool.compare(*QUESTION, cache=store, executor=executor).to_json() == expected
    assert len(executor.tasks) < raised.value.all


def _die(*arguments: Any) -> Answer:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class Fatal(ProcessPoolExecutor):
    """Processes of which the second task kills one."""

    submitted = 0

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(_die if self.submitted == 2 else function, *arguments, **named)


def test_a_killed_process_is_reported_and_the_same_call_continues(expected: str) -> None:
    store: dict[str, bytes] = {}
    with Fatal(1, mp_context=multiprocessing.get_context("fork")) as pool:
        with pytest.raises(ebbpool.Interrupted, match="workers were lost"):
            ebbpool.compare(*QUESTION, cache=store, executor=pool)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        assert ebbpool.compare(*QUESTION, cache=store, executor=pool).to_json() == expected


def test_a_worker_with_another_build_or_trace_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ebbpool import _executor

    class Elsewhere(Counting):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            return super().submit(function, *arguments[:-1], "another build", **named)

    with pytest.raises(ebbpool.Interrupted, match="a worker has ebbpool .* and the client has another build"):
        ebbpool.compare(*QUESTION, cache=False, executor=Elsewhere())

    class OtherTrace(Counting):
        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
            other = ebbpool.Trace("zipf:pages=10,refs=100")
            return super().submit(function, other, *arguments[1:], **named)

    monkeypatch.setattr(_executor, "_opened", type(_executor._opened)())
    with pytest.raises(ebbpool.Interrupted, match="another trace of this name"):
        ebbpool.compare("zipf:pages=11,refs=3000", "lru", 2, 8, cache=False, executor=OtherTrace())


def test_curves_and_bounds_on_workers() -> None:
    curve: dict[str, Any] = {"target": "writes -20%", "baseline": "lru@5%"}
    expected = ebbpool.curve(TRACE, ["lru", "cflru", "ebb"], cache=False, **curve).to_json()
    executor = Counting()
    assert ebbpool.curve(TRACE, ["lru", "cflru", "ebb"], cache=False, executor=executor, **curve).to_json() == expected
    assert len(executor.tasks) >= 3
    small = "zipf:pages=500,refs=3000"
    columns = ["frames", "asymmetry", "lower_bound", "heuristic", "gap"]
    expected_bound = ebbpool.bound(small, [25, 50], [1, 8], cache=False)
    executor = Counting()
    found = ebbpool.bound(small, [25, 50], [1, 8], cache=False, executor=executor)
    assert len(executor.tasks) == 4
    assert [[row[name] for name in columns] for row in found] == [[row[name] for name in columns] for row in expected_bound]
    executor = Counting()
    ours = ebbpool.compare(small, "lru", [25, 50], [1, 8], bound=True, cache=False, executor=executor)
    assert ours.to_json() == ebbpool.compare(small, "lru", [25, 50], [1, 8], bound=True, cache=False).to_json()


def test_traces_in_memory_go_to_workers() -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"page": [number * 7 % 300 for number in range(5000)], "write": [True, False] * 2500})
    question: Any = (["lru", "cflru"], [10, 20], 8)
    expected = ebbpool.compare(table, *question, cache=False).to_json()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert ebbpool.compare(table, *question, cache=False, executor=pool).to_json() == expected
    large = polars.DataFrame({"page": polars.int_range(5_000_000, eager=True).hash(), "write": polars.repeat(False, 5_000_000, eager=True)})
    with ProcessPoolExecutor(1) as pool, pytest.raises(ebbpool.UsageError, match="executor=: the trace has 3[0-9] MiB"):
        ebbpool.compare(large, *question, cache=False, executor=pool)
    with pytest.raises(ebbpool.UsageError, match="executor=.*needs Trace"):
        ebbpool.compare(lambda: table, *question, cache=False, executor=Counting())


def test_a_policy_in_python_runs_beside_work_elsewhere() -> None:
    answer = ebbpool.compare(TRACE, ["lru", Lru], [50], 8, cache=False, executor=Counting())
    lru, mine = answer
    assert (mine.policy, mine.reads, mine.writes) == ("python-lru", lru.reads, lru.writes)
    executor = Counting()
    study = ebbpool.curve(TRACE, ["cflru", Lru], frames=[50], cache=False, executor=executor)
    assert len(executor.tasks) == 2 and [row.policy for row in study] == ["cflru", "python-lru"]
    executor = Counting()
    assert len(ebbpool.curve(TRACE, Lru, frames=[50], cache=False, executor=executor)) == 1 and executor.tasks == []
    claims = ebbpool.reproduce("cikm-table2", policies=["arc", Lru], executor=executor, cache=False)
    assert "python-lru" in {point["policy"] for point in claims.experiments[0]["points"]}


def test_wrong_executors_are_refused() -> None:
    with pytest.raises(ebbpool.UsageError, match="executor=: int computes nothing"):
        ebbpool.compare(*QUESTION, executor=5)
    with pytest.raises(ebbpool.UsageError, match="cache=: int is not a place"):
        ebbpool.compare(*QUESTION, cache=5)  # type: ignore[arg-type]


def test_a_dask_cluster_gives_the_same_results_also_if_a_worker_is_killed(expected: str) -> None:
    distributed = pytest.importorskip("distributed")
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert ebbpool.compare(*QUESTION, cache=False, executor=client).to_json() == expected
        processes = list(client.run(os.getpid).values())
        question: Any = ("zipf:pages=20000,refs=600000", ["lru", "cflru", "ebb", "cfdc", "lirs", "arc"], ["1%", "3%"], [1, 32])
        killed: list[int] = []

        def kill(share: float) -> None:
            if not killed:
                killed.append(processes[0])
                os.kill(processes[0], signal.SIGKILL)

        found = ebbpool.compare(*question, cache=False, executor=client, progress=kill)
        assert killed
        assert found.to_json() == ebbpool.compare(*question, cache=False).to_json()
        words = ["compare", TRACE, "--policies", "lru,ebb", "--frames", "3%", "--asymmetry", "8", "--limit", "5000"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        shell = [sys.executable, "-m", "ebbpool", *words, "--dask", cluster.scheduler_address, "--format", "json"]
        finished = subprocess.run(shell, capture_output=True, text=True, env=environment, check=False)
        assert finished.returncode == 0, finished.stderr
        assert "2 of 2 results were computed before" in finished.stderr
        same = ebbpool.compare(ebbpool.Trace(TRACE, limit=5000), "lru,ebb", "3%", 8, cache=False)
        assert finished.stdout == same.to_json()
        # Several traces as one, and nothing of what is stored.
        words[2:2] = ["zipf:pages=50,refs=900", "--concat", "--no-cache", "--frames", "20"]
        for where in (["--dask", cluster.scheduler_address], []):
            shell = [sys.executable, "-m", "ebbpool", *words, *where, "--format", "json"]
            finished = subprocess.run(shell, capture_output=True, text=True, env=environment, check=False)
            assert finished.returncode == 0, finished.stderr
            assert ("4 of 4 results were computed before" in finished.stderr) == bool(where)
            same_again = finished.stdout if where else same_again
            assert finished.stdout == same_again


def test_ray_gives_the_same_results(expected: str) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert ebbpool.compare(*QUESTION, cache=False, executor=ray).to_json() == expected
    finally:
        ray.shutdown()


MPI_SCRIPT = """
import ebbpool
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        answer = ebbpool.compare("zipf:pages=2000,refs=60000,write=0.4", ["lru", "ebb"], ["1%", "3%"], [1, 32], cache=False, executor=pool)
    alone = ebbpool.compare("zipf:pages=2000,refs=60000,write=0.4", ["lru", "ebb"], ["1%", "3%"], [1, 32], cache=False)
    assert answer.to_json() == alone.to_json()
    print("same results")
"""


def test_mpi_gives_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("mpiexec is missing")
    script = tmp_path / "sweep.py"
    script.write_text(MPI_SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    words = [str(mpiexec), "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    finished = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert finished.stdout.strip() == "same results", finished.stderr

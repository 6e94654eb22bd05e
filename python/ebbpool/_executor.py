"""Work on an executor: a `concurrent.futures.Executor`, a Dask `Client`, or the module `ray`.

A worker answers a part of the question with a store that records, and sends what it has stored. The client puts that into
its own store and answers the whole question, for which it finds everything. So a result never depends on who computed it,
an interrupted question continues where it was, and a lost worker costs the tasks that it had.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from . import _ebbpool
from ._errors import EbbpoolError, Interrupted, UsageError
from ._store import Layered, Recording, ResultStore
from ._trace import Trace, _Parts, _Sampled, _Stored, _is_function, everywhere

#: The time of a simulation in that of lru (docs/performance.md), where it is more than twice that.
DEAR = {
    "auto": 7.6,
    "fd-buffer": 4.9,
    "cflru-e": 4.7,
    "ebb": 4.5,
    "dl-cflru-e": 4.0,
    "lrfu": 4.0,
    "belady": 2.8,
    "lru-k": 2.7,
    "dulo": 2.7,
    "ref": 2.6,
    "w-tinylfu": 2.4,
    "lirs-wsr": 2.4,
    "cfdc": 2.3,
    "fab": 2.2,
    "bplru": 2.2,
    "cflru-c": 2.1,
    "lirs": 2.0,
}
#: The time of another simulation in that of lru.
PLAIN = 1.4
#: The time of reading a trace in that of a simulation of lru.
READING = 1.0
#: The share of a task that reading the trace may take: one over this.
READING_PART = 8
#: The most tasks per worker.
TASKS_PER_WORKER = 4
#: The largest trace in memory, in bytes, that goes along with every task.
MOST_BYTES = 32 << 20

Show = Callable[[float], None] | None


@dataclass(frozen=True)
class Task:
    """A part of a question: the number of its trace, the function of the native half, its arguments, and its cost in
    simulations of lru. A question about experiments has no trace."""

    trace: int
    function: str
    arguments: tuple[Any, ...]
    cost: float


@dataclass(frozen=True)
class Answer:
    """What a worker sends: the new values of its store, or why it refuses."""

    stored: dict[str, bytes]
    refused: str | None = None


_opened: OrderedDict[bytes, Trace] = OrderedDict()
_lock = threading.Lock()


def work(trace: Trace | None, key: bytes, task: Task, known: dict[str, bytes], build: str) -> Answer:
    """What a worker does. A refusal is an answer: an engine that tries a failed task again would try in vain."""
    if build != _ebbpool.build_identity():
        ours = _ebbpool.build_identity()
        return Answer({}, f"a worker has ebbpool {ours}, and the client has {build}; install the same on both")
    try:
        store = Recording(known)
        results = _ebbpool.Results.mapping(store)
        if trace is None:
            run_experiments(task, results)
            return Answer(store.new)
        opened = opened_once(trace, key)
        if opened is None:
            return Answer({}, f"{trace.name}: a worker has another trace of this name; have the same file on all workers")
        run_task(opened, task, results.of_trace(key))
        return Answer(store.new)
    except (EbbpoolError, OSError) as error:
        return Answer({}, str(error))


def opened_once(trace: Trace, key: bytes) -> Trace | None:
    """The trace, of which each process computes the key once; None if its key is another one."""
    with _lock:
        opened = _opened.get(key)
    if opened is not None:
        return opened
    if trace.key() != key:
        return None
    with _lock:
        _opened[key] = trace
        while len(_opened) > 4:
            _opened.popitem(last=False)
    return trace


def run_experiments(task: Task, results: _ebbpool.Results) -> None:
    """Runs experiments for their stored results; the client writes the report."""
    names, full, policies = task.arguments
    with tempfile.TemporaryDirectory() as out:
        _ebbpool.reproduce((names, full, policies, out), results, threads=1, progress=None)


def run_task(trace: Trace, task: Task, results: _ebbpool.Results) -> None:
    """Computes what a task asks for."""
    function: Any = getattr(_ebbpool, task.function)
    subject: Any = [trace._native] if task.function == "compare" else trace._native
    function(subject, *task.arguments, results, threads=1, progress=None)


class _Futures:
    """Any `concurrent.futures.Executor`."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        workers = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None)
        self.workers = int(workers or os.cpu_count() or 1)

    def share(self, trace: Trace) -> Any:
        size = bytes_in_memory(trace)
        if size > MOST_BYTES and not isinstance(self.executor, ThreadPoolExecutor):
            raise UsageError(
                f"executor=: the trace has {size >> 20} MiB in memory, which would go along with every task; write it to a file "
                "that all workers can read, with Trace.write, and name that"
            )
        return trace

    def submit(self, *arguments: Any) -> Future[Answer]:
        return self.executor.submit(work, *arguments)


class _Dask(_Futures):
    """A `dask.distributed.Client`: references in memory are scattered, and tasks of lost workers run again."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.executor = client.get_executor(pure=False)
        self.workers = sum(client.ncores().values()) or 1

    def share(self, trace: Trace) -> Any:
        return self.client.scatter(trace, hash=False) if bytes_in_memory(trace) > 1 << 20 else trace


class _Ray(_Futures):
    """The module `ray`: references in memory are put once, and tasks of lost workers run again."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.remote = ray.remote(max_retries=3, num_cpus=1)(work)
        self.workers = int(ray.cluster_resources().get("CPU", 1))

    def share(self, trace: Trace) -> Any:
        return self.ray.put(trace) if bytes_in_memory(trace) > 1 << 20 else trace

    def submit(self, *arguments: Any) -> Future[Answer]:
        future: Future[Answer] = self.remote.remote(*arguments).future()
        return future


def engine_of(executor: Any) -> _Futures:
    """The engine that the argument `executor` names."""
    if hasattr(executor, "get_executor") and hasattr(executor, "scatter"):
        return _Dask(executor)
    if getattr(executor, "__name__", "") == "ray":
        return _Ray(executor)
    if hasattr(executor, "submit"):
        return _Futures(executor)
    raise UsageError(
        f"executor=: {type(executor).__name__} computes nothing; give a concurrent.futures.Executor, a dask.distributed.Client "
        "or the module ray"
    )


def bytes_in_memory(trace: Trace) -> int:
    """Bytes of the files in memory that a trace from `everywhere` takes along."""
    source = trace._source
    if isinstance(source, _Parts):
        return sum(bytes_in_memory(part) for part in source.parts)
    if isinstance(source, _Sampled):
        return bytes_in_memory(source.whole)
    return len(source.content) if isinstance(source, _Stored) else 0


def key_of(trace: Trace) -> bytes:
    """The key of a trace, which work elsewhere needs."""
    if _is_function(trace._source) and trace._options.get("key") is None:
        raise UsageError("executor=: a trace that a function streams needs Trace(…, key=), by which workers know it")
    return trace.key()


def run_tasks(
    executor: Any, traces: Sequence[Trace], keys: Sequence[bytes], tasks: list[Task], store: Layered, show: Show
) -> None:
    """Has the tasks done, the dearest first, and stores what comes back."""
    if not tasks:
        return
    engine = engine_of(executor)
    shared: list[Any] = [engine.share(everywhere(trace)) for trace in traces] or [None]
    build = _ebbpool.build_identity()
    total = sum(task.cost for task in tasks)
    done, finished_tasks = 0.0, 0
    lost: BaseException | None = None
    waiting: dict[Future[Answer], Task] = {}
    try:
        known = dict(store.values_here)
        for task in sorted(tasks, key=lambda task: -task.cost):
            key = keys[task.trace] if keys else b""
            waiting[engine.submit(shared[task.trace], key, task, known, build)] = task
        while waiting and not isinstance(lost, BrokenExecutor):
            finished, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in finished:
                task = waiting.pop(future)
                try:
                    answer = future.result()
                except Exception as error:  # What the engine raises for a lost worker.
                    lost = error
                    continue
                if answer.refused is not None:
                    raise Interrupted(answer.refused, finished_tasks, len(tasks))
                store.update(answer.stored)
                finished_tasks += 1
                done += task.cost
                if show is not None:
                    show(min(done / total, 0.999))
    except BrokenExecutor as error:
        lost = error
    finally:
        for future in waiting:
            future.cancel()
    if lost is not None:
        text = f"workers were lost ({lost!r}); finished results are stored, and the same call continues"
        raise Interrupted(text, finished_tasks, len(tasks)) from lost


def weight(policy: str) -> float:
    """The time of a simulation with this policy in that of lru."""
    return DEAR.get(policy.partition(":")[0], PLAIN)


def bins(items: list[tuple[Any, float]], number: int) -> list[tuple[list[Any], float]]:
    """The items in at most so large a number of groups of about the same cost, the dearest placed first."""
    groups: list[tuple[list[Any], float]] = [([], 0.0) for _ in range(max(1, min(number, len(items))))]
    for item, cost in sorted(items, key=lambda item: -item[1]):
        at = min(range(len(groups)), key=lambda at: groups[at][1])
        groups[at] = ([*groups[at][0], item], groups[at][1] + cost)
    return [group for group in groups if group[0]]


def number_of_tasks(total: float, workers: int) -> int:
    """Tasks so large that reading the trace is at most an eighth, but at least one per worker and at most four."""
    by_reading = int(total / (READING_PART * READING))
    return max(workers, min(by_reading, TASKS_PER_WORKER * workers))


def grid_tasks(trace: int, request: dict[str, Any], missing: set[tuple[str, int]], workers: int) -> list[Task]:
    """The tasks of a comparison for the pairs of policy and number of a size that are missing."""
    names = [policy for policy in request["policies"] or [] if isinstance(policy, str)]
    if request["policies"] and not names:
        return []
    prices = max(1, len(request["asymmetry"]))
    described = _ebbpool.canonical_policies(names)
    tasks: list[Task] = []
    for online in (True, False):
        # Offline policies read the trace twice, and so stay among themselves.
        costs: dict[tuple[str, int], float] = {}
        for policy, is_online, looks_at_costs in described:
            if is_online == online:
                cost = weight(policy) * (prices if looks_at_costs else 1)
                costs.update({(policy, size): cost for (name, size) in missing if name == policy})
        total = sum(costs.values())
        if not costs:
            continue
        number = number_of_tasks(total, workers)
        by_policy: dict[str, list[int]] = {}
        for policy, size in costs:
            by_policy.setdefault(policy, []).append(size)
        # A policy that would take too long for one task is divided by sizes.
        parts: list[tuple[tuple[str, tuple[int, ...]], float]] = []
        for policy, found in by_policy.items():
            cost = sum(costs[policy, size] for size in found)
            division = min(len(found), max(1, round(cost * number / total)))
            for part in range(division):
                some = tuple(sorted(found)[part::division])
                parts.append(((policy, some), sum(costs[policy, size] for size in some)))
        by_sizes: dict[tuple[int, ...], list[tuple[Any, float]]] = {}
        for (policy, some), cost in parts:
            by_sizes.setdefault(some, []).append((policy, cost))
        for some, policies in by_sizes.items():
            share = sum(cost for _, cost in policies) / total
            for group, cost in bins(policies, max(1, round(share * number))):
                part_request = {
                    **request,
                    "policies": group,
                    "frames": [request["frames"][size] for size in some],
                    "bound": False,
                    "report": False,
                }
                tasks.append(Task(trace, "compare", (part_request,), cost + READING))
    return tasks


def missing_cells(trace: Trace, key: bytes, request: dict[str, Any], results: Any) -> set[tuple[str, int]]:
    """The pairs of policy and number of a size of which a result is not stored."""
    names = [policy for policy in request["policies"] or [] if isinstance(policy, str)]
    if request["policies"] and not names:
        return set()
    policies = [policy for policy, _, _ in _ebbpool.canonical_policies(names)]
    asked = {**request, "policies": names or None, "bound": False, "report": False}
    found = _ebbpool.compare([trace._native], asked, results.of_trace(key), threads=1, progress=None, stored=True)
    everything = {(policy, size) for policy in policies for size in range(len(request["frames"]))}
    answers = found.answers()
    if not answers:
        return everything
    ((_, _, sizes),) = answers
    table = found.table().to_dict()
    counted: dict[tuple[str, int], int] = {}
    for policy, frames in zip(table["policy"], table["frames"]):
        counted[policy, frames] = counted.get((policy, frames), 0) + 1
    prices = max(1, len(request["asymmetry"]))
    frames_of = [frames for _, frames in sizes]

    def is_complete(policy: str, size: int) -> bool:
        same = frames_of.count(frames_of[size])
        return counted.get((policy, frames_of[size]), 0) >= prices * same

    return {cell for cell in everything if not is_complete(*cell)}


def compare_with(
    executor: Any,
    traces: list[Trace],
    request: dict[str, Any],
    results: ResultStore,
    threads: int | None,
    show: Show,
) -> _ebbpool.Comparison:
    """A comparison of which workers have done the parts. Policies that are not names run here."""
    _ebbpool.check_policies(request["policies"])
    engine = engine_of(executor)
    store = Layered(results)
    here = _ebbpool.Results.mapping(store)
    keys = [key_of(trace) for trace in traces]
    tasks: list[Task] = []
    for at, (trace, key) in enumerate(zip(traces, keys)):
        missing = missing_cells(trace, key, request, here)
        tasks += grid_tasks(at, request, missing, engine.workers)
        if request["bound"] and request["counting"]["warmup"] == "0":
            at_end = request["counting"]["at_end"]
            tasks += bound_tasks(at, trace, key, (request["frames"], request["asymmetry"], at_end), here)
    run_tasks(executor, traces, keys, tasks, store, show)
    if len(traces) == 1:
        here = here.of_trace(keys[0])
    return _ebbpool.compare([trace._native for trace in traces], request, here, threads=threads, progress=show)


def bound_tasks(at: int, trace: Trace, key: bytes, arguments: tuple[Any, ...], here: Any) -> list[Task]:
    """A task for each asymmetry and size whose bound is not stored."""
    frames, asymmetries, at_end = arguments
    tasks = []
    for asymmetry in asymmetries:
        for size in frames:
            sizes, ratios = [size], [asymmetry]
            stored = here.of_trace(key)
            found = _ebbpool.bound(trace._native, sizes, ratios, at_end, stored, threads=1, progress=None, stored=True)
            if found is None:
                # A bound takes some hundred times as long as lru.
                tasks.append(Task(at, "bound", (sizes, ratios, at_end), 100.0))
    return tasks


def bound_with(
    executor: Any, trace: Trace, arguments: tuple[Any, ...], results: ResultStore, threads: int | None, show: Show
) -> tuple[_ebbpool.Table, str, list[str]]:
    """Bounds of which workers have computed each."""
    store = Layered(results)
    here = _ebbpool.Results.mapping(store)
    key = key_of(trace)
    run_tasks(executor, [trace], [key], bound_tasks(0, trace, key, arguments, here), store, show)
    frames, asymmetries, at_end = arguments
    stored = here.of_trace(key)
    answer = _ebbpool.bound(trace._native, frames, asymmetries, at_end, stored, threads=threads, progress=show)
    assert answer is not None, "only stored=True has no answer"
    return answer


def curve_with(
    executor: Any, trace: Trace, request: dict[str, Any], results: ResultStore, threads: int | None, show: Show
) -> _ebbpool.Curve:
    """Curves of which workers have done the policies. All need LRU at every size, which is a task of its own before."""
    _ebbpool.check_policies(request["policies"])
    store = Layered(results)
    here = _ebbpool.Results.mapping(store)
    key = key_of(trace)
    stored = here.of_trace(key)
    given = request["policies"]
    by_name = [policy for policy in given or [] if isinstance(policy, str)]
    if not given:
        names = [name for name, _, _ in _ebbpool.canonical_policies([]) if name != "ebb"]
    else:
        names = [name for name, _, _ in _ebbpool.canonical_policies(by_name)] if by_name else []
    if given and not by_name:
        return _answer_of_curve(trace, request, stored, threads, show)
    asked = {**request, "policies": by_name or None}
    found = _ebbpool.curve(trace._native, asked, stored, threads=1, progress=None, stored=True)
    if found is None:
        first = {**request, "policies": ["lru"], "frames": ["1"], "target": None, "clean_pools": None, "report": False}
        run_tasks(executor, [trace], [key], [Task(0, "curve", (first,), 1.0)], store, None)
        workers = engine_of(executor).workers
        items = [(name, weight(name)) for name in names]
        parts = bins(items, TASKS_PER_WORKER * workers)
        part = [{**request, "policies": group, "clean_pools": None, "report": False} for group, _ in parts]
        tasks = [Task(0, "curve", (one,), cost) for one, (_, cost) in zip(part, parts)]
        run_tasks(executor, [trace], [key], tasks, store, show)
    return _answer_of_curve(trace, request, stored, threads, show)


def _answer_of_curve(
    trace: Trace, request: dict[str, Any], stored: _ebbpool.Results, threads: int | None, show: Show
) -> _ebbpool.Curve:
    answer = _ebbpool.curve(trace._native, request, stored, threads=threads, progress=show)
    assert answer is not None, "only stored=True has no answer"
    return answer


def reproduce_with(executor: Any, names: list[str], request: tuple[Any, ...], results: ResultStore, show: Show) -> ResultStore:
    """A store with the results of experiments, of which workers have run each."""
    _, full, policies, _ = request
    if policies:
        _ebbpool.check_policies(policies)
    policies = [policy for policy in policies if isinstance(policy, str)]
    store = Layered(results)
    tasks = [Task(0, "reproduce", ([name], full, policies), 1.0) for name in names]
    run_tasks(executor, [], [], tasks, store, show)
    return ResultStore(_ebbpool.Results.mapping(store), results.stores)

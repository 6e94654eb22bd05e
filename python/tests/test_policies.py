"""Policies of the caller, in Python and compiled, beside those of the registry."""

from __future__ import annotations

import ctypes
import functools
import pathlib
from typing import Any

import pytest
from policies import Cflru, Clustered, Costly, Lru

import ebbpool

TRACE = "zipf:pages=2000,refs=30000,write=0.4"
FIGURES = ["frames", "asymmetry", "reads", "writes", "dirty_left", "cluster_switches", "cost"]


def figures(answer: ebbpool.Table, policy: str) -> list[list[Any]]:
    return [[row[name] for name in FIGURES] for row in answer if row.policy == policy]


@pytest.mark.parametrize(("mine", "name"), [(Lru, "lru"), (Cflru, "cflru:window=0.5")])
@pytest.mark.parametrize("options", [{}, {"warmup": "20%", "at_end": "free", "threads": 2}])
def test_a_policy_in_python_has_the_counts_of_the_same_policy_in_rust(mine: Any, name: str, options: Any) -> None:
    sizes = [1, 2, "3%", "6%", 5000]
    answer = ebbpool.compare(TRACE, [name, mine], sizes, [1, 32], **options)
    theirs = ebbpool.policy(name).policy
    assert len(answer) == 20
    assert figures(answer, mine.name) == figures(answer, theirs)


def test_pages_that_are_written_together_stay_and_are_clean() -> None:
    Clustered.written_clean = 0
    answer = ebbpool.compare(TRACE, ["lru", Clustered], ["3%", "6%"], 8)
    lru = [row for row in answer if row.policy == "lru"]
    clustered = [row for row in answer if row.policy == "python-clustered"]
    for one, together in zip(lru, clustered):
        # The order of evictions is that of LRU, pages are written early and so more often, and neighbours in a row.
        assert together.reads == one.reads
        assert together.writes > one.writes
        assert together.cluster_switches < one.cluster_switches
        assert together.writes + together.dirty_left > one.writes + one.dirty_left
    assert Clustered.written_clean == 0


def test_a_policy_in_python_runs_on_a_device_and_alone() -> None:
    answer = ebbpool.compare(TRACE, ["lru", Lru], ["3%"], device="flash-136", rate=1000)
    assert figures(answer, "python-lru") == figures(answer, "lru")
    assert answer[0].cost_us == answer[1].cost_us
    run = ebbpool.run(TRACE, Lru, "3%", asymmetry=8)
    assert run.result.reads == ebbpool.run(TRACE, "lru", "3%", asymmetry=8).result.reads
    assert run.details["policy"] == "python-lru"


def test_a_policy_that_looks_at_costs_runs_once_per_asymmetry() -> None:
    Costly.seen.clear()
    ebbpool.compare(TRACE, Costly, [10, 20], [1, 8])
    assert sorted(Costly.seen) == [(1.0, 1.0), (1.0, 1.0), (1.0, 8.0), (1.0, 8.0)]


class DirtyFirst(Lru):
    """Evicts clean pages first where writes are dear, and dirty ones first elsewhere."""

    def __init__(self, frames: int) -> None:
        super().__init__(frames)
        self.dirty: set[int] = set()
        self.ratio = 1.0

    def hit(self, frame: int, write: bool) -> None:
        super().hit(frame, write)
        self.dirty |= {frame} if write else set()

    def admit(self, frame: int, page: int, write: bool) -> None:
        super().admit(frame, page, write)
        self.dirty |= {frame} if write else set()

    def evicted(self, frame: int) -> None:
        super().evicted(frame)
        self.dirty.discard(frame)

    def victim(self) -> int:
        first = [frame for frame in self.order if (frame in self.dirty) != (self.ratio > 4)]
        return next(iter(first or self.order))

    def costs(self, read: float, write: float) -> None:
        self.ratio = write / read


class WithinInit:
    def __init__(self, frames: int) -> None:
        policy = DirtyFirst(frames)
        for method in ("hit", "victim", "admit", "evicted", "costs"):
            setattr(self, method, getattr(policy, method))


class Delegates:
    def __init__(self, frames: int) -> None:
        self.policy = DirtyFirst(frames)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)


class FromTen(DirtyFirst):
    """Cannot be made with the one frame of the question whether it looks at costs."""

    def __init__(self, frames: int) -> None:
        if frames < 10:
            raise ValueError("too few frames")
        super().__init__(frames)


@pytest.mark.parametrize(
    "policy", [functools.partial(DirtyFirst), lambda frames: DirtyFirst(frames), WithinInit, Delegates, FromTen]
)
def test_each_asymmetry_has_its_run_wherever_an_object_has_its_method_for_costs(policy: Any) -> None:
    trace = "zipf:pages=500,refs=3000,write=0.5"

    def counted(policy: Any, asymmetries: list[float]) -> list[Any]:
        return [[row.reads, row.writes, row.cost] for row in ebbpool.compare(trace, [policy], 20, asymmetries)]

    cheap, dear = counted(DirtyFirst, [1, 32])
    assert cheap[:2] != dear[:2]
    assert counted(policy, [1, 32]) == [cheap, dear]
    assert counted(policy, [32]) == [dear]


def test_objects_that_disagree_about_costs_are_refused() -> None:
    def policy(frames: int) -> Any:
        return DirtyFirst(frames) if frames > 10 else Lru(frames)

    with pytest.raises(ebbpool.PolicyError, match=r"policy policy has a method costs\(\) with 20 frames and none"):
        ebbpool.compare(TRACE, [policy], [10, 20], [1, 32])


def test_a_function_whose_objects_have_no_method_for_costs_runs_once_for_all_asymmetries() -> None:
    made: list[int] = []

    def policy(frames: int) -> Lru:
        made.append(frames)
        return Lru(frames)

    ebbpool.compare(TRACE, [policy], [10, 20], [1, 8, 32])
    assert sorted(made) == [1, 10, 20]


def test_the_report_has_a_policy_in_python(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    ebbpool.compare(TRACE, ["lru", Lru], ["3%", "6%"], [8], report=True).report(page)
    assert "python-lru" in page.read_text()


def test_results_of_a_policy_in_python_are_not_stored() -> None:
    store: dict[str, bytes] = {}
    ebbpool.compare(TRACE, [Lru], [10], 8, cache=store)
    assert not any(b"python-lru" in value for value in store.values())
    assert ebbpool.compare(TRACE, [Lru], [10], 8, cache=store).notes == []


def test_an_impossible_victim_ends_the_run_with_the_number_of_the_reference() -> None:
    for wrong in (-1, 10, 2**40, "x", None, 1.5):

        class Wrong(Lru):
            name = "wrong"

            def victim(self, answer: Any = wrong) -> Any:
                return answer

        with pytest.raises(ebbpool.PolicyError, match=r"policy wrong: victim\(\) returned .* at reference \d+, with 10 fr"):
            ebbpool.compare(TRACE, ["lru", Wrong], 10, 8)


def test_impossible_companions_end_the_run() -> None:
    class Itself(Lru):
        def evicted_with(self, frame: int) -> list[int]:
            return [frame]

    class Outside(Lru):
        def cleaned_with(self, frame: int) -> list[int]:
            return [99]

    class Nothing(Lru):
        def evicted_with(self, frame: int) -> Any:
            return None

    class Set(Lru):
        def cleaned_with(self, frame: int) -> Any:
            return {frame}

    with pytest.raises(ebbpool.PolicyError, match=r"evicted_with\(\) returned None at reference \d+, with 10 frames; .* a list"):
        ebbpool.compare(TRACE, Nothing, 10, 8)
    with pytest.raises(ebbpool.PolicyError, match=r"cleaned_with\(\) returned \{\d\} at reference"):
        ebbpool.compare(TRACE, Set, 10, 8)
    with pytest.raises(ebbpool.PolicyError, match=r"evicted_with\(\) returned"):
        ebbpool.compare(TRACE, Itself, 10, 8)
    with pytest.raises(ebbpool.PolicyError, match=r"cleaned_with\(\) returned 99"):
        ebbpool.compare(TRACE, Outside, 10, 8)


def test_an_exception_of_a_policy_is_raised_with_the_number_of_the_reference() -> None:
    class Fails(Lru):
        name = "fails"

        def __init__(self, frames: int) -> None:
            super().__init__(frames)
            self.hits = 0

        def hit(self, frame: int, write: bool) -> None:
            self.hits += 1
            if self.hits == 100:
                raise ZeroDivisionError("the hundredth hit")
            super().hit(frame, write)

    with pytest.raises(ZeroDivisionError, match="the hundredth hit") as raised:
        ebbpool.compare(TRACE, ["lru", Fails], [50], 8)
    (note,) = raised.value.__notes__
    assert note.startswith("policy fails failed at reference ") and note.endswith("with 50 frames")

    class Refuses(Lru):
        def __init__(self, frames: int) -> None:
            raise MemoryError(f"no room for {frames}")

    with pytest.raises(MemoryError, match="no room for 50"):
        ebbpool.compare(TRACE, Refuses, [50], 8)


def test_wrong_policies_are_refused() -> None:
    with pytest.raises(ebbpool.UsageError, match="give the class and not an object"):
        ebbpool.compare(TRACE, [Lru(10)], 10, 8)

    class Nothing:
        def __init__(self, frames: int) -> None:
            pass

    with pytest.raises(ebbpool.PolicyError, match=r"no method victim\(\)"):
        ebbpool.compare(TRACE, Nothing, 10, 8)
    with pytest.raises(ebbpool.UsageError, match="two policies are called 'python-lru'"):
        ebbpool.compare(TRACE, [Lru, Lru], 10, 8)
    with pytest.raises(ebbpool.UsageError, match="policies=.*the list is empty"):
        ebbpool.compare(TRACE, [], 10, 8)
    with pytest.raises(ebbpool.UsageError, match="asymmetry=.*the list is empty"):
        ebbpool.compare(TRACE, "lru", 10, [])
    with pytest.raises(ebbpool.UsageError, match="policies=: unknown policy 'nope'"):
        ebbpool.compare(TRACE, "nope", 10, 8)
    with pytest.raises(ebbpool.UsageError, match="events="):
        ebbpool.run(TRACE, Lru, 10, events=True)
    wrong: Any = ["lru"]
    with pytest.raises(ebbpool.UsageError, match=r"policy=: \['lru'\] is neither a name nor a class"):
        ebbpool.run(TRACE, wrong, 10)
    with pytest.raises(ebbpool.UsageError, match="baseline=: unknown policy 'python-lru'.*; a baseline is a policy by name"):
        ebbpool.curve(TRACE, Lru, frames=[10], target="writes -10%", baseline="python-lru@50")


def named(name: Any) -> Any:
    return type("Other", (Lru,), {"name": name})


ALL_WITH_POLICIES: list[Any] = [
    lambda policies: ebbpool.compare(TRACE, policies, 50, 8),
    lambda policies: ebbpool.compare(TRACE, policies, 50, device="flash-136"),
    lambda policies: ebbpool.curve(TRACE, policies, frames=[50]),
    lambda policies: ebbpool.replay(TRACE, policies, 50, asymmetry=8),
    lambda policies: ebbpool.reproduce("cikm-table2", policies=policies),
]


@pytest.mark.parametrize("call", ALL_WITH_POLICIES)
def test_two_policies_of_one_name_are_refused(call: Any) -> None:
    for policies, name in [
        (["lru", named("mine"), named("mine")], "mine"),
        # A name that is no text; the class's own is in its place.
        ([named(lambda self: "one"), named(lambda self: "two")], "Other"),
        ([functools.partial(Lru), functools.partial(Cflru)], "policy"),
    ]:
        with pytest.raises(ebbpool.UsageError, match=f"policies=: two policies are called '{name}'"):
            call(policies)


@pytest.mark.parametrize("call", ALL_WITH_POLICIES[:4])
def test_a_policy_has_no_name_of_a_registered_policy(call: Any) -> None:
    # It would be taken for the baseline, or for the policy that is not in the list.
    for policies in (["all", named("arc")], [named("arc"), "clock"], [named("arc")]):
        with pytest.raises(ebbpool.UsageError, match="policies=: 'arc' is the name of a built-in policy"):
            call(policies)
    with pytest.raises(ebbpool.UsageError, match="policies=: 'cflru:window=0.5' is the name of a built-in policy"):
        call([named("cflru:window=0.5")])


@pytest.mark.parametrize("call", ALL_WITH_POLICIES)
def test_a_name_is_a_line_of_text(call: Any) -> None:
    for name in ("", " ", "two\nlines", "\x1b[31mred", "lru ", "lru\u200b", "\u202eurl", "a\u2028b"):
        with pytest.raises(ebbpool.UsageError, match="policies=: .* is no name of a policy"):
            call([named(name)])


def test_objects_of_one_asymmetry_need_not_agree_about_costs() -> None:
    class Large(Lru):
        def __init__(self, frames: int) -> None:
            super().__init__(frames)
            if frames > 30:
                self.costs = lambda read, write: None

    for frames in ([20, 50], [50, 20]):
        assert len(ebbpool.compare(TRACE, Large, frames, 8, cache=False)) == 2
    with pytest.raises(ebbpool.PolicyError, match=r"costs\(\) with 50 frames and none with another number"):
        ebbpool.compare(TRACE, Large, [20, 50], [1, 8], cache=False)


def test_a_policy_has_no_name_of_an_experiments_own_policy() -> None:
    with pytest.raises(ebbpool.UsageError, match="policies=: two policies are called 'LRU'"):
        ebbpool.reproduce("adlru-fig12", policies=named("LRU"))


def test_a_curve_of_a_policy_in_python_is_that_of_the_same_policy_in_rust(tmp_path: pathlib.Path) -> None:
    trace = "zipf:pages=13000,refs=66000,write=0.4"
    options: Any = {"target": "writes -20%", "baseline": "lru@5%", "sample": 0.1, "warmup": 1000}
    # Both run over the same sample; lru itself would be exact at every size.
    study = ebbpool.curve(trace, ["cflru:window=0.5", Cflru], frames=[160, 660, 2600], **options)
    columns = ["frames", "reads", "writes", "cost", "sampled", "error_writes", "target"]
    theirs, mine = ([[row[name] for name in columns if name in study.columns] for row in study if name_is(row)] for name_is in (
        lambda row: row.policy == ebbpool.policy("cflru:window=0.5").policy,
        lambda row: row.policy == "python-cflru",
    ))
    assert len(mine) == 4 and mine == theirs
    assert "python-cflru needs" in study.advice
    for number in range(2):
        page = tmp_path / f"{number}.html"
        study.report(page)
        assert "python-cflru" in page.read_text()

    class Unknown(Cflru):
        name = "unknown"
        miniature = False

    # Nothing says that a sample would do.
    [row] = ebbpool.curve(trace, Unknown, frames=[2600], sample=0.1)
    assert (row.sampled, row.error) == (1, 0)

    class Fifo(Lru):
        name = "python-fifo"

        def hit(self, frame: int, write: bool) -> None:
            pass

    other = ebbpool.curve(trace, [Fifo], frames=[160], sample=1, target="writes -20%", baseline="lru@160")
    assert other[0].reads == ebbpool.curve(trace, "fifo", frames=[160], sample=1)[0].reads
    alone = ebbpool.curve(trace, Lru, frames=[160, 12_999], sample=1)
    exact = ebbpool.curve(trace, "lru", frames=[160, 12_999])
    assert [(row.reads, row.writes) for row in alone] == [(row.reads, row.writes) for row in exact]


def test_exceptions_of_policies_reach_the_caller_of_curves_replays_and_experiments() -> None:
    class Fails(Lru):
        name = "fails"

        def hit(self, frame: int, write: bool) -> None:
            raise ZeroDivisionError("a hit")

    class Wrong(Lru):
        name = "wrong"

        def victim(self) -> int:
            return 10**6

    calls: list[Any] = [
        lambda policy: ebbpool.curve(TRACE, ["cflru", policy], frames=[50]),
        lambda policy: ebbpool.replay(TRACE, policy, 50, asymmetry=8),
        lambda policy: ebbpool.reproduce("cikm-table2", policies=policy),
    ]
    for call in calls:
        with pytest.raises(ZeroDivisionError, match="a hit"):
            call(Fails)
    for call in calls[:2]:
        with pytest.raises(ebbpool.PolicyError, match=r"policy wrong: victim\(\) returned 1000000"):
            call(Wrong)


def test_a_replay_of_a_policy_in_python_has_the_counts_of_a_simulation() -> None:
    simulated = ebbpool.compare(TRACE, ["lru", Lru, Cflru], 50, 8, at_end="free")
    replayed = ebbpool.replay(TRACE, ["lru", Lru, Cflru], 50, asymmetry=8, at_end="free")
    assert [(row.policy, row.hits, row.writes, row.cost) for row in replayed] == [
        (row.policy, row.hits, row.writes, row.cost) for row in simulated
    ]
    # Threads pin pages, which then are no victims.
    (several,) = ebbpool.replay(TRACE, Lru, 5, asymmetry=8, threads=3)
    assert several.hits + several.misses == 30_000


def test_an_experiment_has_a_policy_in_python(tmp_path: pathlib.Path) -> None:
    ours = ebbpool.reproduce("adlru-fig10", policies=["arc", Lru], out=tmp_path)
    (experiment,) = ours.experiments

    def points(policy: str) -> list[Any]:
        without = ("policy", "spelled")
        return [
            {name: value for name, value in point.items() if name not in without}
            for point in experiment["points"]
            if point["policy"] == policy
        ]

    assert points("arc") and points("python-lru") == points("LRU") != []
    assert "python-lru" in (tmp_path / "index.html").read_text()


def compiled_lru() -> ebbpool.Compiled:
    """LRU as a doubly linked list in an array: the next and the previous frame of each, and the number of frames last."""
    numpy = pytest.importorskip("numpy")
    numba = pytest.importorskip("numba")
    types = numba.types
    state = types.CPointer(types.int64)

    @numba.njit
    def unlink(links: Any, frames: int, frame: int) -> None:
        following, before = links[frame], links[frames + 1 + frame]
        links[before] = following
        links[frames + 1 + following] = before

    @numba.njit
    def append(links: Any, frames: int, frame: int) -> None:
        before = links[frames + 1 + frames]
        links[before] = frame
        links[frames + 1 + frame] = before
        links[frame] = frames
        links[frames + 1 + frames] = frame

    @numba.cfunc(types.void(state, types.uint32, types.uint8))
    def hit(at: Any, frame: int, write: int) -> None:
        frames = at[0]
        links = numba.carray(at, (2 * (frames + 1) + 1,))[1:]
        unlink(links, frames, frame)
        append(links, frames, frame)

    @numba.cfunc(types.uint32(state))
    def victim(at: Any) -> int:
        frames = at[0]
        return numba.carray(at, (2 * (frames + 1) + 1,))[1:][frames]

    @numba.cfunc(types.void(state, types.uint32, types.uint64, types.uint8))
    def admit(at: Any, frame: int, page: int, write: int) -> None:
        frames = at[0]
        append(numba.carray(at, (2 * (frames + 1) + 1,))[1:], frames, frame)

    @numba.cfunc(types.void(state, types.uint32))
    def evicted(at: Any, frame: int) -> None:
        frames = at[0]
        unlink(numba.carray(at, (2 * (frames + 1) + 1,))[1:], frames, frame)

    def memory(frames: int) -> Any:
        links = numpy.full(2 * (frames + 1) + 1, frames, dtype=numpy.int64)
        return links

    return ebbpool.Compiled("numba-lru", state=memory, hit=hit, victim=victim, admit=admit, evicted=evicted)


def test_a_policy_compiled_by_numba_has_the_counts_of_the_same_policy_in_rust() -> None:
    answer = ebbpool.compare(TRACE, ["lru", compiled_lru()], [1, 2, "3%", 5000], [1, 32], threads=2)
    assert figures(answer, "numba-lru") == figures(answer, "lru")


def test_compiled_policies_are_checked() -> None:
    @ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
    def victim(state: int) -> int:
        return 77

    wrong = ebbpool.Compiled("wrong", state=lambda frames: bytearray(8), victim=victim)
    with pytest.raises(ebbpool.PolicyError, match=r"policy wrong: victim\(\) returned 77 at reference"):
        ebbpool.compare(TRACE, wrong, 10, 8)
    with pytest.raises(ebbpool.UsageError, match="victim=.*is not a C function"):
        ebbpool.Compiled("wrong", state=bytearray, victim=len)
    with pytest.raises(ebbpool.UsageError, match="victim=: a policy has"):
        ebbpool.Compiled("wrong", state=bytearray, victim=None)
    without_memory = ebbpool.Compiled("wrong", state=lambda frames: b"read only", victim=victim)
    with pytest.raises(ebbpool.UsageError, match="state=.*writable"):
        ebbpool.compare(TRACE, without_memory, 10, 8)

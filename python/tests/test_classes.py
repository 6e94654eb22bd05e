"""Classes of pages, from every kind of trace to policies of the registry and of the caller."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from policies import Lru

import ebbpool

pl = pytest.importorskip("polars")
np = pytest.importorskip("numpy")

NAMES = ["", "heap", "index", "other"]


def frame() -> Any:
    generator = np.random.default_rng(3)
    pages = (generator.zipf(1.2, 40_000) * 7919) % 3000
    classes = pages % 4
    # The pages of one class are written much more often than the others.
    writes = generator.random(40_000) < np.where(classes == 1, 0.9, 0.05)
    return pl.DataFrame({"page": pages, "write": writes, "class": classes})


class Seen(Lru):
    """LRU that notes the classes of the pages that it misses."""

    name = "seen"
    classes: list[tuple[int, int]] = []

    def __init__(self, frames: int) -> None:
        super().__init__(frames)
        self.number = -1

    def page_class(self, number: int) -> None:
        self.number = number

    def miss(self, page: int, write: bool) -> None:
        Seen.classes.append((page, self.number))


def seen(trace: Any) -> list[tuple[int, int]]:
    """The classes that a policy in Python gets, and a check that the answer is that of LRU."""
    Seen.classes = []
    lru, mine = ebbpool.compare(trace, ["lru", Seen], 100, 8, cache=False)
    assert (lru.reads, lru.writes) == (mine.reads, mine.writes)
    return Seen.classes


def test_classes_reach_policies_from_any_kind_of_trace(tmp_path: Path) -> None:
    table = frame()
    expected = seen(table)
    assert len(expected) > 1000 and all(number == page % 4 for page, number in expected)
    parquet, csv = tmp_path / "t.parquet", tmp_path / "t.csv"
    ebbpool.Trace(table).write(parquet)
    table.write_csv(csv)
    pages, writes, classes = (table[name].to_numpy() for name in ("page", "write", "class"))
    ranges = ebbpool.Trace((pages, writes, pages // 1000), name="ranges")
    sources = {
        "pyarrow": table.to_arrow(),
        "pandas": table.to_pandas(),
        "arrays": (pages, writes, classes.astype(np.uint8)),
        "function": lambda: table,
        "parquet": parquet,
        "csv": ebbpool.Trace(csv, columns="page=page,write=write,class=class"),
        "renamed": ebbpool.Trace(table.rename({"class": "kind"}), columns={"page": "page", "write": "write", "class": "kind"}),
        "pickled": pickle.loads(pickle.dumps(ebbpool.Trace(table))),
    }
    for kind, source in sources.items():
        assert seen(source) == expected, kind
    assert all(number == page // 1000 for page, number in seen(ranges))
    # Classes of one name are one class, and get numbers of their own.
    joined = seen(ebbpool.Trace.concat(table[:9000], table[9000:]))
    numbers = dict(zip((number for _, number in expected), (number for _, number in joined)))
    assert sorted(numbers) == sorted(numbers.values()) == [0, 1, 2, 3]
    assert joined == [(page, numbers[number]) for page, number in expected]


def test_classes_of_a_generator_and_a_file_of_words_reach_policies(tmp_path: Path) -> None:
    expected = seen("tpcc:warehouses=1,refs=20000")
    assert len({number for _, number in expected}) > 3
    words = tmp_path / "tpcc.u32"
    ebbpool.Trace("tpcc:warehouses=1,refs=20000").write(words)
    assert seen(words) == expected


def test_the_classes_of_a_table_are_those_that_the_command_finds_in_its_file(tmp_path: Path, command: Any) -> None:
    trace = ebbpool.Trace(frame(), name="t")
    trace.write(tmp_path / "t.parquet")
    classes = trace.info()["classes"]
    assert len(classes) == 4 and classes == command("trace", "info", str(tmp_path / "t.parquet"))["classes"]
    assert ebbpool.Trace(frame().drop("class"), name="t").key() != trace.key()


def test_a_policy_without_use_for_classes_has_the_same_results() -> None:
    one = ebbpool.compare(frame(), ["ebb", "auto"], "5%", [8, 32], cache=False)
    for row in one:
        assert row.reads + row.hits == 40_000
    without = ebbpool.compare(frame().drop("class"), "cflru", "5%", [8, 32], cache=False)
    assert without.to_json() == ebbpool.compare(frame(), "cflru", "5%", [8, 32], cache=False).to_json()


def test_texts_are_classes_with_names() -> None:
    table = frame()
    names = table.with_columns(pl.col("class").replace_strict(list(range(4)), NAMES, return_dtype=pl.String))
    infos = []
    for texts in (names, names.with_columns(pl.col("class").cast(pl.Categorical)), names.to_pandas(), names.to_arrow()):
        classes = ebbpool.Trace(texts).info()["classes"]
        infos.append(classes)
        assert {one["name"] for one in classes if one["class"] > 0} == set(NAMES[1:])
    assert all(one == infos[0] for one in infos)
    with_nulls = names.with_columns(pl.when(pl.col("class") != "").then(pl.col("class")).alias("class"))
    assert ebbpool.Trace(with_nulls).key() == ebbpool.Trace(names).key()


def test_batches_without_a_text_have_no_classes() -> None:
    pa = pytest.importorskip("pyarrow")
    texts = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("page", pa.int64()), ("write", pa.bool_()), ("class", texts)])

    def batch(pages: list[int], keys: list[int | None], values: list[str]) -> Any:
        classes = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int32()), pa.array(values, pa.string()))
        return pa.record_batch([pa.array(pages), pa.array([True] * len(pages)), classes], schema=schema)

    batches = [batch([1, 2], [None, None], []), batch([3, 4], [0, 1], ["heap", "index"])]
    answer = ebbpool.compare(lambda: pa.RecordBatchReader.from_batches(schema, batches), "ebb", 2, 8, cache=False)
    assert answer[0].references == 4


def test_columns_of_classes_are_checked() -> None:
    table = frame().with_columns((pl.col("class") + 0.5).alias("share"))
    shares = ebbpool.Trace(table, columns={"page": "page", "class": "share"}).info()["classes"]
    assert {one["name"] for one in shares} == {"0.5", "1.5", "2.5", "3.5"}
    with pytest.raises(ebbpool.TraceError, match="no column 'nope'"):
        ebbpool.Trace(table, columns={"page": "page", "class": "nope"})
    negative = table.with_columns(-pl.col("class"))
    assert ebbpool.compare(negative, "lru", 10, 8).columns
    with pytest.raises(ebbpool.TraceError, match="row .* -[123] is not a class"):
        ebbpool.compare(negative, Seen, 10, 8)
    pages = table["page"].to_numpy()
    with pytest.raises(ebbpool.TraceError, match="40000 pages and 3 classes"):
        ebbpool.Trace((pages, table["write"].to_numpy(), np.arange(3)))


def test_a_compiled_policy_gets_classes() -> None:
    numba = pytest.importorskip("numba")
    types = numba.types
    state = types.CPointer(types.int64)

    # First in, first out, in a ring; then the class of the next miss, and the sum of all classes.
    @numba.cfunc(types.uint32(state))
    def victim(at: Any) -> int:
        return at[0] % at[1]

    @numba.cfunc(types.void(state, types.uint32))
    def evicted(at: Any, frame: int) -> None:
        at[0] += 1

    @numba.cfunc(types.void(state, types.uint32))
    def page_class(at: Any, number: int) -> None:
        at[2] += number

    kept = []

    def memory(frames: int) -> Any:
        kept.append(np.array([0, frames, 0], dtype=np.int64))
        return kept[-1]

    mine = ebbpool.Compiled("ring", state=memory, victim=victim, evicted=evicted, page_class=page_class)
    fifo, ring = ebbpool.compare(frame(), ["fifo", mine], 100, 8, cache=False)
    assert (fifo.reads, fifo.writes) == (ring.reads, ring.writes)
    Seen.classes = []
    assert kept[0][2] > 1000

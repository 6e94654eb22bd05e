"""Every kind of trace gives the same results as a file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLE

import ebbpool

pl = pytest.importorskip("polars")
np = pytest.importorskip("numpy")

DATABASE_PAGES = 5000
QUESTION: dict[str, Any] = {"policies": ["lru", "cflru"], "frames": ["2%", 77], "asymmetry": [8]}


def frame() -> Any:
    generator = np.random.default_rng(7)
    pages = (generator.zipf(1.3, 30_000) * 7919) % DATABASE_PAGES
    return pl.DataFrame({"page": pages, "write": generator.random(30_000) < 0.3})


def references(trace: ebbpool.Trace, folder: Path) -> dict[str, list[Any]]:
    """All that a trace has: what the native format stores of it."""
    trace.write(folder / "all.parquet")
    columns: dict[str, list[Any]] = pl.read_parquet(folder / "all.parquet").to_dict(as_series=False)
    return columns


#: The roles of `requests`.
ROLES: dict[str, Any] = {
    "offset": "lba:512",
    "size": "sectors:512",
    "volume": ["host", "disk"],
    "write": "what:put|append",
    "read": "what:get",
    "trim": "what:drop",
    "skip": "what:*",
    "class": "kind",
    "time": "at:date",
    "repeat": "times",
    "only": "by:a|c",
}


def requests(rows: int = 2000) -> Any:
    """A table with a column for each role, of another type each."""
    draw = np.random.default_rng(11)
    words = pl.Series(["put", "append", "get", "drop", "flush", "other"])
    at = pl.Series(np.sort(draw.integers(0, 10**10, rows)) + 1_700_000_000_000_000).cast(pl.Datetime("us"))
    return pl.DataFrame(
        {
            "lba": draw.integers(0, 4000, rows),
            "sectors": pl.Series(draw.integers(0, 30, rows)).cast(pl.Float64),
            "host": pl.Series(draw.choice(["x", "y", ""], rows)).cast(pl.Categorical),
            "disk": pl.Series(draw.integers(0, 3, rows), dtype=pl.UInt8),
            "what": words.gather(draw.integers(0, 6, rows)),
            "kind": pl.Series(draw.choice(["heap", "index", ""], rows)).replace("", None),
            "at": at,
            "times": pl.Series(draw.integers(0, 3, rows), dtype=pl.Int16),
            "by": draw.choice(["a", "b", "c"], rows),
        }
    )


def test_a_table_in_memory_has_all_roles_that_a_file_has(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = requests()
    table.write_csv(tmp_path / "table.csv")
    table.write_parquet(tmp_path / "table.parquet")
    roles = {"columns": ROLES, "page_size": 4096}
    expected = references(ebbpool.Trace(tmp_path / "table.csv", **roles), tmp_path)
    assert {"page", "action", "pages", "class", "time_us", "bypass"} == set(expected) and len(set(expected["action"])) > 2
    pandas = table.to_pandas()
    pandas["sectors"] = pandas["sectors"].astype("float32")
    for kind in (
        tmp_path / "table.parquet",
        table,
        table.to_arrow(),
        lambda: table.to_arrow().to_reader(max_chunksize=99),
        table.with_columns(pl.col("at").dt.cast_time_unit("ns"), pl.col("by").cast(pl.Binary)),
        table.with_columns(pl.col("lba").cast(pl.Decimal(12, 0)), pl.col("disk").cast(pl.String)),
        pandas,
        duckdb.sql("from pandas"),
    ):
        trace = ebbpool.Trace(kind, **roles)
        assert references(trace, tmp_path) == expected, kind
        assert trace.info().distinct_pages == ebbpool.Trace(table, **roles).info().distinct_pages
    in_nanoseconds = table.with_columns(pl.col("at").dt.cast_time_unit("ns"))
    in_nanoseconds.write_parquet(tmp_path / "table.parquet")
    assert references(ebbpool.Trace(tmp_path / "table.parquet", **roles), tmp_path) == expected
    key = ebbpool.Trace(table, **roles).key()
    assert key == ebbpool.Trace(table.to_arrow(), **roles).key()
    for changed in (pl.col("at").dt.offset_by("1s"), pl.col("what").replace("drop", "flush"), pl.col("kind").replace("heap", "toast")):
        assert ebbpool.Trace(table.with_columns(changed), **roles).key() != key


@pytest.mark.parametrize("spelled", [{"page": "p:hex", "write": "rw:1"}, "page=p:text,write=rw:1,time=t:s", "page=#1,write=#2:1"])
def test_pages_are_of_any_kind(spelled: Any, tmp_path: Path) -> None:
    table = pl.DataFrame({"p": ["10", "11", "10", "9"], "rw": [1, 0, 0, 1], "t": [0.5, 1, 1, 7.25]})
    table.write_csv(tmp_path / "t.csv")
    of_file = f"{spelled},names=yes" if "#" in spelled else spelled
    expected = references(ebbpool.Trace(tmp_path / "t.csv", columns=of_file), tmp_path)
    assert references(ebbpool.Trace(table, columns=spelled), tmp_path) == expected


def test_names_of_a_table_are_guessed_or_asked_for_as_those_of_a_file(tmp_path: Path) -> None:
    pages = pl.DataFrame({"blk": [1, 2, 1], "op": ["W", "R", "UNMAP"]})
    assert (info := ebbpool.Trace(pages).info()).references == 2 and info.writes == 1
    asked = pages.with_columns(pl.Series("disk", [1, 1, 2]))
    asked.write_csv(tmp_path / "asked.csv")
    with pytest.raises(ebbpool.EbbpoolError, match="page=blk,volume=disk,write=op") as of_file:
        ebbpool.Trace(tmp_path / "asked.csv").info()
    with pytest.raises(ebbpool.EbbpoolError, match="page=blk,volume=disk,write=op") as of_table:
        ebbpool.Trace(asked, name=str(tmp_path / "asked.csv"))
    assert str(of_file.value) == str(of_table.value) and type(of_file.value) is type(of_table.value)
    left_out = ebbpool.compare(ebbpool.Trace(pages.with_columns(blk=pl.Series(["1", "x", "2"])), skip_bad_lines=1), "lru", 2, 8)
    assert any(note.startswith("left out 1 bad line: table, row 1 ") for note in left_out.notes), left_out.notes
    answer = ebbpool.compare(ebbpool.Trace(pages.with_columns(pl.lit(5).alias("who")), name="t"), "lru", 2, 8)
    assert any("t: guessed --columns page=blk,write=op" in note and "not read: who" in note for note in answer.notes), answer.notes


def test_a_warning_says_what_a_file_does_not_have(tmp_path: Path) -> None:
    trace = ebbpool.Trace(requests(), columns=ROLES, page_size=4096, name="mine")
    with pytest.warns(UserWarning) as warned:
        trace.write(tmp_path / "t.csv")
    texts = " ".join(str(one.message) for one in warned)
    for lost in ("csv cannot store trims", "csv cannot store when", "csv cannot store the name, the page size"):
        assert lost in texts, texts


def figures(answer: ebbpool.Comparison) -> list[tuple[Any, ...]]:
    columns = answer.to_dict()
    return list(zip(columns["policy"], columns["frames"], columns["reads"], columns["writes"], columns["cost"]))


@pytest.fixture
def expected(tmp_path: Path) -> list[tuple[Any, ...]]:
    path = tmp_path / "trace.txt"
    lines = [f"{'W' if write else 'R'} {page}" for page, write in frame().rows()]
    path.write_text(f"# ebbpool.database_pages={DATABASE_PAGES}\n" + "\n".join(lines) + "\n")
    answer = ebbpool.compare(path, **QUESTION)
    return figures(answer)


def sources() -> dict[str, Any]:
    table = frame()
    pages, writes = table["page"].to_numpy(), table["write"].to_numpy()
    as_u8 = writes.astype(np.uint8)
    return {
        "polars": table,
        "pyarrow": table.to_arrow(),
        "chunks": pl.concat([table[:1], table[1:2000], table[2000:]], rechunk=False),
        "pandas": table.to_pandas(),
        "numpy": (pages, writes),
        "numpy, unsigned": (pages.astype(np.uint64), as_u8),
        "numpy, 32 bits": (pages.astype(np.int32), as_u8),
        "numpy, with gaps": (np.repeat(pages, 2)[::2], np.repeat(writes, 2)[::2]),
        "arrays": (memoryview(pages.astype(np.uint64)), as_u8),
        "function": lambda: table,
        "reader": lambda: table.to_arrow().to_reader(max_chunksize=999),
        "small integers": table.with_columns(pl.col("page").cast(pl.UInt16), pl.col("write").cast(pl.Int8)),
    }


@pytest.mark.parametrize("kind", sources())
def test_references_of_any_kind_give_the_same_results(kind: str, expected: list[tuple[Any, ...]]) -> None:
    trace = ebbpool.Trace(sources()[kind], database_pages=DATABASE_PAGES)
    assert figures(ebbpool.compare(trace, **QUESTION)) == expected


def test_duckdb_gives_the_same_results(expected: list[tuple[Any, ...]]) -> None:
    duckdb = pytest.importorskip("duckdb")
    trace_table = frame()
    relation = duckdb.sql("select page, write from trace_table")
    assert len(trace_table) == 30_000
    trace = ebbpool.Trace(relation, database_pages=DATABASE_PAGES)
    assert figures(ebbpool.compare(trace, **QUESTION)) == expected


def test_results_are_tables_for_others() -> None:
    duckdb = pytest.importorskip("duckdb")
    pyarrow = pytest.importorskip("pyarrow")
    answer = ebbpool.compare("zipf:pages=100,refs=2000", ["lru", "ebb"], [10, 20], 8)
    frames = pl.DataFrame(answer)
    assert frames["frames"].dtype == pl.Int64 and frames["cost"].dtype == pl.Float64
    assert frames.equals(answer.to_polars())
    assert pyarrow.table(answer).num_rows == 4
    assert duckdb.sql("select count(*) from answer where policy = 'ebb'").fetchall() == [(2,)]
    pandas = answer.to_pandas()
    assert list(pandas["policy"]) == ["lru", "lru", "ebb", "ebb"]
    assert list(pandas["cost"]) == frames["cost"].to_list()
    assert len(answer[1:3]) == 2 and answer[-1].policy == "ebb"


def test_columns_have_other_names_and_texts() -> None:
    table = frame()
    op = pl.when(pl.col("write")).then(pl.lit("update")).otherwise(pl.lit("get"))
    other = table.select(pl.col("page").alias("blk"), op.alias("op"))
    named = ebbpool.Trace(other, columns={"page": "blk", "write": "op:update|insert"})
    same = ebbpool.Trace(other, columns="page=blk,write=op:update|insert")
    assert named.info().writes == same.info().writes == table["write"].sum()
    reads = ebbpool.Trace(other, columns={"page": "blk"})
    assert reads.info().writes == 0


def test_a_trace_has_information_and_is_written(tmp_path: Path) -> None:
    table = frame()
    trace = ebbpool.Trace(table, page_size="8k", database_pages=DATABASE_PAGES, name="mine")
    info = trace.info()
    assert (info.trace, info.references, info.page_size, info.database_pages) == ("mine", 30_000, 8192, DATABASE_PAGES)
    assert info.writes == table["write"].sum() and info.distinct_pages == table["page"].n_unique()
    path = tmp_path / "mine.parquet"
    trace.write(path)
    back = ebbpool.Trace(path)
    assert pl.read_parquet(path)["page"].to_list() == table["page"].to_list()
    assert dict(back.info()) == {**info, "trace": str(path)}
    with pytest.raises(ebbpool.UsageError, match="would overwrite it"):
        back.write(path)
    with pytest.raises(ebbpool.UsageError, match="path=.*format="):
        trace.write(tmp_path / "mine.unknown")


def test_skip_limit_and_concat(tmp_path: Path) -> None:
    table = frame()
    part = ebbpool.Trace(table, skip=10, limit=5)
    assert references(part, tmp_path)["page"] == table["page"][10:15].to_list()
    assert references(part, tmp_path)["write"] == table["write"][10:15].to_list()
    both = ebbpool.Trace.concat(part, ebbpool.Trace(table, limit=2), "zipf:pages=10,refs=3")
    assert both.info().references == 10


def test_a_sample_has_the_pages_that_a_curve_samples(tmp_path: Path) -> None:
    whole = ebbpool.Trace("zipf:pages=40000,refs=200000,write=0.4")
    part = whole.sample(0.1)
    info = part.info()
    assert info.database_pages == 4000 and 0.08 < info.distinct_pages / whole.info().distinct_pages < 0.12
    assert part.name == "zipf:pages=40000,refs=200000,write=0.4, 10 % of the pages"
    assert part.key() != whole.key() != whole.sample(0.1, grain=8).key()
    assert part.key() == whole.sample(0.1).key()
    again = pickle.loads(pickle.dumps(part))
    assert again.key() == part.key() and references(again, tmp_path) == references(part, tmp_path)
    table = frame()
    assert references(ebbpool.Trace(table).sample(1.0), tmp_path) == references(ebbpool.Trace(table), tmp_path)
    half = ebbpool.Trace(table).sample(0.5, grain=16)
    pages = set(references(half, tmp_path)["page"])
    blocks = {page // 16 for page in pages}
    assert pages == {page for page in table["page"].to_list() if page // 16 in blocks}
    with pytest.raises(ebbpool.UsageError, match="rate=: 0 is not a share"):
        whole.sample(0)
    # Memory scales along.
    full, sampled = (ebbpool.compare(one, "cflru", "5%", 8)[0] for one in (whole, part))
    assert abs(sampled.cost / full.cost - 1) < 0.1


def test_a_trace_pickles_by_name_or_as_its_references(tmp_path: Path) -> None:
    table = frame()
    roles = {"columns": ROLES, "page_size": 4096}
    for trace in (
        ebbpool.Trace(requests(), **roles),
        ebbpool.Trace.concat(ebbpool.Trace(requests(), **roles), ebbpool.Trace(table, limit=9), skip=1, apart=True),
        ebbpool.Trace(table, whole_writes=True, below_cache=True),
        ebbpool.Trace(str(SAMPLE), limit=1000),
        ebbpool.Trace("zipf:pages=10,refs=100", skip=3),
        ebbpool.Trace(table, skip=7, page_size=4096, database_pages=9999, name="some"),
        ebbpool.Trace((table["page"].to_numpy(), table["write"].to_numpy())),
        ebbpool.Trace.concat(str(SAMPLE), "zipf:pages=10,refs=100", limit=2000),
        ebbpool.generate("zipf", pages=10, refs=100),
        ebbpool.sample(),
    ):
        again = pickle.loads(pickle.dumps(trace))
        assert again.name == trace.name
        assert references(again, tmp_path) == references(trace, tmp_path)
        assert again.key() == trace.key() and dict(again.info()) == dict(trace.info())
    by_name = pickle.dumps(ebbpool.Trace(str(SAMPLE)))
    assert len(by_name) < 1000


def test_equal_references_have_equal_keys() -> None:
    table = frame()
    arrays = ebbpool.Trace((table["page"].to_numpy(), table["write"].to_numpy()))
    assert ebbpool.Trace(table).key() == ebbpool.Trace(table.to_arrow()).key() == arrays.key()
    assert ebbpool.Trace(table, skip=1).key() != ebbpool.Trace(table).key()
    assert ebbpool.Trace(table, database_pages=9).key() != ebbpool.Trace(table).key()
    changed = table.with_columns(~pl.col("write"))
    assert ebbpool.Trace(changed).key() != ebbpool.Trace(table).key()


def test_an_array_that_the_caller_changes_has_other_results() -> None:
    pages, writes = np.arange(1000) % 50, np.zeros(1000, dtype=bool)
    trace = ebbpool.Trace((pages, writes))
    before = ebbpool.compare(trace, "lru", 10, 8)[0].writes
    writes[:] = True
    assert before == 0 and ebbpool.compare(trace, "lru", 10, 8)[0].writes > 0


def test_references_in_memory_are_not_copied_whole() -> None:
    resource = pytest.importorskip("resource")
    references = 20_000_000
    pages = np.arange(references, dtype=np.uint64) % 1000
    writes = np.zeros(references, dtype=bool)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ebbpool.compare((pages, writes), "fifo", 100, 8, cache=False)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # The arrays have 176 MB; Linux counts in KiB.
    assert grown < 60_000, grown


def test_wrong_traces_are_refused(tmp_path: Path) -> None:
    table = frame()
    cases: list[tuple[type[Exception], str, Any]] = [
        (ebbpool.TraceError, "no column has a name.*columns=", lambda: ebbpool.Trace(table.rename({"page": "x"}))),
        (ebbpool.TraceError, "no column 'nope'", lambda: ebbpool.Trace(table, columns={"page": "page", "write": "nope"})),
        (ebbpool.UsageError, "columns=", lambda: ebbpool.Trace(table, columns={"size": "x"})),
        (ebbpool.EbbpoolError, "page_size", lambda: ebbpool.Trace(table, columns={"offset": "page"})),
        (ebbpool.TraceError, "10 pages and 9 writes", lambda: ebbpool.Trace((np.arange(10), np.zeros(9, dtype=bool)))),
        (ebbpool.TraceError, "array of pages", lambda: ebbpool.Trace((np.arange(10.0), np.zeros(10, dtype=bool)))),
        (ebbpool.TraceError, "array of pages", lambda: ebbpool.Trace((np.zeros((2, 5), int), np.zeros(10, dtype=bool)))),
        (ebbpool.UsageError, "writes have to be", lambda: ebbpool.Trace((np.arange(10), 5))),
        (ebbpool.TraceFileError, "no such file, nor a generator", lambda: ebbpool.Trace("missing.parquet")),
        (ebbpool.TraceFileError, "directory", lambda: ebbpool.Trace(tmp_path)),
        (ebbpool.UsageError, "trace=: int is not a trace", lambda: ebbpool.Trace(5)),  # type: ignore[arg-type]
        (ebbpool.UsageError, "format=: no trace format is called 'nope'", lambda: ebbpool.Trace(SAMPLE, format="nope")),
        (ebbpool.UsageError, "format=: only a file", lambda: ebbpool.Trace(table, format="csv")),
        (ebbpool.UsageError, "page_size=", lambda: ebbpool.Trace(SAMPLE, page_size=0)),
        (ebbpool.UsageError, "database_pages=", lambda: ebbpool.Trace(SAMPLE, database_pages=5)),
        (ebbpool.UsageError, "key=: a key has 32 bytes", lambda: ebbpool.Trace(lambda: table, key=b"x")),
        (ebbpool.UsageError, "skip=: -1", lambda: ebbpool.Trace(SAMPLE, skip=-1)),
        (ebbpool.UsageError, "generator", lambda: ebbpool.generate("missing")),
        (ebbpool.UsageError, "the list is empty", lambda: ebbpool.compare([])),
    ]
    for error, text, make in cases:
        with pytest.raises(error, match=text):
            make()


def test_wrong_rows_are_named() -> None:
    negative = pl.DataFrame({"page": [1, 2, -3], "write": [True, False, True]})
    with pytest.raises(ebbpool.TraceError, match="row 2.*-3 is not a page number"):
        ebbpool.compare(negative, "lru", 2, 8)
    nulls = pl.DataFrame({"page": [1, None, 3], "write": [True, False, True]})
    with pytest.raises(ebbpool.TraceError, match="pages has nulls"):
        ebbpool.compare(nulls, "lru", 2, 8)
    floats = pl.DataFrame({"page": [1.5, 2.0], "write": [True, False]})
    with pytest.raises(ebbpool.TraceError, match="row 0.*a page number.*'1.5'"):
        ebbpool.compare(floats, "lru", 2, 8)
    with pytest.raises(ebbpool.TraceError, match="empty"):
        ebbpool.compare(frame()[:0], "lru", 2, 8)


def test_an_exception_of_the_callers_function_is_raised_as_it_is() -> None:
    def broken() -> Any:
        raise RuntimeError("no connection")

    with pytest.raises(RuntimeError, match="no connection") as raised:
        ebbpool.compare(broken, "lru", 2, 8)
    assert raised.value.__notes__ == ["while the trace broken was read"]


def test_a_url_is_fetched_once(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/traces/some.txt", b"R 1\nW 2\nR 1\n")
    trace = ebbpool.Trace("memory://traces/some.txt")
    assert trace.info().references == 3

"""Arrow tables that are not what Arrow says they are, and columns of other types than usual."""

from __future__ import annotations

import ast
import ctypes
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import ebbpool

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

PAGES = [1, 2, 3, 1, 2, 3]


def table(classes: Any = None, write: Any = None) -> Any:
    columns = {"page": pa.array(PAGES, pa.uint64()), "write": pa.array([True, False] * 3) if write is None else write}
    return pa.table(columns if classes is None else {**columns, "class": classes})


def texts(offsets: list[int], content: bytes, *, wide: bool = False) -> Any:
    """An array of texts, of which pyarrow checks neither offsets nor content."""
    width = np.int64 if wide else np.int32
    buffers = [None, pa.py_buffer(np.array(offsets, dtype=width).tobytes()), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_string() if wide else pa.string(), len(offsets) - 1, buffers)


#: Columns that have the type of classes, or of writes, and are not valid.
INVALID = {
    "no UTF-8": lambda: texts([0, 2, 4, 6, 8, 10, 12], b"\xff\xfe" * 6),
    "a text within a character": lambda: texts([0, 1, 2, 3, 4, 5, 6], "ÄÄÄ".encode()),
    "no UTF-8, long offsets": lambda: texts([0, 2, 4, 6, 8, 10, 12], b"\xff\xfe" * 6, wide=True),
    "an offset beyond the end": lambda: texts([0, 2000000000, 1, 1, 1, 1, 2], b"ab"),
    "an offset that runs backwards": lambda: texts([0, 2, 1, 2, 2, 2, 2], b"ab"),
    "an offset below 0": lambda: texts([0, -5, 1, 1, 1, 1, 2], b"ab"),
    "an index without a text": lambda: pa.DictionaryArray.from_arrays(pa.array([9] * 6, pa.int8()), pa.array(["a"]), safe=False),
    "an index below 0": lambda: pa.DictionaryArray.from_arrays(pa.array([-3] * 6, pa.int8()), pa.array(["a"]), safe=False),
    "a dictionary of no UTF-8": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0] * 6, pa.int8()), texts([0, 2], b"\xff\xfe"), safe=False
    ),
}


@pytest.mark.parametrize("kind", INVALID)
def test_a_column_that_is_not_valid_is_refused(kind: str) -> None:
    column = INVALID[kind]()
    for bad, columns in (
        (table(column), None),
        (table(write=column), {"page": "page", "write": "write:W"}),
    ):
        with pytest.raises(ebbpool.TraceError, match="is not a valid Arrow array") as raised:
            ebbpool.Trace(bad, columns=columns).info()
        assert "\n" not in str(raised.value)
        with pytest.raises(ebbpool.TraceError, match="'(class|write)' is not a valid Arrow array"):
            ebbpool.Trace(lambda: bad.to_reader(), columns=columns).info()


def test_texts_longer_than_their_memory_are_refused() -> None:
    # Through a stream in memory, since pyarrow makes no such array from buffers.
    sink = pa.BufferOutputStream()
    whole = table(pa.array(["x" * 77_771, *"abcde"]))
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    stream = sink.getvalue().to_pybytes()
    end = np.array([77_775, 77_776], dtype=np.int32).tobytes()
    assert stream.count(end) == 1
    longer = pa.ipc.open_stream(stream.replace(end, end[:4] + np.array([1 << 30], dtype=np.int32).tobytes()))
    with pytest.raises(ebbpool.TraceError, match="table is not valid.*larger than values array"):
        ebbpool.Trace(longer.read_all())


@pytest.mark.parametrize("columns", [0, 1])
def test_a_stream_whose_batches_lack_columns_is_refused(columns: int) -> None:
    class Stream(ctypes.Structure):
        _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next")]

    get_next = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    kept = []

    class Lying:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            capsule = table().to_reader().__arrow_c_stream__()
            stream = Stream.from_address(address(capsule, b"arrow_array_stream"))
            honest = get_next(stream.get_next)

            def lie(stream: int, array: int) -> int:
                code = honest(stream, array)
                # n_children of the structure ArrowArray of Arrow's C interface.
                ctypes.c_int64.from_address(array + 32).value = columns
                return code

            kept.append(get_next(lie))
            stream.get_next = ctypes.cast(kept[-1], ctypes.c_void_p).value
            return capsule

    with pytest.raises(ebbpool.TraceError, match="not of the type that the stream states"):
        ebbpool.Trace(Lying())
    with pytest.raises(ebbpool.TraceFileError, match="not of the type that the stream states"):
        ebbpool.Trace(lambda: Lying()).info()


def test_a_column_that_is_not_used_may_be_anything() -> None:
    bad = table().append_column("note", INVALID["no UTF-8"]())
    assert ebbpool.Trace(bad).info().references == 6


def test_texts_that_pyarrow_has_read_from_a_file_are_checked(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    content = pa.array([b"\xff\xfea", b"ok"] * 3, pa.binary())
    bad = table(pa.Array.from_buffers(pa.string(), 6, content.buffers()))
    parquet.write_table(bad, tmp_path / "in.parquet")
    with pytest.raises(ebbpool.TraceError, match="column 'class' is not a valid Arrow array: .*UTF"):
        ebbpool.Trace(parquet.read_table(tmp_path / "in.parquet")).info()


def test_writes_have_any_width_and_texts_may_be_a_dictionary() -> None:
    for width in (pa.uint16(), pa.int16(), pa.uint32(), pa.uint64(), pa.int8(), pa.int64()):
        assert ebbpool.Trace(table(write=pa.array([1, 0, 1, 0, 0, 0], width))).info().writes == 2, width
    names = pa.array(["W", "R", "update", "R", "R", "R"])
    for spelled in (names, names.dictionary_encode(), names.cast(pa.large_string()).dictionary_encode()):
        trace = ebbpool.Trace(table(write=spelled), columns={"page": "page", "write": "write:W|update"})
        assert trace.info().writes == 2, spelled.type
    with pytest.raises(ebbpool.TraceError, match="row 0.*'W' or a word for reading"):
        hole = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 3), pa.array([None, "W"]))
        ebbpool.Trace(table(write=hole), columns={"page": "page", "write": "write:W"}).info()
    with pytest.raises(ebbpool.TraceError, match="row 2.*for 'update'.*columns='page=page,write=write:update'"):
        ebbpool.Trace(table(write=names.dictionary_encode())).info()


def test_an_error_names_the_row_of_the_value() -> None:
    pages = np.arange(300_000, dtype=np.int64)
    pages[270_123] = -7
    writes = np.zeros(300_000, dtype=bool)
    for trace in (pa.table({"page": pages, "write": writes}), (pages, writes)):
        with pytest.raises(ebbpool.TraceError, match="row 270123.*-7 is not a page number"):
            ebbpool.Trace(trace).info()
    classes = np.zeros(300_000, dtype=np.int64)
    classes[280_001] = -1
    good = np.arange(300_000) % 10
    for trace in (pa.table({"page": good, "write": writes, "class": classes}), (good, writes, classes)):
        for ask in (ebbpool.Trace(trace).key, ebbpool.Trace(trace).info):
            with pytest.raises(ebbpool.TraceError, match="row 280001.*-1 is not a class; classes are whole numbers"):
                ask()


def test_whole_numbers_are_signed_so_that_differences_may_be_below_zero() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    table = pyarrow.table(ebbpool.compare("zipf:pages=500,refs=5000", ["lru", "ebb"], [10, 50], 8))
    assert table.schema.field("writes").type == pyarrow.int64()
    writes = table["writes"]
    assert compute.min(compute.subtract(writes, writes[0])).as_py() < 0


def test_parts_in_memory_number_their_devices_together() -> None:
    def devices(names: list[str], **options: object) -> ebbpool.Trace:
        table = pl.DataFrame({"time": [1.0] * len(names), "page": [1] * len(names), "op": ["W"] * len(names), "dev": names})
        return ebbpool.Trace(table, columns="time=time,page=page,write=op,volume=dev", **options)

    for by_time in (False, True):
        whole = ebbpool.Trace.concat(devices(["x", "y"]), devices(["z"]), devices(["y", "z"]), by_time=by_time)
        assert whole.info().distinct_pages == 3
        assert pickle.loads(pickle.dumps(whole)).info().distinct_pages == 3
    assert ebbpool.Trace.concat(devices(["x", "y"]), devices(["y", "x"])).key() != ebbpool.Trace.concat(devices(["x", "y"]), devices(["x", "y"])).key()
    keys = [ebbpool.Trace(pl.DataFrame({"key": key}), columns="page=key:text") for key in (["a", "b"], ["c", "d"])]
    assert ebbpool.Trace.concat(*keys).info().distinct_pages == 4
    plain = ebbpool.Trace(pl.DataFrame({"page": [1], "write": [True]}))
    with pytest.raises(ebbpool.TraceError, match="part 1 are numbered by the names .* part 2 by themselves"):
        ebbpool.Trace.concat(devices(["x"]), plain).info()
    assert ebbpool.Trace.concat(devices(["x"]), plain, apart=True).info().distinct_pages == 2
    samples = [pickle.loads(pickle.dumps(devices(names))) for names in (["x"], ["y"])]
    with pytest.raises(ebbpool.TraceError, match="numbered by names in the order"):
        ebbpool.Trace.concat(*samples).info()


def test_values_with_two_readings_are_refused() -> None:
    writes = np.array([True, False, True])
    with pytest.raises(ebbpool.TraceError, match="this machine's order of bytes"):
        ebbpool.Trace((np.array([1, 2, 3], ">i8"), writes))
    with pytest.raises(ebbpool.UsageError, match="mask"):
        ebbpool.Trace((np.ma.array([1, 2, 3], mask=[0, 1, 0]), writes))
    with pytest.raises(ebbpool.TraceError, match="2 in the array of writes is neither 0 nor 1"):
        ebbpool.Trace((np.array([1, 2, 3]), np.array([0, 1, 2], "u1"))).info()
    with pytest.raises(ebbpool.TraceError, match="2 in the column of writes is neither 0 nor 1"):
        ebbpool.Trace(pa.table({"page": [1, 2, 3], "write": [0, 1, 2]})).info()
    ends = pa.RunEndEncodedArray.from_arrays([2, 4], pa.array(["a", "b"]))
    durations = pa.array([0, 1_000_000], pa.duration("us"))
    for table, columns in [
        (pa.table({"dev": ends, "page": [1] * 4}), "page=page,volume=dev"),
        (pa.table({"t": durations, "page": [1, 2]}), "page=page,time=t"),
    ]:
        with pytest.raises(ebbpool.TraceError, match="cast it to numbers or texts"):
            ebbpool.Trace(table, columns=columns).info()
    floating = pl.DataFrame({"t": [0.000004001, 1.5], "page": [1, 2], "op": ["R", "W"]})
    assert ebbpool.Trace(floating, columns="page=page,time=t,write=op").info().references == 2


def test_answers_are_texts_of_python() -> None:
    table = pa.table({"page": [1, 2], "op": ["R", None]})
    with pytest.raises(ebbpool.TraceError) as asked:
        ebbpool.Trace(table, columns="page=page,write=op").info()
    answers = re.findall(r"columns=('(?:[^'\\]|\\.)*')", str(asked.value))
    read = [ast.literal_eval(answer) for answer in answers if "read=" in answer]
    assert ebbpool.Trace(table, columns=read[0]).info().references == 2
    table = pa.table({"page": [1, 1], "write": [True, False], "dev's file": ["a", "b"]})
    with pytest.raises(ebbpool.TraceError) as asked:
        ebbpool.Trace(table).info()
    answers = re.findall(r"columns=('(?:[^'\\]|\\.)*')", str(asked.value))
    assert ebbpool.Trace(table, columns=ast.literal_eval(answers[0])).info().distinct_pages == 2

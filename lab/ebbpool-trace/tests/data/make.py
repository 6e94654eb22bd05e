"""Makes the Parquet files of this directory, as other programs write them.

    python -m venv /tmp/venv && /tmp/venv/bin/pip install pandas pyarrow polars duckdb
    cd lab/ebbpool-trace/tests/data && /tmp/venv/bin/python make.py

Each holds the same 300 references: page (i * i * 7919) % 10007, written where
i % 3 == 0, the last page 2^63 - 1; pyarrow and polars have 2^64 - 1 there.
"""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

N = 300
pages = [(i * i * 7919) % 10007 for i in range(N)]
writes = [i % 3 == 0 for i in range(N)]
signed = pages[:-1] + [2**63 - 1]
unsigned = pages[:-1] + [2**64 - 1]

# int64 and nullable, as pandas has it by default; an extra column in front.
pd.DataFrame({"time_us": 0, "write": writes, "page": signed}).to_parquet(
    "pandas.parquet", index=False
)

# uint64, metadata, several row groups and pages, data page v2, gzip.
table = pa.table(
    {"page": pa.array(unsigned, pa.uint64()), "write": pa.array(writes)},
    metadata={
        "ebbpool.name": "from pyarrow",
        "ebbpool.page_size": "8192",
        "ebbpool.database_pages": "10007",
    },
)
pq.write_table(
    table,
    "pyarrow.parquet",
    row_group_size=200,
    data_page_size=400,
    data_page_version="2.0",
    compression="gzip",
)

pl.DataFrame(
    {"page": pl.Series(unsigned, dtype=pl.UInt64), "write": writes}
).write_parquet("polars.parquet")

# A query, Snappy, 32-bit pages where they fit.
frame = pd.DataFrame({"page": signed, "write": writes})
duckdb.sql(
    "COPY (SELECT write, page::UBIGINT AS page FROM frame) TO 'duckdb.parquet' (FORMAT parquet)"
)
frame = pd.DataFrame({"page": pages, "write": writes})
duckdb.sql(
    "COPY (SELECT page::UINTEGER AS page, write FROM frame) TO 'duckdb-32.parquet' (FORMAT parquet, CODEC lz4_raw)"
)

# Files that must be refused, naming the row.
pq.write_table(
    pa.table({"page": pa.array([1, 2, None, 4]), "write": [True] * 4}), "null.parquet"
)
pq.write_table(
    pa.table({"page": pa.array([1, 2, 3, -4], pa.int32()), "write": [True] * 4}),
    "negative.parquet",
)
pq.write_table(pa.table({"page": [1.5], "write": [1]}), "types.parquet")
pq.write_table(pa.table({"page": [1], "is_write": [True]}), "columns.parquet")
pq.write_table(pa.table({"page": pa.array([[1, 2]]), "write": [True]}), "list.parquet")

# A duration, of which Parquet keeps no unit, and several disks.
pl.DataFrame(
    {
        "page": [0, 1, 2],
        "write": [True, False, False],
        "since": pl.Series([0, 10_000, 20_000], dtype=pl.Duration("us")),
    }
).write_parquet("duration.parquet")
pd.DataFrame(
    {"disk": [0, 1, 1], "page": [7, 7, 7], "write": [True, False, False]}
).iloc[[2, 0, 1]].to_parquet("disks.parquet")

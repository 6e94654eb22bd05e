"""Results: columns for every library that reads Arrow streams, and rows."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _ebbpool

if TYPE_CHECKING:
    import polars


class Row(Mapping[str, Any]):
    """A result by the names of its columns, as attributes or as keys.

    >>> row = Row({"policy": "lru", "cost": 1.5})
    >>> row.policy, row["cost"]
    ('lru', 1.5)
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"a row has no column '{name}'; it has {', '.join(self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


class Table:
    """Results with named columns.

    `polars.DataFrame(table)`, `pyarrow.table(table)`, `duckdb.sql("from table")` and all else that reads
    `__arrow_c_stream__` take it as it is. It has a length, and rows by number, and it pickles.
    """

    # It is no Sequence: Polars would take it row by row then, and not by the stream, which has the types.

    def __init__(self, native: _ebbpool.Table, json: str = "[]", notes: Sequence[str] = ()) -> None:
        self._table = native
        self._json = json
        #: Notes on the work, such as a guess about a file, or results that were stored.
        self.notes: list[str] = list(notes)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": self._table.parts()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_table": _ebbpool.table_of_parts(state["_table"])})

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        row = at + len(self) if at < 0 else at
        if not 0 <= row < len(self):
            raise IndexError(f"there is no row {at}; the table has {len(self)}")
        return Row(self._table.row(row))

    def __iter__(self) -> Iterator[Row]:
        return (self[row] for row in range(len(self)))

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._table.columns

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as lists."""
        return self._table.to_dict()

    def to_json(self) -> str:
        """The results as the command prints them with `--format json`."""
        return self._json

    def to_polars(self) -> polars.DataFrame:
        """The results as a DataFrame of Polars."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """The results as a DataFrame of pandas. A column of whole numbers that may be missing has the type `UInt64`."""
        import pandas

        columns = {}
        for name, values in self.to_dict().items():
            present = [value for value in values if value is not None]
            missing = len(present) < len(values)
            if missing and present and all(isinstance(value, int) for value in present):
                columns[name] = pandas.array(values, dtype="UInt64")
            else:
                columns[name] = pandas.Series(values, dtype=None if present else "object")
        return pandas.DataFrame(columns)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(shown(value))}</td>" for value in row.values()) + "</tr>" for row in self
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} rows: {', '.join(self.columns)}"


def shown(value: Any) -> str:
    """A value in a table for people."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.5g}"
    return str(value)


def table_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], json: str = "[]") -> Table:
    """A table of the columns with these names."""
    native = _ebbpool.table([(name, [row.get(name) for row in rows]) for name in columns])
    return Table(native, json)

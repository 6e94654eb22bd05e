"""Databases of SQLite that write less: connections through the VFS, and what the command says of their files.

>>> import ebbpool, os, tempfile
>>> directory = tempfile.TemporaryDirectory()
>>> path = os.path.join(directory.name, "home.db")
>>> with ebbpool.sqlite.connect(path, window=30) as database:
...     _ = database.execute("CREATE TABLE t (n)")
>>> ebbpool.sqlite.status(path).healthy
True
>>> database.close()
>>> ebbpool.sqlite.status(path).plain
True
>>> directory.cleanup()

docs/sqlite.md of the project has the promise and its price: a power cut or a killed process takes the commits of at most `window`
seconds, and one process at a time has the database open. It needs Linux.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import _ebbpool
from ._arguments import number
from ._errors import EbbpoolError, UsageError
from ._table import Row

if TYPE_CHECKING:
    import sqlite3

__all__ = ["connect", "measure", "recover", "status", "uri"]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: Where the package is, as seen before the process goes to another directory.
_PACKAGE = os.path.dirname(os.path.abspath(__file__))

#: The program that runs the command: this package, whatever else has its name, and what is beside it behind everything that
#: Python finds without it. With PYTHONPATH modules there would stand before those of the standard library.
_COMMAND = """\
import importlib.util, os, sys
package = sys.argv.pop(1)
sys.path.append(os.path.dirname(package))
spec = importlib.util.spec_from_file_location(
    "ebbpool", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
)
sys.modules["ebbpool"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from ebbpool.__main__ import main
sys.exit(main())
"""

#: The longest name of a database: with that of its logs it is as long as file systems have them.
_LONGEST_NAME = 255 - len("-journal")

#: The environment variable with options of the VFS.
_VARIABLE = "EBBPOOL_SQLITE"

#: Taken by the thread that registers the VFS.
_registering = Lock()


def connect(
    path: _Path,
    window: float | None = None,
    *,
    log: str | None = None,
    memory: str | int | None = None,
    log_limit: str | int | None = None,
    checkpoint_age: float | None = None,
    **arguments: Any,
) -> sqlite3.Connection:
    """Opens a database through the VFS.

    * `window`: seconds of commits that a power cut or a killed process may take; with 0 a commit is durable when it returns.
      Without it those of the environment variable `EBBPOOL_SQLITE` count, or else 30. It is that of `path`: an attached database has
      its own, as in `ATTACH` with `uri("other.db", window=0)`
    * `log`: `"deltas"`, which writes least, or `"wal"`, which any SQLite reads
    * `memory`: of the database, such as `"32M"`; `log_limit`: the bytes of the log after which it is brought in place
    * `checkpoint_age`: the seconds after which it is
    * `arguments`: those of `sqlite3.connect`, such as `timeout`, `isolation_level` and `check_same_thread`
    """
    name = uri(path, window, log=log, memory=memory, log_limit=log_limit, checkpoint_age=checkpoint_age)
    module = _module()
    if "uri" in arguments or "database" in arguments:
        raise UsageError("uri=, database=: connect makes the URI itself; give the path")
    try:
        database: sqlite3.Connection = module.connect(name, uri=True, **arguments)
    except module.OperationalError as error:
        error.add_note(f"python -m ebbpool sqlite check {_shown(path)} says what is in the way")
        raise
    return database


def uri(
    path: _Path,
    window: float | None = None,
    *,
    log: str | None = None,
    memory: str | int | None = None,
    log_limit: str | int | None = None,
    checkpoint_age: float | None = None,
) -> str:
    """The URI of a database for `sqlite3.connect(…, uri=True)`, and for what calls that, such as Django and SQLAlchemy. The VFS
    is registered from then on, in this process. The arguments are those of `connect`."""
    environment = os.environ.get(_VARIABLE, "")
    if window is None and "window=" not in environment:
        window = 30
    given = {"window": window, "log": log, "memory": memory, "log_limit": log_limit, "checkpoint_age": checkpoint_age}
    options = "&".join(f"{name}={_value(name, value)}" for name, value in given.items() if value is not None)
    name = os.fsencode(path)
    if name in (b"", b":memory:") or name.startswith(b"file:"):
        raise UsageError(f"path=: {_shown(path)} is not the path of a file, and the VFS is for files")
    if b"\0" in name:
        raise UsageError(f"path=: {_shown(path)} has a null character")
    if sys.platform != "linux":
        raise EbbpoolError("the VFS of SQLite needs Linux; sqlite3.connect opens the database without it")
    try:
        _ebbpool.check_sqlite_options(environment)
    except (UsageError, UnicodeError) as error:
        what = str(error).removeprefix(f"{_VARIABLE}=") if isinstance(error, UsageError) else "it is not UTF-8"
        raise UsageError(f"the environment variable {_VARIABLE}: {what}") from None
    _ebbpool.check_sqlite_options(options)
    # The system takes "link/..", where a link leads elsewhere, for another directory than abspath does.
    absolute = name if os.path.isabs(name) else os.path.join(os.getcwdb(), name)
    _refuse_names_without_vfs(path, absolute)
    _register()
    return f"file:{quote(absolute)}?vfs=ebbpool&{options}"


def _refuse_names_without_vfs(path: _Path, absolute: bytes) -> None:
    """The VFS leaves some databases to SQLite by their names, and does not say so."""
    real = os.path.realpath(absolute)
    try:
        real.decode()
    except UnicodeDecodeError:
        raise UsageError(f"path=: {_shown(path)} is not UTF-8, and the VFS leaves such names to SQLite; take sqlite3.connect") from None
    if len(os.path.basename(real)) > _LONGEST_NAME:
        raise UsageError(f"path=: {_shown(path)} is a name longer than {_LONGEST_NAME} bytes, and the VFS leaves such names to SQLite")


def status(path: _Path, *, card: str | None = None) -> Row:
    """Whether all is well with a database: the fields of `ebbpool sqlite status --format json`, such as `healthy`, `findings`,
    `plain`, `health` and `card_years`. It only reads.

    * `card`: the card whose life is given; `ebbpool.devices()` lists them
    """
    return _answer("status", path, {"--card": card})


def recover(path: _Path, *, dry_run: bool = False, discard_log: bool = False, sqlite: _Path | None = None) -> Row:
    """Brings the log of a database in place that no process has open, so that it is a plain one: the fields of `ebbpool sqlite
    recover --format json`. Opening it with `connect` does the same. It raises an error if one database, or one of a directory's,
    was not recovered.

    * `dry_run`: only says what would be done
    * `discard_log`: moves a log aside that belongs to another version of the database, or goes without one that is gone
    * `sqlite`: the library with SQLite, in place of the system's `libsqlite3.so.0`
    """
    given = {"--dry-run": dry_run, "--discard-log": discard_log, "--sqlite": None if sqlite is None else os.fsdecode(sqlite)}
    return _answer("recover", path, given)


def measure(path: _Path, minutes: float = 5, *, card: str | None = None, memory: str | int | None = None) -> Row:
    """Watches what other programs write to a database with plain SQLite, and says what the VFS would write: the fields of
    `ebbpool sqlite measure --format json`. It only reads.

    * `minutes`: how long
    * `card`: the card whose life is given
    * `memory`: for the pages that are compared; others count as written whole
    """
    if memory is not None:
        memory = _value("memory", memory)
    given = {"--minutes": number("minutes", minutes), "--card": card, "--memory": memory}
    return _answer("measure", path, given)


def _module() -> Any:
    """Python's own module. Some builds of Python have none, and all else of the package works there."""
    try:
        return importlib.import_module("sqlite3")
    except ImportError as error:
        raise EbbpoolError(f"this Python has no module sqlite3: {error}") from error


def _shown(path: _Path) -> str:
    return repr(os.fsdecode(path))


def _value(name: str, value: Any) -> str:
    if name in ("window", "checkpoint_age"):
        text = number(name, value)
        try:
            float(text)
        except ValueError:
            raise UsageError(f"{name}=: {value!r} is not a number") from None
        return text
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"{name}=: {value!r} is neither a text nor a whole number")
    text = str(value)
    if not text.isalnum():
        raise UsageError(f"{name}=: {text!r} has characters that no option has")
    return text


if sys.platform == "linux":

    def _register() -> None:
        """Registers the VFS with the SQLite that Python's module calls. The native half has the VFS inside, and finds that
        SQLite as the loader does. Where it is inside the module, and hidden, SQLite loads the extension."""
        module = _module()
        with _registering:
            # Where SQLite is not inside the program, this is the file of a shared library.
            file: str | None = getattr(importlib.import_module("_sqlite3"), "__file__", None)
            why = _ebbpool.register_with_sqlite(file)
            if why is None:
                return
            if not hasattr(module.Connection, "enable_load_extension"):
                raise EbbpoolError(
                    f"{why}, and Python's sqlite3 loads no extensions: take a Python that uses a shared library of SQLite, such as "
                    "that of the system"
                )
            loader = module.connect(":memory:")
            try:
                loader.enable_load_extension(True)
                loader.load_extension(str(_ebbpool.sqlite_extension()))
            except (module.Error, UnicodeError) as error:
                raise EbbpoolError(f"SQLite does not load the VFS: {error}") from error
            finally:
                loader.close()


def _answer(subcommand: str, path: _Path, given: Mapping[str, Any]) -> Row:
    """What the command says. It runs as a process of its own: one that closes a database's file would give up the locks that
    SQLite has on it in the same process."""
    program = os.path.basename(sys.executable or "")
    # A frozen program, or a server that Python is inside of, would start itself.
    if "python" not in program.lower() or getattr(sys, "frozen", False):
        raise EbbpoolError(f"this Python has no program of its own; run: ebbpool sqlite {subcommand}")
    words = [sys.executable, "-P", "-c", _COMMAND, _PACKAGE, "sqlite", subcommand, "--format", "json"]
    for option, value in given.items():
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    # A path may begin as an option does.
    words += ["--", os.fsdecode(path)]
    if any("\0" in word for word in words):
        raise UsageError(f"{_shown(path)}, or another argument, has a null character")
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        # With exit code 1 there may be an answer: what is wrong with the database. What was not recovered is an error.
        if ended.returncode and subcommand == "recover":
            raise ValueError
        return Row(json.loads(ended.stdout))
    except ValueError:
        text = ended.stderr.decode(errors="replace").strip().removeprefix("ebbpool: ").removeprefix("error: ")
        # The words of the command line are the names of arguments here.
        text = re.sub(r"'--([a-z]+) <[^>]*>'", r"\1=", text.partition("\n\nFor more information")[0])
        raise (UsageError if ended.returncode == 2 else EbbpoolError)(text or f"the command ended with {ended.returncode}") from None

"""Connections to SQLite through the VFS, and what the command says of their files."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ebbpool
from ebbpool import _ebbpool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the VFS needs Linux")


def window_of(database: sqlite3.Connection) -> str | None:
    row = database.execute("PRAGMA ebbpool_window").fetchone()
    return None if row is None else str(row[0])


def script(text: str, *arguments: str | Path, python: str = sys.executable, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [python, "-c", textwrap.dedent(text), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})


#: Commits rows through the VFS, and is killed with the database open.
KILLED = """
    import os, signal, sys
    import ebbpool
    database = ebbpool.sqlite.connect(sys.argv[1], window=0, isolation_level=None)
    database.execute('CREATE TABLE t (n)')
    for n in range(20):
        database.execute('INSERT INTO t VALUES (?)', (n,))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_connection_writes_through_the_vfs_and_leaves_a_plain_database(tmp_path: Path) -> None:
    path = tmp_path / "home.db"
    database = ebbpool.sqlite.connect(path)
    assert window_of(database) == "30"
    database.execute("CREATE TABLE t (n)")
    for n in range(100):
        with database:
            database.execute("INSERT INTO t VALUES (?)", (n,))
    said = ebbpool.sqlite.status(path)
    assert said.healthy and said.health["process"] == os.getpid() and said.health["unsaved_commits"] > 0
    database.close()
    assert ebbpool.sqlite.status(path).plain
    assert os.listdir(tmp_path) == ["home.db"]
    with sqlite3.connect(path) as plain:
        assert plain.execute("SELECT count(*) FROM t").fetchone() == (100,)
        assert window_of(plain) is None
    plain.close()


@pytest.mark.parametrize("name", ["a b.db", "100%.db", "a?b#c&d=e.db", "ä.db", "-x.db", "a;b.db"])
def test_names_of_files_may_have_any_characters(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (name, tmp_path / name, os.fsencode(name)):
        database = ebbpool.sqlite.connect(path, 7)
        database.execute("CREATE TABLE IF NOT EXISTS t (n)")
        assert window_of(database) == "7"
        database.close()
        assert ebbpool.sqlite.status(path).plain
    assert os.listdir(tmp_path) == [name]


def test_options_and_arguments_reach_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = ebbpool.sqlite.connect(path, window=0.5, log="wal", memory="8M", log_limit=1 << 20, checkpoint_age=60, isolation_level=None)
    assert window_of(database) == "0.5" and database.isolation_level is None
    database.close()
    for arguments, words in [
        ({"window": -1}, "window=-1"),
        ({"window": "soon"}, "window=: 'soon'"),
        ({"window": None, "log": "paper"}, "log=paper"),
        ({"memory": "8M&vfs=unix"}, "memory=: '8M&vfs=unix'"),
        ({"memory": True}, "memory=: True"),
        ({"uri": True}, "uri="),
    ]:
        with pytest.raises(ebbpool.UsageError, match=words):
            ebbpool.sqlite.connect(path, **arguments)
    for other in (":memory:", "", "file:a.db", b":memory:"):
        with pytest.raises(ebbpool.UsageError, match="is not the path of a file"):
            ebbpool.sqlite.connect(other)
    with pytest.raises(sqlite3.OperationalError) as refused:
        ebbpool.sqlite.connect(tmp_path / "none" / "a.db")
    assert "sqlite check" in refused.value.__notes__[0]


def test_a_killed_process_leaves_a_database_that_is_recovered(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert script(KILLED, path).returncode == -signal.SIGKILL
    left = ebbpool.sqlite.status(path)
    assert not left.plain and left.healthy
    planned = ebbpool.sqlite.recover(path, dry_run=True)
    assert not planned.recovered and planned.steps
    assert ebbpool.sqlite.recover(path).recovered
    assert ebbpool.sqlite.status(path).plain
    plain = sqlite3.connect(path)
    assert plain.execute("SELECT count(*) FROM t").fetchone() == (20,)
    plain.close()
    with pytest.raises(ebbpool.EbbpoolError, match="no file"):
        ebbpool.sqlite.recover(tmp_path / "no file")
    with pytest.raises(ebbpool.UsageError, match="floppy"):
        ebbpool.sqlite.status(path, card="floppy")
    with pytest.raises(ebbpool.UsageError) as refused:
        ebbpool.sqlite.measure(path, 0)
    for function in (ebbpool.sqlite.status, ebbpool.sqlite.recover):
        with pytest.raises(ebbpool.UsageError, match="null character"):
            function("a\0.db")
    assert str(refused.value).startswith("invalid value '0' for minutes=: give a time above 0")
    assert "--" not in str(refused.value)


def test_what_is_wrong_is_an_answer_and_no_exception(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert script(KILLED, path).returncode == -signal.SIGKILL
    (tmp_path / "a.db-ebb").unlink()
    said = ebbpool.sqlite.status(path)
    assert not said.healthy and said.findings
    with pytest.raises(ebbpool.EbbpoolError, match="discard-log"):
        ebbpool.sqlite.recover(path)
    assert ebbpool.sqlite.recover(path, discard_log=True).steps
    assert ebbpool.sqlite.status(path).plain


def test_a_watch_says_what_would_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    plain = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    plain.execute("PRAGMA journal_mode=WAL")
    plain.execute("CREATE TABLE t (n)")
    end = threading.Event()

    def write() -> None:
        while not end.is_set():
            plain.execute("INSERT INTO t VALUES (1)")
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = ebbpool.sqlite.measure(path, 0.02, card="sd-a2", memory="64MiB")
    finally:
        end.set()
        writer.join()
        plain.close()
    assert seen.commits > 0


def test_a_python_whose_module_loads_extensions_and_one_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the functions of SQLite are hidden the extension is loaded, if the module can."""
    monkeypatch.setattr(_ebbpool, "register_with_sqlite", lambda module: f"{module}: it shows no functions of SQLite")
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        ebbpool.sqlite.connect(tmp_path / "a.db").close()
    else:
        with pytest.raises(ebbpool.EbbpoolError, match="shared library of SQLite"):
            ebbpool.sqlite.connect(tmp_path / "a.db")


def test_the_extension_is_carried_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    extension = _ebbpool.sqlite_extension()
    assert extension.is_relative_to(tmp_path) and extension.stat().st_mode & 0o077 == 0
    load = """
        import sqlite3, sys
        if not hasattr(sqlite3.Connection, 'enable_load_extension'):
            sys.exit(3)
        loader = sqlite3.connect(':memory:')
        loader.enable_load_extension(True)
        loader.load_extension(sys.argv[1])
        database = sqlite3.connect(f'file:{sys.argv[2]}?vfs=ebbpool&window=9', uri=True)
        print(database.execute('PRAGMA ebbpool_window').fetchone()[0])
    """
    if not os.path.exists("/usr/bin/python3"):
        pytest.skip("there is no /usr/bin/python3")
    loaded = script(load, extension, tmp_path / "a.db", python="/usr/bin/python3")
    if loaded.returncode == 3:
        pytest.skip("/usr/bin/python3 has no sqlite3 that loads extensions")
    assert loaded.stdout == "9\n", loaded.stderr


def test_all_is_well_where_the_library_is_preloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    program = "import sys, ebbpool; print(ebbpool.sqlite.connect(sys.argv[1], 7).execute('PRAGMA ebbpool_window').fetchone()[0])"
    words = [sys.executable, "-m", "ebbpool", "sqlite", "run", "--window", "9", "--", sys.executable, "-c", program, str(tmp_path / "a.db")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.stdout == "7\n", ended.stderr


def test_sqlalchemy(tmp_path: Path) -> None:
    sqlalchemy: Any = pytest.importorskip("sqlalchemy")
    path = tmp_path / "home.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", creator=lambda: ebbpool.sqlite.connect(path, check_same_thread=False))
    states = sqlalchemy.Table("states", sqlalchemy.MetaData(), sqlalchemy.Column("n", sqlalchemy.Integer))
    states.metadata.create_all(engine)

    def write(first: int) -> None:
        for n in range(first, first + 10):
            with engine.begin() as connection:
                connection.execute(states.insert(), {"n": n})

    threads = [threading.Thread(target=write, args=(10 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA ebbpool_window").scalar() == "30"
        assert connection.scalar(sqlalchemy.select(sqlalchemy.func.count()).select_from(states)) == 40
    assert ebbpool.sqlite.status(path).health["process"] == os.getpid()
    engine.dispose()
    assert ebbpool.sqlite.status(path).plain


def test_django(tmp_path: Path) -> None:
    pytest.importorskip("django")
    program = """
        import sys
        import django
        from django.conf import settings
        import ebbpool
        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ebbpool.sqlite.uri(sys.argv[1], window=30)}},
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        )
        django.setup()
        from django.core.management import call_command
        from django.db import connection
        call_command("migrate", verbosity=0)
        from django.contrib.auth.models import User
        for n in range(10):
            User.objects.create(username=f"user{n}")
        with connection.cursor() as cursor:
            print(User.objects.count(), cursor.execute("PRAGMA ebbpool_window").fetchone()[0])
        connection.close()
    """
    path = tmp_path / "home.db"
    ended = script(program, path)
    assert ended.stdout == "10 30\n", ended.stderr
    assert ebbpool.sqlite.status(path).plain
    assert os.listdir(tmp_path) == ["home.db"]


def test_a_name_with_dots_after_a_link_is_that_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/sub")
    with sqlite3.connect(tmp_path / "real" / "x.db") as plain:
        plain.execute("CREATE TABLE t (n)")
    plain.close()
    database = ebbpool.sqlite.connect(tmp_path / "link" / ".." / "x.db")
    assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)
    database.close()
    assert not (tmp_path / "x.db").exists()


def test_without_a_window_the_one_of_the_environment_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = script(
        """
        import sys, ebbpool
        for given in (None, 7):
            database = ebbpool.sqlite.connect(sys.argv[1], given)
            print(database.execute("PRAGMA ebbpool_window").fetchone()[0])
            database.close()
        """,
        tmp_path / "a.db",
        EBBPOOL_SQLITE="window=0",
    )
    assert ended.stdout.split() == ["0", "7"], ended.stderr


@pytest.mark.parametrize(("options", "meant"), [("windwo=5", "window"), ("window=soon", "window=soon"), ("\udcff", "UTF-8")])
def test_a_mistake_in_the_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, meant: str) -> None:
    monkeypatch.setenv("EBBPOOL_SQLITE", options)
    for function in (ebbpool.sqlite.connect, ebbpool.sqlite.uri):
        with pytest.raises(ebbpool.UsageError, match=f"EBBPOOL_SQLITE: .*{meant}"):
            function(tmp_path / "a.db")
    assert os.listdir(tmp_path) == []


def test_modules_beside_the_package_do_not_replace_those_of_the_standard_library(tmp_path: Path) -> None:
    """As `enum34` and other packages for old versions of Python do."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "ebbpool").symlink_to(Path(ebbpool.__file__).parent)
    (packages / "enum.py").write_text("raise ImportError('not the one of the standard library')")
    (tmp_path / "a.db").touch()
    program = """
        import sys
        sys.path.append(sys.argv[1])
        sys.modules.pop("ebbpool", None)
        import ebbpool
        print(ebbpool.sqlite._PACKAGE == sys.argv[1] + "/ebbpool", ebbpool.sqlite.status(sys.argv[2]).plain)
    """
    words = [sys.executable, "-I", "-S", "-c", textwrap.dedent(program), str(packages), str(tmp_path / "a.db")]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.stdout == "True True\n", ended.stderr


def test_an_absolute_path_needs_no_working_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = script(
        """
        import os, sys, ebbpool
        os.chdir(sys.argv[1])
        os.rmdir(sys.argv[1])
        ebbpool.sqlite.connect(sys.argv[2]).close()
        print(ebbpool.sqlite.status(sys.argv[2]).plain)
        """,
        gone,
        tmp_path / "a.db",
    )
    assert ended.stdout == "True\n", ended.stderr


def test_names_that_the_vfs_leaves_to_sqlite_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(os.fsdecode(b"\xff.db"))
    directory = os.fsencode(tmp_path)
    for name, words in [(b"\xff.db", "UTF-8"), (b"link.db", "UTF-8"), (b"a" * 248, "longer than 247 bytes")]:
        with pytest.raises(ebbpool.UsageError, match=words):
            ebbpool.sqlite.connect(os.path.join(directory, name))
    ebbpool.sqlite.connect(os.path.join(directory, b"a" * 247)).close()
    assert sorted(os.listdir(tmp_path)) == ["a" * 247, "link.db"]


def test_what_was_not_recovered_is_an_error(tmp_path: Path) -> None:
    ended = script(KILLED, tmp_path / "good.db")
    assert ended.returncode == -signal.SIGKILL
    script(KILLED, tmp_path / "bad.db")
    (tmp_path / "bad.db").write_bytes(b"not a database")
    with pytest.raises(ebbpool.EbbpoolError, match="1 of 2"):
        ebbpool.sqlite.recover(tmp_path)


def test_a_program_that_is_no_python_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    sqlite3.connect(path).close()
    monkeypatch.setattr(sys, "executable", "/usr/sbin/uwsgi")
    with pytest.raises(ebbpool.EbbpoolError, match="ebbpool sqlite status"):
        ebbpool.sqlite.status(path)


@pytest.mark.parametrize("wrong", [{"path": "a\0b.db"}, {"window": 10**400}, {"window": "5&memory=1M"}, {"memory": True}])
def test_arguments_that_sqlite_would_take_for_others_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ebbpool.UsageError, match=f"{next(iter(wrong))}="):
        ebbpool.sqlite.uri(**{"path": tmp_path / "a.db", **wrong})

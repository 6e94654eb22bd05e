"""Servers with the module, for postgres/check and postgres/rivals/run."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / place) for place in ("tests", "capture/rivals", "capture/rivals/postgres")]

import validate

BUILD = ROOT / "postgres/build"
#: What pgbench changes in three tables it adds to a fourth.
BALANCES = (
    "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), "
    "(select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history), "
    "(select count(*) from pgbench_history)"
)


def built(what: str, *words: str | Path, destination: Path | None = None) -> Path:
    """What postgres/build prints last, a path. Ends the program with the same code if it fails."""
    environment = dict(os.environ) | ({"DESTDIR": str(destination)} if destination else {})
    done = subprocess.run([BUILD, what, *map(str, words)], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        sys.exit(done.returncode)
    return Path(done.stdout.split()[-1])


def open_to_all(directory: Path) -> None:
    """Lets the user postgres enter a directory, or ends the program."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return
    shutil.chown(directory, "postgres")
    command = ["runuser", "-u", "postgres", "--", "test", "-w", str(directory)]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"the user postgres, as which servers run, may not enter {directory}; name a directory that all users can enter")


def policy(text: str) -> str:
    """A type of arguments: a policy, with parameters or without."""
    page = (ROOT / "docs/generated/policies.md").read_text()
    if text.split(":")[0] not in re.findall(r"^(?:## |`)([\w-]+)(?:$|` is an alias)", page, re.MULTILINE):
        raise argparse.ArgumentTypeError(f"there is no policy {text}; docs/generated/policies.md has all")
    return text


def at_least(least: int) -> Callable[[str], int]:
    """A type of arguments: whole numbers from that one on."""

    def check(text: str) -> int:
        if int(text) < least:
            raise ValueError(text)
        return int(text)

    check.__name__ = f"number of at least {least}"
    return check


def expect_taken(settings: list[str], query: Callable[[str], str]) -> None:
    """Ends the program unless a server has the module's settings that it was started with: of wrong ones it warns, and has defaults."""
    for name, value in (setting.split("=", 1) for setting in settings if setting.startswith("ebbpool.")):
        if (found := query(f"show {name}")) != value:
            sys.exit(f"the server does not take {name} = {value}, and has {found}; its log says why")


class Server(validate.Server):
    """A server that may have the module, and whose processes are killed."""

    def __init__(self, directory: Path, pg_config: Path) -> None:
        open_to_all(directory)
        super().__init__(directory, pg_config.parent)

    def make_bench(self, scale: int) -> None:
        self.make(replace(validate.WORKLOADS[0], scale=scale))

    def start_with(self, **settings: str | int) -> None:
        """Starts it with settings in its configuration, where a reload may change them; two underscores stand for a dot."""
        lines = [f"{name.replace('__', '.')} = '{value}'\n" for name, value in settings.items()]
        plain, path = self.data / "postgresql.conf.plain", self.data / "postgresql.conf"
        if not plain.exists():
            shutil.copy(path, plain)
        path.write_text(plain.read_text() + "".join(lines))
        self.start()

    def stop_after_failure(self) -> None:
        if self.running:
            self.as_owner(self.bin / "pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def refuses(self, sql: str, words: str) -> None:
        """Ends the program unless the statement fails with an error that has some words."""
        command = [self.bin / "psql", "-U", "postgres", "-h", self.directory, "-p", validate.PORT, "-d", "bench", "-Xqc", sql]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode == 0 or words not in done.stderr:
            sys.exit(f"{sql} was to fail with '{words}', and printed: {done.stderr or 'no error'}")

    def ready(self) -> bool:
        command = [self.bin / "pg_isready", "-q", "-h", self.directory, "-p", validate.PORT]
        return subprocess.run(list(map(str, command))).returncode == 0

    def wait_until_ready(self) -> None:
        for _ in range(600):
            if self.ready():
                return
            time.sleep(0.1)
        sys.exit(f"the server does not recover in a minute; {self.directory}/server.log says why")

    def load(self, transactions: int, *options: str) -> str:
        return self.client("pgbench", "-n", "-c", "8", "-j", "2", "-M", "prepared", "-t", str(transactions), *options, "bench")

    def load_beside(self, seconds: int) -> subprocess.Popen[str]:
        """A load that runs while something else happens, and may end early."""
        command = [self.bin / "pgbench", "-U", "postgres", "-h", self.directory, "-p", validate.PORT, "-n", "-c", "8", "-j", "2"]
        command += ["-M", "prepared", "-T", str(seconds), "bench"]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def balances(self) -> int:
        """Ends the program unless the balances of the four tables agree. Returns the number of transactions."""
        found = self.query(BALANCES, "bench").split("|")
        if len(set(found[:4])) != 1:
            sys.exit(f"the balances of accounts, tellers, branches and history differ: {found[:4]}")
        return int(found[4])

    def check_relations(self) -> None:
        """Heaps and indices agree, according to amcheck."""
        self.query("create extension if not exists amcheck", "bench")
        corrupt = self.query(
            "select * from pg_class c, lateral verify_heapam(c.oid) where relname like 'pgbench%' and relkind = 'r'", "bench"
        )
        if corrupt:
            sys.exit(f"amcheck finds damage: {corrupt}")
        self.query("select bt_index_check(oid, true) from pg_class where relname like 'pgbench%' and relkind = 'i'", "bench")

    def stat(self, *columns: str) -> list[str]:
        self.query("create extension if not exists ebbpool", "bench")
        return self.query(f"select {', '.join(columns)} from ebbpool_stat", "bench").split("|")

    def private_kilobytes(self) -> int:
        """Memory that only one of its processes has, of all of them together."""
        main = self.pid()
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        total = 0
        for process in [main, *map(int, children)]:
            try:
                text = Path(f"/proc/{process}/smaps_rollup").read_text()
            except OSError:
                # A process of autovacuum that has just ended.
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_Dirty:"))
        return total

    def process(self, kind: str) -> int | None:
        """A process of the server: `postmaster`, `client backend`, `checkpointer` and so on."""
        if kind == "postmaster":
            return self.pid()
        found = self.query(
            f"select pid from pg_stat_activity where backend_type = '{kind}' and pid <> pg_backend_pid() "
            "order by random() limit 1"
        )
        return int(found) if found else None

    def kill_one(self, kind: str) -> None:
        """Kills a process of a kind, for which it waits: those of autovacuum come and go."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pid = self.process(kind)
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                    return
                except ProcessLookupError:
                    pass
            time.sleep(0.1)
        sys.exit(f"the server has no process of the kind '{kind}'")

    def kill(self, kind: str) -> None:
        """Kills a process by SIGKILL, and waits until the server has recovered."""
        children = Path(f"/proc/{self.pid()}/task/{self.pid()}/children").read_text().split() if kind == "postmaster" else []
        self.kill_one(kind)
        if kind != "postmaster":
            time.sleep(0.5)
            self.wait_until_ready()
            return
        for _ in range(300):
            if not any(Path(f"/proc/{child}").exists() for child in children):
                break
            time.sleep(0.1)
        self.running = False

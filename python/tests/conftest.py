"""What the tests share: a store of results of their own, the command, and small traces."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "lab/ebbpool-trace/traces/pg-tpcc.parquet"


@pytest.fixture(autouse=True)
def store_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the results of another one."""
    monkeypatch.setenv("EBBPOOL_CACHE", str(tmp_path / "cache"))


def built_program() -> str:
    """The program that cargo has built last, or the one that EBBPOOL names."""
    built = [ROOT / "target" / profile / "ebbpool" for profile in ("short", "debug")]
    newest = max((program for program in built if program.exists()), key=lambda program: program.stat().st_mtime, default=built[0])
    return os.environ.get("EBBPOOL", str(newest))


@pytest.fixture
def command() -> Callable[..., Any]:
    """Runs the command of the program that cargo has built, and returns its JSON."""
    program = built_program()

    def run(*arguments: str) -> Any:
        words = [program, *arguments, "--format", "json"]
        finished = subprocess.run(words, capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        return json.loads(finished.stdout)

    return run

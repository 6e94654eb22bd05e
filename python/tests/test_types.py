"""Types, documentation and names of the public functions."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import ebbpool
from ebbpool import _ebbpool


def run(*words: str, cwd: Path) -> None:
    finished = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=cwd, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_types_are_strict_and_the_stub_is_that_of_the_extension() -> None:
    pytest.importorskip("mypy")
    run("mypy", "--cache-dir", str(ROOT / "target/mypy"), cwd=ROOT)
    run("mypy.stubtest", "ebbpool", "--mypy-config-file", str(ROOT / "pyproject.toml"), cwd=ROOT / "python")


def test_everything_public_has_a_docstring() -> None:
    for name in ebbpool.__all__:
        public = getattr(ebbpool, name)
        if inspect.isclass(public) or inspect.isfunction(public):
            assert inspect.getdoc(public), name
        if not inspect.isclass(public) or issubclass(public, Exception):
            continue
        for attribute, value in vars(public).items():
            if not attribute.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{attribute}"


def test_the_document_shows_everything_public() -> None:
    text = (ROOT / "docs/python.md").read_text()
    missing = [name for name in ebbpool.__all__ if name not in text]
    functions = {name: getattr(ebbpool, name) for name in ebbpool.__all__ if inspect.isfunction(getattr(ebbpool, name))}
    functions |= {"Trace": ebbpool.Trace.__init__, "Compiled": ebbpool.Compiled.__init__}
    for name in ebbpool.__all__:
        public = getattr(ebbpool, name)
        for attribute, value in vars(public).items() if inspect.isclass(public) else ():
            if attribute.startswith("_"):
                continue
            missing += [f"{name}.{attribute}"] if attribute not in text else []
            functions |= {f"{name}.{attribute}": getattr(public, attribute)} if callable(getattr(public, attribute)) else {}
    assert "Trace.sample" in functions and "Comparison.show" in functions
    unnamed = ("self", "source", "args", "kwargs")
    for name, function in functions.items():
        parameters = inspect.signature(function).parameters.values()
        named = (one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
        missing += [f"{name}({argument}=)" for argument in named if argument not in unnamed and argument not in text]
    assert missing == []


def test_columns_have_units_and_meanings() -> None:
    fields = {name: (unit, about) for name, unit, about in _ebbpool.fields("compare")}
    assert fields["cost"][0] == "page reads per reference"
    columns = ebbpool.compare("zipf:pages=100,refs=1000", "lru", 10, 8).columns
    assert list(fields) == columns
    with pytest.raises(ebbpool.UsageError):
        _ebbpool.fields("nothing")


def test_the_docstrings_make_reference_pages(tmp_path: Path) -> None:
    pytest.importorskip("pdoc")
    run("pdoc", "ebbpool", "-o", str(tmp_path), cwd=ROOT / "python")
    page = (tmp_path / "ebbpool.html").read_text()
    missing = [name for name in ebbpool.__all__ if f'id="{name}"' not in page]
    assert missing == []

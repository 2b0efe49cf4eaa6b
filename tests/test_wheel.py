"""The wheel has what it should, and works in an environment that has nothing but what it asks for.

Torch and the like are not installed again, which takes minutes: the clean environment sees the
packages that tamis declares, those that they declare, and no other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import tamis

ROOT = Path(__file__).parent.parent
PROGRAM = """
import torch
from tamis import Naive, Sieve
sieve = Sieve(torch.nn.Linear(2, 2), 1, Naive())
print(len(sieve.pick(torch.eye(2), torch.tensor([0, 1])).rows))
"""
pytestmark = pytest.mark.slow


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the release: the sdist, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an environment's programs, with tamis installed from the wheel."""
    place = tmp_path_factory.mktemp("clean")
    venv.create(place / "venv", with_pip=False)
    programs = place / "venv" / "bin"
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    borrowed = place / "borrowed"
    borrowed.mkdir()
    for part in declared("tamis"):
        for top in {file.parts[0] for file in part.files or () if file.parts[0] != ".."}:
            if not (borrowed / top).exists() and top != "__pycache__":
                (borrowed / top).symlink_to(Path(str(part.locate_file(top))))
    (packages / "borrowed.pth").write_text(f"{borrowed}\n")
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", programs / "python"]
    run(*pip, "install", "--quiet", "--no-index", wheel)  # fails where a requirement is not met
    return programs


def declared(name: str) -> list[Distribution]:
    """Find the packages that one declares, and those that they do; extras are left out."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        for text in requires(waiting.pop()) or ():
            needed = Requirement(text)
            if needed.name in found or (
                needed.marker and not needed.marker.evaluate({"extra": ""})
            ):
                continue
            try:
                found[needed.name] = distribution(needed.name)
            except PackageNotFoundError:  # pip would fail, were it needed
                continue
            waiting.append(needed.name)
    return list(found.values())


def test_what_is_in_it(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    own = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tamis").rglob("*.*")}
    own = {name for name in own if (ROOT / name).is_file() and "__pycache__" not in name}
    assert {name for name in names if name.startswith("tamis/")} == own
    assert {"tamis/py.typed", "tamis/web/templates/run.html"} <= names
    assert {name.split("/")[0] for name in names} == {
        "tamis",
        f"tamis-{tamis.__version__}.dist-info",
    }


def test_an_index_accepts_both(built: Path) -> None:
    files = sorted(built.iterdir())
    assert [path.suffix for path in files] == [".whl", ".gz"]
    printed = run(sys.executable, "-m", "twine", "check", "--strict", *files)
    assert printed.count("PASSED") == 2


def test_what_is_in_the_sdist(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"}
    assert wanted | {"tamis/__init__.py", "tests/test_wheel.py", "docs/index.md"} <= names
    assert not any(name.startswith(("results/", ".ci/")) for name in names)


def test_it_is_the_wheel_that_runs(clean: Path, tmp_path: Path) -> None:
    where = run(clean / "python", "-c", "import tamis; print(tamis.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(clean.parent)


def test_nothing_but_what_is_declared_is_needed(clean: Path, tmp_path: Path) -> None:
    assert run(clean / "tamis", "--version", cwd=tmp_path) == f"tamis {tamis.__version__}\n"
    assert "Plausible" in run(clean / "tamis", "list", cwd=tmp_path)
    assert "--slots-per-row" in run(clean / "tamis", "demo", "--help", cwd=tmp_path)
    assert run(clean / "python", "-c", PROGRAM, cwd=tmp_path) == "1\n"


def test_what_is_missing_is_named(clean: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [clean / "tamis", "demo"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "pip install 'tamis[demo]'" in done.stderr


def test_the_version_is_one(wheel: Path) -> None:
    assert wheel.name == f"tamis-{tamis.__version__}-py3-none-any.whl"


def test_extras_are_there() -> None:
    """What a page or an error message names to install can be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    paths = [*(ROOT / "tamis").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = {name for path in paths for name in re.findall(r"tamis\[([\w,]+)\]", path.read_text())}
    assert len(named) > 5
    for names in named:
        assert set(names.split(",")) <= set(project["optional-dependencies"]), names

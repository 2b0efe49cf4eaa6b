"""Each tutorial runs from a fresh install, has outputs, and uses command lines that parse."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import nbformat
import pytest
from myst_nb.core.read import read_myst_markdown_notebook

from tamis.cli.main import build_parser
from tests.test_wheel import run

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(
    page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.stem != "index"
)
EXECUTE = """
import sys
from pathlib import Path
import nbformat
from nbclient import NotebookClient
import tamis
assert Path(sys.prefix) in Path(tamis.__file__).parents, tamis.__file__
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def cells(page: Path) -> list[str]:
    notebook = read_myst_markdown_notebook(page.read_text())
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_six() -> None:
    assert len(NOTEBOOKS) == 6
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert all(f"({page.name})" in index for page in NOTEBOOKS)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=[page.stem for page in NOTEBOOKS])
def test_command_lines_parse(page: Path) -> None:
    for source in cells(page):
        for line in source.splitlines() if source.startswith("%%sh") else ():
            if line.startswith("tamis "):
                build_parser().parse_args(shlex.split(re.split(r"[|>]", line)[0])[1:])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment into which the wheel alone was installed.

    It sees the packages of this environment, as those of an extra, which take minutes to install.
    """
    place = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place)
    venv.create(place / "venv", with_pip=False)
    python = place / "venv" / "bin" / "python"
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    (own,) = (path for path in map(Path, sys.path) if path.name == "site-packages")
    (packages / "extras.pth").write_text(f"{own}\n")
    (wheel,) = place.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", python, "install", "--no-index"]
    run(*pip, "--quiet", "--no-deps", "--ignore-installed", wheel)
    return python


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=[page.stem for page in NOTEBOOKS])
def test_it_runs_from_a_fresh_install(page: Path, installed: Path, tmp_path: Path) -> None:
    notebook = read_myst_markdown_notebook(page.read_text())
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "python3"}
    nbformat.write(notebook, tmp_path / "it.ipynb")
    settings = {"PATH": f"{installed.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    settings |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(
        [installed, "-c", EXECUTE, "it.ipynb"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=settings,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    ran = nbformat.read(tmp_path / "it.ipynb", as_version=4)
    assert any(cell.get("outputs") for cell in ran.cells)
    if page.stem == "messy_table":
        assert int(re.search(r"suspects, (\d+) labels", str(ran.cells))[1]) >= 40

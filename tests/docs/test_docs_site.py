"""The site is built without a warning, has all that is public, and needs no network.

No link is dead, tables fit a laptop, axe finds no fault, and the search works from disk.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest
from sphinx.util.inventory import InventoryFile

import tamis
from tamis.cli.main import build_parser
from tamis.cli.parser import names
from tests.support.axe import faults, load_axe
from tests.support.chromium import Chromium, find_chromium
from tests.support.links import dead_links, dead_links_of_markdown
from tests.support.wide_tables import wide_tables

DOCS = Path(__file__).parents[2] / "docs"
PUBLIC = (
    "model_view", "selectors", "streams", "sources", "buffers", "losses", "models", "optim",
    "noise", "training", "training.pairs", "distributed", "monitoring", "checkpoint", "runs",
    "prediction", "review", "review.exchange", "integrations",
)  # fmt: skip
LOADED = re.compile(r"""(?:\ssrc|<link[^>]*\shref)=["'](?:https?:)?//""")
FETCHED = re.compile(r"""(?:@import\s*|url\()["']?(?:https?:)?//""")
SERIOUS = ("serious", "critical")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", str(DOCS), str(out)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    if not find_chromium():
        pytest.skip("no chromium: apt-get install chromium")
    with Chromium() as found:
        yield found


def test_pages_are_built(site: Path) -> None:
    """Each has its own, and -W has seen to it that the side bar leads there."""
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists(), page


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text()), page
    for style in site.rglob("*.css"):
        assert not FETCHED.search(style.read_text()), style


def test_every_command_is_there(site: Path) -> None:
    page = (site / "commands.html").read_text()
    for name in names(build_parser().commands):
        assert f'id="tamis-{name.replace(" ", "-")}"' in page, name


def test_every_public_name_is_there(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind in inventory.data.values() for name in kind}
    for module in (tamis, *(import_module(f"tamis.{name}") for name in PUBLIC)):
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, type | FunctionType):
                homes = {f"{module.__name__}.{name}", f"{thing.__module__}.{name}"}
                assert homes & known, homes


def test_no_link_is_dead(site: Path) -> None:
    assert dead_links(site) == []
    for page in ("README.md", "CONTRIBUTING.md"):
        assert dead_links_of_markdown(DOCS.parent / page) == []


def test_formulas_are_mathml(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "$$" not in re.sub(r"<pre>.*?</pre>", "", page.read_text(), flags=re.DOTALL), page
    assert "<munder>" in (site / "methods" / "admm.html").read_text()


def test_notebooks_have_their_outputs(site: Path) -> None:
    for page in (site / "tutorials").glob("*.html"):
        if page.stem != "index":
            assert "cell_output" in page.read_text(), page


def test_parameters_are_a_section(site: Path) -> None:
    page = (site / "api" / "training.html").read_text()
    assert page.count("Parameters") >= 3


@pytest.mark.parametrize("page", ["index", "results", "compare", "reliability", "sources"])
def test_tables_fit_a_laptop(site: Path, browser: Chromium, page: str) -> None:
    assert wide_tables(browser, site / f"{page}.html") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", ["index", "results", "tutorials/messy_table"])
def test_axe_finds_no_fault(
    site: Path, browser: Chromium, page: str, width: int, scheme: str
) -> None:
    tab = browser.open((site / f"{page}.html").as_uri(), width, 900, scheme)
    assert faults(tab, load_axe(), SERIOUS) == []
    assert tab.troubles() == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requested())
    tab.close()


def test_the_search_works_from_disk(site: Path, browser: Chromium) -> None:
    tab = browser.open((site / "search.html").as_uri() + "?q=purity")
    tab.wait("document.querySelectorAll('#search-results li a').length > 2")
    assert tab.troubles() == []
    tab.close()

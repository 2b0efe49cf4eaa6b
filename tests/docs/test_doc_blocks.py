"""Every program in README.md and docs/ runs as printed, and every command line is one.

The blocks of a page run in order, in one module and one folder. A block that begins with the name
of a file, as `# mynet.py`, is put there as well. On the first pages that somebody reads, command
lines of tamis run between the programs, too, with fewer slots.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch

from tamis.cli.main import build_parser, main
from tests.test_house import NOT_WORDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCS.rglob("*.md")}
PAGES["README.md"] = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?<![\w/.-])(?:tamis|tests|benchmarks|examples|docs|results)/[\w./-]+")
RUN = ("docs/start.md", "docs/how-to/")
"""Pages whose command lines run."""
SHORTENED = {
    "train": ["--slots", "60"], "stream": ["--slots", "60"],
    "lab": ["--slots", "20", "--seeds", "1", "--clean", "0.7", "--jobs", "1"],
}  # fmt: skip
"""What is added to command lines that would take long."""
NEVER_END = ("watch", "serve")
OTHERS = {"torchrun", "ray", "curl"}
"""Programs of others that a page may call."""
GIVEN = {
    "README.md": """
import torch
from torch.nn.functional import cross_entropy
from tamis.models import mlp
from tamis.streams import Symmetric, digits
data = digits()
_, given, _ = Symmetric(10).corrupt(data.inputs, data.labels, 0.4, torch.Generator())
model = mlp(data.input_shape, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
batches = torch.arange(len(data.labels)).split(256)
loader = [(ids, data.inputs[ids], given[ids]) for ids in batches] * 10


def train_step(x, targets):
    optimizer.zero_grad()
    cross_entropy(model(x), targets).backward()
    optimizer.step()
""",
    "docs/how-to/disk.md": """
import json
from pathlib import Path
import random
draws = random.Random(0)
rows = [(draws.random(), draws.random()) for _ in range(200)]
Path("logs").mkdir()
lines = [json.dumps({"a": a, "b": b, "kind": "ab"[a < b]}) for a, b in rows]
Path("logs/one.jsonl").write_text("".join(line + chr(10) for line in lines))
table = [f"{a},{b},{'ab'[a < b]}" for a, b in rows]
Path("rows.csv").write_text(chr(10).join(["a,b,kind", *table, ""]))
""",
    "docs/reliability.md": """
import torch
from tamis import Naive, Reservoir, Trainer
from tamis.models import mlp
model = mlp((2,), 2)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.1), Naive(), Reservoir(9))
def stream_from(slot):
    return [(torch.randn(4, 2), torch.randint(2, (4,)))] * (1_000 - slot)
""",
    "docs/service.md": """
import os
from pathlib import Path
from tests.support.services import ServeProcess, train_table
served = ServeProcess(train_table(Path("."), "--capacity", "1000"))
os.environ["TAMIS_URL"] = served.url
""",
    "docs/review.md": """
import torch
from pathlib import Path
from tamis import Naive, Reservoir, Samples, Trainer
from tamis.models import mlp
folder, classes, input_shape, model = Path("run"), ("ant", "bee"), (2,), mlp((2,), 2)
folder.mkdir()
trainer = Trainer(model, torch.optim.SGD(model.parameters(), 0.1), Naive(), Reservoir(9))
samples = Samples.of(torch.randn(4, 2), torch.randint(2, (4,)))
rows = [(samples, ["a", "b", "c", "d"])] * 3
""",
}
"""What pages take for granted: a trainer, a stream, a folder, a service."""


LONG = (
    "README.md", "docs/how-to/data.md", "docs/how-to/predict.md", "docs/integrations.md",
    "docs/scale.md", "docs/start.md",
)  # fmt: skip
"""Pages whose programs take many seconds."""


ELSEWHERE = ("docs/how-to/tasks.md",)
"""Pages that another test runs: tests/docs/test_tasks.py, as processes."""


class Block(NamedTuple):
    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall(PAGES[page])]


def with_blocks(*languages: str) -> list[str]:
    pages = sorted(PAGES)
    return [p for p in pages if any(block.language in languages for block in blocks_of(p))]


def lines_of(block: Block) -> Iterator[list[str]]:
    """Split a block into command lines, and these into words."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("until "), comments=True)
        if words:
            yield words


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, whose modules are forgotten afterwards, and a seeded generator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.filterwarnings(
    "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated"
)  # Lightning
@pytest.mark.filterwarnings("ignore:The '.*dataloader' does not have many workers")  # and again
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow) if page in LONG else page
        for page in with_blocks("python")
        if page not in ELSEWHERE
    ],
)
def test_programs_run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    exec(GIVEN.get(page, ""), module.__dict__)  # noqa: S102
    for number, block in enumerate(blocks_of(page)):
        if block.language == "python":
            if name := re.match(r"# (\w+\.py)\n", block.text):
                (folder / name[1]).write_text(block.text)
            exec(compile(block.text, f"{page}, block {number}", "exec"), module.__dict__)  # noqa: S102
        elif block.language == "sh" and page.startswith(RUN):
            for words in lines_of(block):
                run_line(words)
    if page == "README.md":
        found = module.model(module.data.test_inputs).argmax(dim=1)
        assert (found == module.data.test_labels).float().mean() > 0.85  # 40% of labels are wrong


def run_line(words: list[str]) -> None:
    """Run a command line of tamis, unless it waits for a person or for a broker."""
    if words[0] != "tamis" or words[1] in NEVER_END or "://" in words[2]:
        return
    few = SHORTENED.get(words[1], [])
    assert main([*words[1:], *few]) == 0, words


@pytest.mark.parametrize("page", with_blocks("sh"))
def test_command_lines_are_some(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page):
        for words in lines_of(block) if block.language == "sh" else ():
            check_line(words)


def check_line(words: list[str]) -> None:
    program, *rest = words
    if program == "tamis":
        for option, file in pairwise(rest):
            if option == "--config":  # it is read while the line is parsed
                Path(file).parent.mkdir(exist_ok=True)
                Path(file).write_text('file = "rows.csv"\nlabel = "kind"\n')
        build_parser().parse_args(rest)
    elif program == "make":
        assert set(rest) <= TARGETS, words
    elif program == "python" and rest[0] == "-m":
        assert find_spec(rest[1]), words
    elif program == "python":
        assert (ROOT / rest[0]).exists(), words
    elif program == "pip":
        assert rest[0] == "install", words
    else:
        assert program in OTHERS, words


def test_every_block_is_of_a_known_kind() -> None:
    """None is left out of the tests by a misspelled language: bare ones are no code."""
    for page, text in PAGES.items():
        for kind in re.findall(r"^ *```+(.*)\n(?:.*\n)*?^ *```+$", text, re.MULTILINE):
            assert kind in ("python", "sh", "") or kind.startswith("{"), f"{page}: {kind}"


def test_links_lead_somewhere() -> None:
    for page, text in PAGES.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", [*sorted(PAGES), "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"])
def test_files_that_a_page_names_exist(page: str) -> None:
    """Code, tests, programs, pages and results; `yours` stands for a file that a reader writes."""
    for name in set(NAMED.findall((ROOT / page).read_text())):
        written_later = "yours" in name or name.startswith("docs/_build")
        assert written_later or (ROOT / name.rstrip(".")).exists(), f"{page}: {name}"


@pytest.mark.parametrize("page", [*sorted(PAGES), "CONTRIBUTING.md"])
def test_pages_are_in_the_words_of_the_field(page: str) -> None:
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(rf"\b({'|'.join(NOT_WORDS)})\b", prose, re.IGNORECASE) == []


@pytest.mark.parametrize("page", sorted(PAGES))
def test_tests_that_a_page_names_exist(page: str) -> None:
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(\w+)", PAGES[page]):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{page}: {path}::{name}"


def test_the_readme_is_two_screens() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 120
    first = next(block for block in blocks_of("README.md") if block.language == "python")
    assert len(first.text.splitlines()) <= 15

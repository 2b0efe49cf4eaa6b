"""Pictures of every page for the docs, light and dark, on a phone and on a monitor.

python -m tests.support.screenshots --out results/screenshots

Runs on digits and on a table are trained for it, and `tamis demo` is run; with --work they are
kept in a folder, and taken from there the next time. The site is taken from docs/_build where it
is built. Pictures are NAME-SCHEME-WIDTH.png.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from tamis import OGRS
from tamis.cli.main import main as tamis
from tamis.runs import Run
from tamis.runs.confusion import ConfusionCounts, write_test_counts
from tamis.streams import digits
from tamis.web.review_api import ReviewAPI
from tamis.web.server import Server
from tests.support.chromium import Chromium, Tab
from tests.support.mixed_table import write_mixed
from tests.support.sample_run import CLASSES, make_run

SITE = Path("docs/_build")
SIZES = {390: 844, 1280: 1300}
"""Widths in pixels, and how high a picture is."""
COLOURS = 224
"""Colours of a picture: pages have few, and files are small."""
READY = "document.body.dataset.ready && document.querySelector('#curves :is(.chart, .empty)')"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/screenshots"))
    parser.add_argument("--work", type=Path, help="folder to keep runs in, and to take them from")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, Chromium() as browser:
        place = options.work or Path(temporary)
        for name, page in files_of(place).items():
            take_all(browser, options.out, name, page.as_uri(), "")
        with served(place / "digits-plausible") as url:
            decide(browser, url)
            take_all(browser, options.out, "review", url, READY)
        with served(train_table(place)) as url:
            near = "document.querySelectorAll('#neighbours .card').length === 5"
            take_all(browser, options.out, "review-table", url, f"{READY} && {near}")


def files_of(place: Path) -> dict[str, Path]:
    """Make the pages that are files; of the site, those that are built."""
    plausible, ogrs = place / "digits-plausible", place / "digits-ogrs"
    for folder, selector in ((plausible, None), (ogrs, OGRS())):
        if folder.exists():
            continue
        trainer = make_run(folder, selector=selector)
        data = digits()
        predicted = trainer.averaged.logits(data.test_inputs).argmax(dim=1).tolist()
        pairs = zip(data.test_labels.tolist(), predicted, strict=True)
        found = ConfusionCounts.of(
            ((CLASSES[label], CLASSES[guess]) for label, guess in pairs), "test.csv"
        )
        write_test_counts(folder, found)
    compare = place / "compare.html"
    tamis(["report", str(plausible)])
    tamis(["compare", str(plausible), str(ogrs), "--out", str(compare)])
    demo = place / "demo"
    if not demo.exists():
        tamis(["demo", "--out", str(demo)])
    pages = {"front": SITE / "index.html", "results": SITE / "results.html"}
    built = {name: page.resolve() for name, page in pages.items() if page.exists()}
    files = {"report": plausible / "report.html", "compare": compare, "demo": demo / "index.html"}
    return built | {name: page.resolve() for name, page in files.items()}


def train_table(place: Path) -> Path:
    """Train on a table of mixed columns, and return the folder of the run."""
    if (place / "customers").exists():
        return place / "customers"
    write_mixed(place / "customers.csv", 300)
    run, table = place / "customers", str(place / "customers.csv")
    tamis(["train", table, "--label", "churn", "--id", "customer", "--out", str(run)])
    return run


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a run, and yield the address."""
    server = Server(ReviewAPI(Run(folder), "ann"), "127.0.0.1", 0, None)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.url
    server.shutdown()
    server.server_close()


def decide(browser: Chromium, url: str) -> None:
    """Make two decisions, so that there are some."""
    tab = browser.open(url)
    tab.wait(READY)
    for key, word in (("r", "relabelled"), ("k", "keep")):
        tab.press(key)
        tab.wait(f"document.querySelector('#news').innerText.includes('{word}')")
    tab.close()


def take_all(browser: Chromium, out: Path, name: str, url: str, ready: str) -> None:
    """Take a page in both schemes and at both widths."""
    for scheme in ("light", "dark"):
        for width, height in SIZES.items():
            tab = browser.open(url, width, height, scheme)
            if ready:
                tab.wait(ready)
            take(tab, out / f"{name}-{scheme}-{width}.png")


def take(tab: Tab, path: Path) -> None:
    """Save a picture with few colours, and print where and how large."""
    tab.picture(path)
    tab.close()
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()

"""Pictures of every page for the docs: runs on digits and on a table, in a real browser.

python -m benchmarks.screenshots --out results/review
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from pathlib import Path

from tamis import OGRS
from tamis.cli.main import main as tamis
from tamis.runs import Run
from tamis.web.review_api import ReviewAPI
from tamis.web.server import Server
from tests.support.chromium import Chromium, Tab
from tests.support.mixed_table import write_mixed
from tests.support.sample_run import make_run

DRAWN = "document.body.dataset.ready && document.querySelector('#curves svg')"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/review"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, Chromium() as browser:
        plausible, ogrs = Path(place) / "digits-plausible", Path(place) / "digits-ogrs"
        make_run(plausible)
        make_run(ogrs, selector=OGRS())
        compare = Path(place) / "compare.html"
        tamis(["report", str(plausible)])
        tamis(["compare", str(plausible), str(ogrs), "--out", str(compare)])
        report = (plausible / "report.html").as_uri()
        for name, url, width, scheme in (
            ("report", report, 1200, "light"),
            ("report-dark", report, 1200, "dark"),
            ("report-phone", report, 390, "light"),
            ("compare", compare.as_uri(), 1200, "light"),
        ):
            take(browser.open(url, width, 1500, scheme), options.out / f"{name}.png")
        server = Server(ReviewAPI(Run(plausible), "ann"), "127.0.0.1", 0, None)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = browser.open(server.url, 1200, 1150)
        tab.wait(DRAWN)
        for key, word in (("r", "relabelled"), ("k", "keep")):
            tab.press(key)
            tab.wait(f"document.querySelector('#news').innerText.includes('{word}')")
        tab.wait("document.querySelectorAll('#neighbours .card').length === 5")
        take(tab, options.out / "review.png")
        tab = browser.open(server.url, 390, 1500)
        tab.wait(DRAWN)
        take(tab, options.out / "review-phone.png")
        server.shutdown()
        take_table(browser, Path(place), options.out)


def take_table(browser: Chromium, place: Path, out: Path) -> None:
    """Train on a table of mixed columns, and take the page of its first suspects."""
    write_mixed(place / "customers.csv", 300)
    run, table = place / "customers", str(place / "customers.csv")
    tamis(["train", table, "--label", "churn", "--id", "customer", "--out", str(run)])
    server = Server(ReviewAPI(Run(run), "ann"), "127.0.0.1", 0, None)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, width, height in (("review-table", 1200, 1000), ("review-table-phone", 390, 844)):
        tab = browser.open(server.url, width, height)
        tab.wait(f"{DRAWN} && document.querySelectorAll('#neighbours .card').length === 5")
        take(tab, out / f"{name}.png")
    server.shutdown()


def take(tab: Tab, path: Path) -> None:
    """Save a picture, and print where."""
    tab.picture(path)
    tab.close()
    print(path)


if __name__ == "__main__":
    main()

"""Find cells of tables that fold into many lines, and pages that scroll sideways, in a browser."""

from __future__ import annotations

from pathlib import Path

from tests.support.chromium import Chromium

LINES = 3
SCRIPT = """(() => {
  const found = [];
  if (document.documentElement.scrollWidth > innerWidth)
    found.push(`scrolls sideways: ${document.documentElement.scrollWidth}`);
  for (const table of document.querySelectorAll('article table.docutils')) {
    const room = table.closest('.table-wrapper') ?? table.parentElement;
    const start = table.innerText.slice(0, 60);
    if (room.scrollWidth > room.clientWidth + 1)
      found.push(`table of ${room.scrollWidth} in ${room.clientWidth}: ${start}`);
    for (const cell of table.querySelectorAll('td, th')) {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const boxes = [...range.getClientRects()].filter(box => box.height > 4);
      const ends = boxes.map(box => box.bottom).sort((a, b) => a - b);
      const lines = ends.filter((end, at) => !at || end - ends[at - 1] > 6).length;
      if (lines > MOST) found.push(`${lines} lines: ${cell.innerText.slice(0, 60)}`);
    }
  }
  return found;
})()""".replace("MOST", str(LINES))


def wide_tables(browser: Chromium, page: Path, width: int = 1280) -> list[str]:
    """Return what does not fit a window of a width."""
    tab = browser.open(page.as_uri(), width, 900)
    tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    found: list[str] = tab.run(SCRIPT)
    tab.close()
    return found

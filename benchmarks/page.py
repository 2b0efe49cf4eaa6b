"""Write docs/performance.md from the files in results/benchmarks.

python -m benchmarks.page
"""

from __future__ import annotations

from tamis.lab.pages.performance_page import PAGE, write

if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")

"""axe-core in a page of the browser."""

from __future__ import annotations

import json
from importlib.resources import files

from tests.support.chromium import Tab

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def load_axe() -> str:
    """Return the script."""
    return (files("axe_core_python") / "axe.min.js").read_text()


def faults(tab: Tab, axe: str, impacts: tuple[str, ...] = ()) -> list[str]:
    """Run axe in the page, past its policy, which allows no script of others.

    With impacts, faults of these alone.
    """
    tab.run(f"{axe}; 0")
    found = tab.run(f"axe.run(document, {{ runOnly: {json.dumps(RULES)} }})")
    assert found["passes"]
    return [
        f"{fault['id']}: {fault['help']}: {node['html'][:120]}"
        for fault in found["violations"]
        if not impacts or fault["impact"] in impacts
        for node in fault["nodes"]
    ]

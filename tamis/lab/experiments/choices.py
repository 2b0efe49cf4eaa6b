"""Arguments of the experiments, checked before minutes of work and not after."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from tamis.errors import UsageError

NEAREST = 3


def make_folder(folder: Path) -> Path:
    """Make the folder to write to, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be a folder: {error.strerror}.") from None
    return folder


def named(text: str, known: Sequence[str], flag: str) -> list[str]:
    """Read names, comma separated, of which some have a comma themselves: the longest one counts.

    >>> named("rho, average, ogrs", ["OGRS", "RHO, average"], "methods")
    ['RHO, average', 'OGRS']
    """
    spelt = {name.lower(): name for name in known}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found: list[str] = []
    while parts:
        for count in range(len(parts), 0, -1):
            name = spelt.get(", ".join(parts[:count]).lower())
            if name:
                break
        else:
            raise UsageError(f"--{flag}: no {parts[0]!r}; {nearest(parts[0], known)}.")
        found.append(name)
        del parts[:count]
    if not found:
        raise UsageError(f"--{flag} names nothing; {nearest('', known)}.")
    return list(dict.fromkeys(found))


def nearest(name: str, known: Sequence[str]) -> str:
    """Return the names nearest to a wrong one; all of them where they are few."""
    if len(known) <= 2 * NEAREST:
        return f"there are {', '.join(known)}"
    spelt = {name.lower(): name for name in known}
    begin = [word for word in spelt if name and word.startswith(name.lower())]
    near = dict.fromkeys([*begin, *get_close_matches(name.lower(), spelt, NEAREST)])
    if not near:
        few = len(known) <= 4 * NEAREST
        return f"there are {'; '.join(known)}" if few else "tamis lab bench --list names all"
    return f"nearest: {'; '.join([spelt[word] for word in near][:NEAREST])}"


def ratios(text: str, flag: str = "clean") -> list[float]:
    """Read clean ratios."""
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or not all(0 < ratio <= 1 for ratio in found):
        raise UsageError(f"--{flag} takes shares above 0 and at most 1, as 0.9,0.5, got {text!r}.")
    return list(dict.fromkeys(found))

"""Download a file once: with a progress bar, a checksum, and no partial file left behind."""

from __future__ import annotations

import hashlib
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tamis.errors import TamisError

TIMEOUT = 20


class MissingDataError(TamisError):
    """Data that is missing and cannot be downloaded; the message names the remedy."""


def download(url: str, path: Path, md5: str, needed: Sequence[Path]) -> None:
    """Download a file; where that fails, raise one sentence with the files `needed` and where."""
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fetch(url, part)
    except OSError as error:
        part.unlink(missing_ok=True)
        names = ", ".join(file.name for file in needed)
        raise MissingDataError(
            f"Missing {names} in {needed[0].parent}, and {url} cannot be reached ({error}):"
            " put the files there, or name another data folder with TAMIS_DATA or --data-folder."
        ) from None
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        part.unlink()
        raise MissingDataError(
            f"{url} came with MD5 {found}, not {md5}: nothing was kept; try again later."
        )
    part.replace(path)


def fetch(url: str, path: Path) -> None:
    """Copy what a URL holds into a file, showing progress."""
    from rich.console import (
        Console,  # only here, so that `import tamis` needs torch and numpy alone
    )
    from rich.progress import wrap_file

    with urllib.request.urlopen(url, timeout=TIMEOUT) as response, path.open("wb") as file:  # noqa: S310
        total = int(response.headers.get("Content-Length") or 0)
        with wrap_file(
            response, total, description=path.stem, console=Console(stderr=True)
        ) as body:
            while block := body.read(1 << 16):
                file.write(block)


def unpack_tar(archive: Path, folder: Path, members: Sequence[str]) -> None:
    """Write these members of an archive under a folder, and no others."""
    with tarfile.open(archive) as tar:
        for member in members:
            tar.extract(member, folder, filter="data")

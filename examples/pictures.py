"""Pictures in folders: handwritten digits, a fifth of them filed under a wrong class."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import tamis

pixels, truth = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
wrong = rng.random(1200) < 0.2
given = np.where(wrong, (truth[:1200] + rng.integers(1, 10, 1200)) % 10, truth[:1200])


def write(folder: Path, row: int) -> Path:
    """Write one digit as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{row}.png"
    Image.fromarray((pixels[row].reshape(8, 8) * 15.9).astype(np.uint8)).save(file)
    return file


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for row, label in enumerate(given):
        write(folder / "digits" / str(label), row)
    run = folder / "run"
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tamis.cli", "train", folder / "digits", "--out", run],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    listed = (run / "suspects.csv").read_text().splitlines()[1:]
    rows = [int(Path(line.split(",")[0]).stem) for line in listed]
    found = wrong[rows].mean()
    predictor = tamis.load(run)
    new = [write(folder / "new", row) for row in range(1200, len(truth))]
    right = (predictor.predict(new) == truth[1200:]).mean()
print(f"pictures: accuracy {right:.3f}, suspects {len(rows)}, share of them wrong {found:.3f}")

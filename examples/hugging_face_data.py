"""A data set of Hugging Face on the disk: patches of two photos, a fifth labelled wrongly.

`tamis train hf:NAME` does the same with a data set of the hub.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import datasets
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

import tamis

SIDE = 32
datasets.disable_progress_bars()
photos = dict(zip(("temple", "flower"), load_sample_images().images, strict=True))
rng = np.random.default_rng(0)
rows = []
for label, photo in enumerate(photos.values()):
    for _ in range(400):
        top, left = (int(rng.integers(size - SIDE)) for size in photo.shape[:2])
        rows.append((Image.fromarray(photo[top : top + SIDE, left : left + SIDE]), label))
order = rng.permutation(len(rows))
pictures = [rows[at][0] for at in order]
truth = np.array([rows[at][1] for at in order])
wrong = rng.random(len(rows)) < 0.2
given = np.where(wrong, 1 - truth, truth)
features = datasets.Features(
    {"image": datasets.Image(), "photo": datasets.ClassLabel(names=list(photos))}
)


def data_set(part: slice, labels: np.ndarray) -> datasets.Dataset:
    """Return some patches with their labels."""
    return datasets.Dataset.from_dict(
        {"image": pictures[part], "photo": labels[part]}, features=features
    )


with tempfile.TemporaryDirectory() as name:
    folder, run = Path(name, "patches"), Path(name, "run")
    both = {"train": data_set(slice(600), given), "test": data_set(slice(600, None), truth)}
    datasets.DatasetDict(both).save_to_disk(folder)
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tamis.cli", "train", folder, "--out", run],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    suspects = [int(line.split(",")[0]) for line in (run / "suspects.csv").open().readlines()[1:]]
    predicted = tamis.load(run).predict(folder / "test")
right = (predicted == np.array(list(photos))[truth[600:]]).mean()
found = wrong[suspects].mean()
print(f"photos: accuracy {right:.3f}, suspects {len(suspects)}, share of them wrong {found:.3f}")

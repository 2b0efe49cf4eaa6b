"""What `import tamis` may need."""

from __future__ import annotations

import subprocess
import sys


def test_torch_and_numpy_are_enough() -> None:
    others = "rich safetensors sklearn matplotlib pyarrow jinja2"
    program = (
        f"import sys\nfor name in {others!r}.split(): sys.modules[name] = None\n"
        "import tamis, tamis.models, tamis.streams\nprint(tamis.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

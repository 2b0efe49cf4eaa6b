"""Completion of commands and options, by the shells themselves where they are installed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tamis.cli.completion import SHELLS
from tamis.cli.completion_scripts import places, script
from tamis.cli.main import build_parser, main

TYPED = {
    "tr": {"train"},
    "train --on": {"--on-bad", "--on-disk"},
    "train x --on-bad ": {"raise", "skip", "quarantine"},
    "lab au": {"audit"},
    "lab audit --qui": {"--quiet"},
    "completion ": set(SHELLS),
}
"""What has been typed after `tamis`, and what may come next."""
BASH = """
source {script}
COMP_WORDS=(tamis {words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_tamis
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


@pytest.fixture
def file(shell: str, tmp_path: Path, capsys) -> Path:
    assert main(["completion", shell]) == 0
    path = tmp_path / f"tamis.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def test_the_shell_reads_it(shell: str, file: Path) -> None:
    done = subprocess.run([shell, "-n", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", TYPED)
def test_the_shell_completes(shell: str, file: Path, words: str) -> None:
    if shell == "zsh":
        pytest.skip("zsh completes at a terminal only")
    if shell == "fish":
        program = f"source {file}; complete -C {shlex.quote('tamis ' + words)}"
    else:
        last = " ''" if words.endswith(" ") else ""
        program = BASH.format(script=file, words=words + last)
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True)
    found = {line.partition("\t")[0].strip() for line in done.stdout.splitlines()}
    assert TYPED[words] <= found
    if not words.endswith(" "):
        assert found == TYPED[words]


@pytest.mark.parametrize("kind", SHELLS)
def test_every_command_and_option_is_in_every_script(kind: str) -> None:
    parser = build_parser()
    text = script(kind, parser)
    for place in places(parser):
        for name in place.commands:
            assert name in text
        for option in place.options:
            for name in option.names:
                assert name in text or f"-l {name[2:]}" in text or f"-s {name[1:]}" in text

"""The files of a release: citation, policies, templates and metadata agree with the package."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import tamis

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_the_citation_has_what_its_format_requires() -> None:
    """The keys that version 1.2.0 of the Citation File Format requires, and what we promise."""
    found = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(found)
    assert (found["cff-version"], found["type"]) == ("1.2.0", "software")
    assert found["version"] == tamis.__version__
    assert found["license"] == PROJECT["license"]
    for author in found["authors"]:
        assert set(author) in ({"name"}, {"family-names", "given-names"})
    for reference in found["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert reference["authors"]


def test_the_version_is_one() -> None:
    assert PROJECT["version"] == tamis.__version__
    assert f"## {tamis.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_classifiers_begin_with_the_python_that_is_required() -> None:
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if ":: Python :: 3." in line]
    assert f">={named[0]}" == PROJECT["requires-python"]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_a_template_asks_questions(name: str) -> None:
    template = read_yaml(ROOT / f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= set(template)
    ids = [field["id"] for field in template["body"]]
    assert len(ids) == len(set(ids)) >= 3
    assert any(field.get("validations", {}).get("required") for field in template["body"])


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "LICENSE", "CITATION.cff"])
def test_files_of_a_release_are_there(name: str) -> None:
    assert len((ROOT / name).read_text()) > 500

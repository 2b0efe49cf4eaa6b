"""What a Label Studio server of version 1.23.2 has sent."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

CONFIG = """<View>
  <Text name="row" value="Of $town, aged $age"/>
  <Choices name="label" toName="row" choice="single">
    <Choice value="no"/><Choice value="yes"/>
  </Choices>
</View>"""
"""Labelling configuration for the rows of `tests.support.services`."""


@cache
def _payloads() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "payloads.json").read_text())
    return found


def payload(name: str) -> Any:
    """Return one request's body, to be changed at will."""
    return deepcopy(_payloads()[name])


def webhook(name: str, label: str = "no", **data: Any) -> dict[str, Any]:
    """Return a recorded webhook about another row and label."""
    sent: dict[str, Any] = payload(name)
    if "task" in sent:
        sent["task"]["data"] = data
        sent["annotation"]["result"][0]["value"]["choices"] = [label]
        sent["project"]["label_config"] = CONFIG
    return sent

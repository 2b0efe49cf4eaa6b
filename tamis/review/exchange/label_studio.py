"""Label Studio: tasks with what the model would say, and annotations back from it.

https://labelstud.io/guide/predictions and https://labelstud.io/guide/export describe the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from tamis.checkpoint import write_atomically
from tamis.review.exchange.reviewed import Reviewed, UnreadableFileError, as_text, from_cells

LABEL, WORD, SHOWN = "label", "decision", "row"
"""Names of the two choices and of what is shown, in the project's set-up."""
TAGS = {"image": "Image", "columns": "Table", "text": "Text"}
KEPT = ("id", "given", "suggested", "score", "row", "slot")


def write_tasks(reviewed: Sequence[Reviewed], classes: Sequence[str], path: Path) -> None:
    """Write tasks as JSON, and beside them the set-up that their project needs."""
    tasks = [task_of(one) for one in reviewed]
    write_atomically(path, json.dumps(tasks, indent=1, allow_nan=False).encode())
    kind = next((name for one in reviewed for name in TAGS if name in one.show), "text")
    set_up = path.with_name(f"{path.stem}-config.xml")
    write_atomically(set_up, labelling_config(classes, kind).encode())


def labelling_config(classes: Sequence[str], kind: str) -> str:
    """Write the set-up: what is shown, a choice of classes, and what to do without a label."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    return f"""<View>
  <{TAGS[kind]} name="{SHOWN}" value="${kind}"/>
  <Choices name="{LABEL}" toName="{SHOWN}" choice="single" showInline="true">
{choices}
  </Choices>
  <Choices name="{WORD}" toName="{SHOWN}" choice="single" showInline="true">
    <Choice value="drop"/>
    <Choice value="skip"/>
  </Choices>
</View>
"""


def task_of(one: Reviewed) -> dict[str, Any]:
    """Make a task of a suspect: the suggestion is a prediction, a decision an annotation."""
    task: dict[str, Any] = {
        "data": {name: getattr(one, name) for name in KEPT} | shown(one.show, one.id)
    }
    if one.suggested is not None:
        task["predictions"] = [
            {"model_version": "tamis", "score": one.score, "result": [choice(LABEL, one.suggested)]}
        ]
    if one.decision is not None:
        words = {"drop": choice(WORD, "drop"), "skip": choice(WORD, "skip")}
        result = words.get(one.decision) or choice(LABEL, one.final or "")
        task["annotations"] = [
            {"result": [result], "completed_by": {"email": one.author}, "created_at": one.time}
        ]
    return task


def shown(show: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what Label Studio is to show."""
    if "image" in show:
        return {"image": f"data:image/png;base64,{show['image']}"}
    return {kind: show[kind] for kind in ("columns", "text") if kind in show} or {"text": name}


def choice(control: str, value: str) -> dict[str, Any]:
    """Make a choice."""
    return {
        "from_name": control, "to_name": SHOWN, "type": "choices", "value": {"choices": [value]},
    }  # fmt: skip


def read_tasks(path: Path) -> list[Reviewed]:
    """Read what Label Studio exports as JSON: of each task, the newest annotation."""
    try:
        tasks = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise UnreadableFileError(f"{path} holds no JSON that can be read.") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UnreadableFileError(f"{path} holds no list of tasks.")
    return [read_task(task) for task in tasks]


def read_task(task: dict[str, Any]) -> Reviewed:
    """Read one task."""
    data = task.get("data")
    cells = {name: data.get(name) for name in KEPT} if isinstance(data, dict) else {}
    made = task.get("annotations")
    annotations = [one for one in made if isinstance(one, dict)] if isinstance(made, list) else []
    if annotations:
        newest = max(annotations, key=lambda one: str(one.get("created_at") or ""))
        cells |= read_annotation(newest, as_text(cells.get("given")))
    return from_cells(cells)


def read_annotation(annotation: dict[str, Any], given: str | None) -> dict[str, Any]:
    """Turn an annotation into a decision."""
    found = chosen(annotation)
    who = annotation.get("completed_by")
    author = who.get("email") if isinstance(who, dict) else who
    about = {"author": author, "time": annotation.get("created_at")}
    if annotation.get("was_cancelled"):
        return {"decision": "skip"} | about
    if found.get(WORD) in ("drop", "skip"):
        return {"decision": found[WORD]} | about
    if LABEL not in found:
        return {}
    if found[LABEL] == given:
        return {"decision": "keep"} | about
    return {"decision": "relabel", "label": found[LABEL]} | about


def chosen(annotation: dict[str, Any]) -> dict[str, str]:
    """Return what was chosen, by the name of the choice."""
    result = annotation.get("result")
    found: dict[str, str] = {}
    for part in result if isinstance(result, list) else ():
        value = part.get("value") if isinstance(part, dict) else None
        choices = value.get("choices") if isinstance(value, dict) else None
        if isinstance(choices, list) and choices:
            found[str(part.get("from_name"))] = str(choices[0])
    return found

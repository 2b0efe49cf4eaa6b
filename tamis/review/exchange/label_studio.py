"""Label Studio: tasks with predictions of the model, and annotations back from it.

https://labelstud.io/guide/predictions and https://labelstud.io/guide/export describe the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from tamis.checkpoint import write_atomically
from tamis.review.exchange.rows import (
    ReviewedRow,
    UnreadableFileError,
    from_cells,
    text_or_none,
)
from tamis.runs import Decision

LABEL, ACTION, OBJECT = "label", "decision", "row"
"""Names of the two choices and of the object, in the configuration of the project."""
TAGS = {"image": "Image", "columns": "Table", "text": "Text"}
MODEL = "tamis"
"""Version of all predictions, and the title under which a backend is connected."""
DATA = ("id", "given", "suggested", "score", "row", "slot", "annotator")


def write_tasks(rows: Sequence[ReviewedRow], classes: Sequence[str], path: Path) -> None:
    """Write tasks as JSON, and beside them the labelling configuration of their project."""
    tasks = [to_task(row) for row in rows]
    write_atomically(path, json.dumps(tasks, indent=1, allow_nan=False).encode())
    kind = next((name for row in rows for name in TAGS if name in row.preview), "text")
    configuration = path.with_name(f"{path.stem}-config.xml")
    write_atomically(configuration, labelling_config(classes, kind).encode())


def labelling_config(classes: Sequence[str], kind: str) -> str:
    """Return the configuration: the object, a choice of classes, and one to drop or skip."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    return f"""<View>
  <{TAGS[kind]} name="{OBJECT}" value="${kind}"/>
  <Choices name="{LABEL}" toName="{OBJECT}" choice="single" showInline="true">
{choices}
  </Choices>
  <Choices name="{ACTION}" toName="{OBJECT}" choice="single" showInline="true">
    <Choice value="drop"/>
    <Choice value="skip"/>
  </Choices>
</View>
"""


def to_task(row: ReviewedRow) -> dict[str, Any]:
    """Return the task of a row: the suggestion is a prediction, a decision an annotation."""
    cells = row.cells()
    data = {name: cells[name] for name in DATA} | to_object(row.preview, row.id)
    task: dict[str, Any] = {"data": data}
    if row.suspect is not None:
        result = [choice(LABEL, row.suspect.suggested)]
        quality = 1 - row.suspect.score  # lowest first: the order of uncertainty sampling
        prediction = {"model_version": MODEL, "score": quality, "result": result}
        task["predictions"] = [prediction]
    if row.decision is not None:
        task["annotations"] = [to_annotation(row.decision, row.final or "")]
    return task


def to_annotation(decision: Decision, final: str) -> dict[str, Any]:
    """Return the annotation of a decision; `final` is the label that the row is to have."""
    dropped = decision.decision in ("drop", "skip")
    result = choice(ACTION, decision.decision) if dropped else choice(LABEL, final)
    return {
        "result": [result],
        "completed_by": {"email": decision.author},
        "created_at": decision.time,
    }


def to_object(preview: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what Label Studio shows."""
    if "image" in preview:
        return {"image": f"data:image/png;base64,{preview['image']}"}
    return {kind: preview[kind] for kind in ("columns", "text") if kind in preview} or {
        "text": name
    }


def choice(control: str, value: str, target: str = OBJECT) -> dict[str, Any]:
    """Return the result of a choice."""
    return {
        "from_name": control, "to_name": target, "type": "choices", "value": {"choices": [value]},
    }  # fmt: skip


def read_tasks(path: Path) -> list[ReviewedRow]:
    """Read tasks as Label Studio exports them; of each, the newest annotation counts."""
    try:
        tasks = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise UnreadableFileError(f"{path} holds no readable JSON.") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UnreadableFileError(f"{path} holds no list of tasks.")
    return [read_task(task) for task in tasks]


def read_task(task: dict[str, Any]) -> ReviewedRow:
    """Read one task."""
    data = task.get("data")
    cells = {name: data.get(name) for name in DATA} if isinstance(data, dict) else {}
    found = task.get("annotations")
    annotations = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    if annotations:
        newest = max(annotations, key=lambda one: str(one.get("created_at") or ""))
        cells |= read_annotation(newest, text_or_none(cells.get("given")))
    return from_cells(cells)


def read_annotation(annotation: dict[str, Any], given: str | None) -> dict[str, Any]:
    """Return the cells of the decision that an annotation makes."""
    found = choices_of(annotation)
    who = annotation.get("completed_by")
    author = who.get("email") if isinstance(who, dict) else who
    made = {"author": author, "time": annotation.get("created_at")}
    if annotation.get("was_cancelled"):
        return {"decision": "skip"} | made
    if found.get(ACTION) in ("drop", "skip"):
        return {"decision": found[ACTION]} | made
    if LABEL not in found:
        return {}
    if found[LABEL] == given:
        return {"decision": "keep"} | made
    return {"decision": "relabel", "label": found[LABEL]} | made


def choices_of(annotation: dict[str, Any]) -> dict[str, str]:
    """Return the values chosen, by the name of the choice."""
    result = annotation.get("result")
    found: dict[str, str] = {}
    for part in result if isinstance(result, list) else ():
        value = part.get("value") if isinstance(part, dict) else None
        choices = value.get("choices") if isinstance(value, dict) else None
        if isinstance(choices, list) and choices:
            found[str(part.get("from_name"))] = str(choices[0])
    return found

"""The labelling configuration of a project: which choice is the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from tamis.review.exchange.label_studio import ACTION, LABEL, choice, choices_of
from tamis.web.service_records import RequestError

LONGEST = 2**20
"""Characters of a configuration, at the most."""


class LabelConfigError(RequestError):
    """A labelling configuration without a label that can be trained on, in one sentence."""


@dataclass(frozen=True)
class LabelControl:
    """The choice that is the label.

    Parameters
    ----------
    name: name of the choice.
    object: name of what is labelled.
    labels: what can be chosen; empty where each task brings its own.
    action: name of the choice to drop or skip a row, as `tamis export` writes it, if there is one.
    """

    name: str
    object: str
    labels: tuple[str, ...] = ()
    action: str | None = None

    def allows(self, label: str) -> bool:
        """Return whether a label can be chosen."""
        return not self.labels or label in self.labels

    def result(self, label: str) -> list[dict[str, Any]]:
        """Return the result of a prediction; none where the label cannot be chosen."""
        return [choice(self.name, label, self.object)] if self.allows(label) else []

    def label_of(self, annotation: dict[str, Any]) -> str | None:
        """Return the label that an annotation chooses, if it chooses one."""
        return choices_of(annotation).get(self.name)

    def drops(self, annotation: dict[str, Any]) -> bool:
        """Return whether an annotation has the row dropped."""
        return self.action is not None and choices_of(annotation).get(self.action) == "drop"


def read_config(text: object) -> LabelControl:
    """Return the choice that is the label: the only one of one class, or the one named `label`.

    >>> choices = '<Choice value="cat"/><Choice value="hound" alias="dog"/>'
    >>> read_config(f'<View><Choices name="kind" toName="row">{choices}</Choices></View>').labels
    ('cat', 'dog')
    """
    # Without a DTD there are no entities, and so no attacks by them.
    if not isinstance(text, str) or len(text) > LONGEST or "<!" in text.replace("<!--", ""):
        raise LabelConfigError("The project has no labelling configuration that can be read.")
    try:
        tags = list(ElementTree.fromstring(text).iter("Choices"))  # noqa: S314
    except ElementTree.ParseError as error:
        raise LabelConfigError(f"The labelling configuration is not XML: {error}.") from None
    action = next((tag for tag in tags if tag.get("name") == ACTION), None)
    single = [tag for tag in tags if tag is not action and is_single(tag)]
    named = [tag for tag in single if tag.get("name") == LABEL]
    if len(found := named or single) != 1:
        raise LabelConfigError(
            f"The labelling configuration has {len(found)} <Choices> of one class for the complete"
            f" task; it needs one, or one named {LABEL!r}, since that is the label."
        )
    name, target = found[0].get("name"), found[0].get("toName")
    if not name or not target:
        raise LabelConfigError("The <Choices> of the labelling configuration lack name or toName.")
    labels = (tag.get("alias") or tag.get("value") or "" for tag in found[0].iter("Choice"))
    return LabelControl(
        name, target, tuple(label for label in labels if label), None if action is None else ACTION
    )


def is_single(tag: ElementTree.Element) -> bool:
    """Return whether one class is chosen, and for the task, not for a region of it."""
    chosen = tag.get("choice", "single")
    return chosen in ("single", "single-radio") and tag.get("perRegion", "false") != "true"

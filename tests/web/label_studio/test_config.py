"""Which choice of a labelling configuration is the label."""

from __future__ import annotations

import pytest

from tamis.review.exchange.label_studio import labelling_config
from tamis.web.label_studio import LabelConfigError, read_config
from tests.web.label_studio.recorded import payload

CHOICES = '<Choices name="{}" toName="row" {}><Choice value="cat"/><Choice value="dog"/></Choices>'
MULTIPLE, PER_REGION = 'choice="multiple"', 'perRegion="true"'


def test_configuration_of_a_real_project() -> None:
    control = read_config(payload("setup")["schema"])
    assert (control.name, control.object, control.labels) == ("label", "row", ("cat", "dog"))
    assert control.action is None


def test_configuration_that_export_writes() -> None:
    control = read_config(labelling_config(["cat", '<dog & "hound">'], "text"))
    assert control.labels == ("cat", '<dog & "hound">')
    assert control.action == "decision"


def test_the_choice_named_label_is_it_among_others() -> None:
    others = CHOICES.format("mood", "") + CHOICES.format("label", 'choice="single-radio"')
    assert read_config(f"<View>{others}</View>").name == "label"


def test_choices_that_tasks_bring_allow_all_labels() -> None:
    control = read_config('<View><Choices name="label" toName="row" value="$options"/></View>')
    assert control.allows("anything")
    assert control.result("anything")


def test_a_label_that_cannot_be_chosen_has_no_result() -> None:
    control = read_config(payload("setup")["schema"])
    assert control.result("fox") == []
    (part,) = control.result("dog")
    assert part == {
        "from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": ["dog"]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "can be read"),
        ("x" * 2_000_000, "can be read"),
        ("<View>", "not XML"),
        ("<View/>", "has 0 <Choices>"),
        (f"<View>{CHOICES.format('a', MULTIPLE)}</View>", "has 0 <Choices>"),
        (f"<View>{CHOICES.format('a', PER_REGION)}</View>", "has 0 <Choices>"),
        (f"<View>{CHOICES.format('a', '')}{CHOICES.format('b', '')}</View>", "has 2 <Choices>"),
        ('<View><Choices name="a"/></View>', "lack name or toName"),
        ('<View><Rectangle name="a" toName="row"/></View>', "has 0 <Choices>"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><View>&b;</View>', "can be read"),
    ],
)
def test_others_are_refused_in_one_sentence(text: object, fault: str) -> None:
    with pytest.raises(LabelConfigError, match=fault):
        read_config(text)

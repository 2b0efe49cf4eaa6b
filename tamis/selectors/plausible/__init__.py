"""Plausible labels first, then what there is most to learn from: the project's own rule."""

from tamis.selectors.plausible.rule import Parts, Plausible

__all__ = ["Parts", "Plausible"]

"""Experiments: one file each, settings in a dataclass on top."""

"""Measurements: commands, never tests."""

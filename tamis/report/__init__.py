"""Plots and pages, made from logs."""

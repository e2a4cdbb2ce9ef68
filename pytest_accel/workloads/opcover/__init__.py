"""Operator coverage: which operators there are (no torch), how each is called and judged, and how a failure is reproduced."""

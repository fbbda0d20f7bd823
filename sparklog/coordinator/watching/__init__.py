"""Metrics and samples of a coordinator, made from one `Observation` at a time. Read observation.py first."""

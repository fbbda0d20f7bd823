"""Metrics and samples of a coordinator, which are made from an `Observation`. Read observation.py first."""

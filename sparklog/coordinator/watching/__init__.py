"""The metrics and samples of a coordinator, and its checks of the stores. Read observation.py first."""

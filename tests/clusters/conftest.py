"""Fixtures of tests that run artefacts instead of the source tree."""

from tests.clusters.artefacts import dist as dist

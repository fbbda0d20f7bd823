"""Restores a cluster whose metadata is lost. Read restore_cluster.py first."""

"""Producers and applications that may write a thing only once: sequence numbers, epochs, versions."""

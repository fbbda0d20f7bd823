"""Random histories of a log with all of its maintenance, beside a model of what must be in it.

Begin with `history.py`: the steps. `partition_model.py` says what must hold, `processes.py` how processes die.
"""

"""The options of `format("sparklog")`, from what a user typed to checked, typed values. No I/O.

Read registry.py first: every option is one line there. given.py sorts what was given, typed.py checks it.
"""

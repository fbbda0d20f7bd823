"""The options of `format("sparklog")`, from a user's text to checked, typed values. No I/O.

Read registry.py first: it declares every option. given.py sorts what the user gave, typed.py checks it.
"""

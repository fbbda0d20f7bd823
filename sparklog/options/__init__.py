"""The options of `format("sparklog")`, from a user's text to checked, typed values. No I/O.

Read registry.py first: it declares every option. given.py sorts the given options, typed.py checks them.
"""

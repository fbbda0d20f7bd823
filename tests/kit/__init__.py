"""Tools that tests of several folders share.

`pandas_hidden.py`: for processes that live for seconds. `silent_console.py`: consoles for jobs whose output a test does
not read, or reads at the end.
"""

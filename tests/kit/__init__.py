"""Tools that tests of several folders share.

`pandas_hidden.py`: for processes that live for seconds. `quick_folder.py`: where temporary folders go.
`silent_console.py`: consoles for jobs whose output a test does not read, or reads at the end.
"""

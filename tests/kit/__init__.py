"""Tools that tests of several folders share.

`quick_folder.py`: where temporary folders go. `silent_console.py`: consoles for jobs whose output a test does not read,
or reads at the end.
"""

"""Tools that tests of several folders share. README.md says which to use when."""

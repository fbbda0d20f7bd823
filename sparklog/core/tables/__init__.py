"""The tables of the state, as columns cut into blocks that states share (copy on write).

Read column_blocks.py first, then slice_table.py.
"""

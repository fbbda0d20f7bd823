"""What `make dist` makes: its bytes, and runs on real clusters whose machines have no sparklog.

`page.py` runs the blocks of docs/clusters.md; read it first.
"""

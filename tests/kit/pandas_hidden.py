"""Import this first in a process of its own that lives for seconds: it does without pandas from then on.

If pandas is installed, pyarrow imports it for the first array it makes of Python values: 0.3 s of processor time.
"""

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    """A `None` in sys.modules would not do: pyarrow would take it for pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden in this process", name=name)


sys.meta_path.insert(0, _NoPandas())

"""Installs the alias when Python starts in a process started by ``zarrio exec``, directly or indirectly.

Python imports the module ``sitecustomize`` when it starts; ``zarrio exec`` adds the folder of this one to
``PYTHONPATH``. The next module of that name on the path, if any, is run as well.

Source: Python, module ``site``.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

try:
    from hdmf_zarr_backend.alias import add_finder
except ModuleNotFoundError:  # the Python of another environment
    print(f"zarrio exec: hdmf-zarr-backend is not installed for {sys.executable}", file=sys.stderr)  # noqa: T201
else:
    add_finder()

_here = os.path.dirname(os.path.abspath(__file__))
# a site may have a sitecustomize of its own, for coverage or a debugger; Python would have run only this one
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _here]
_next = PathFinder.find_spec("sitecustomize", sys.path)
if _next is not None and _next.loader is not None:
    _module = module_from_spec(_next)
    sys.modules["sitecustomize"] = _module
    _next.loader.exec_module(_module)

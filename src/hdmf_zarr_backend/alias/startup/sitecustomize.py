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


def _install_alias() -> None:
    try:
        from hdmf_zarr_backend.alias.installing import add_finder
    except ModuleNotFoundError:  # the Python of another environment
        print(f"zarrio exec: hdmf-zarr-backend is not installed for {sys.executable}", file=sys.stderr)  # noqa: T201
    else:
        add_finder()


def _run_next() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_install_alias()
_run_next()

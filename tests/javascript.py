"""JavaScript: node, and zarrita, which npm installs once, beside the peers and below the same folder.

``HDMF_ZARR_BACKEND_ZARRITA`` names a folder in which ``npm install zarrita`` was run, to be used instead. Node is no
package that can be installed by pip, so what needs it is skipped where it is absent.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.peers import PeerUnavailableError, installed, npm_install

RELEASE = "0.7.5"

READ_WITH_ZARRITA = """
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";
import fs from "node:fs";
const isOdd = (value) => typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
const plain = (value) => (isOdd(value) ? String(value) : value);
const reported = {};
for (const [place, format, root, names, isConsolidated] of JSON.parse(fs.readFileSync(0, "utf8"))) {
  const open = format === 3 ? zarr.open.v3 : zarr.open.v2;
  let store = new FileSystemStore(root);
  reported[place] = { arrays: {}, listed: [] };
  if (isConsolidated) {
    store = await zarr.withConsolidatedMetadata(store, { format: `v${format}` });
    reported[place].listed = store.contents().filter(({ kind }) => kind === "array").map(({ path }) => path.slice(1));
  }
  for (const name of names) {
    try {
      const got = await zarr.get(await open(zarr.root(store).resolve(name), { kind: "array" }));
      const isScalar = got?.data === undefined;
      const values = isScalar ? [got] : Array.from(got.data);
      reported[place].arrays[name] = { shape: isScalar ? [] : got.shape, values: values.map(plain) };
    } catch (error) {
      console.error(name, String(error));
    }
  }
}
console.log(JSON.stringify(reported));
"""
"""Prints of each file the shape and the values of each array that it reads, and the arrays that are consolidated."""


def run_node(script: str, folder: Path, *, told: Any, modules: Path | None = None) -> Any:
    """Run a module of JavaScript, which gets `told` as JSON and the packages of ``modules``; return what it prints."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on the path")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "script.mjs"
    path.write_text(script, encoding="utf-8")
    if modules is not None and not (folder / "node_modules").exists():
        (folder / "node_modules").symlink_to(modules / "node_modules")
    options: dict[str, Any] = {"text": True, "encoding": "utf-8", "timeout": 300}
    answer = subprocess.run([node, path], input=json.dumps(told), capture_output=True, check=False, **options)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout)


def zarrita_folder() -> Path:
    """Return a folder whose ``node_modules`` has zarrita; skip where it cannot be had, with the reason."""
    result = _zarrita()
    if isinstance(result, str):
        pytest.skip(result)
    return result


@lru_cache(maxsize=1)
def _zarrita() -> Path | str:
    """Return the folder, or the reason why it cannot be had; npm runs once per session."""
    named = os.environ.get("HDMF_ZARR_BACKEND_ZARRITA")
    if named:
        return Path(named).expanduser().absolute()
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm on the path, and HDMF_ZARR_BACKEND_ZARRITA names no folder with zarrita"
    try:
        return installed(f"zarrita-{RELEASE}", lambda folder: npm_install([npm], f"zarrita@{RELEASE}", folder))
    except PeerUnavailableError as error:
        return str(error)

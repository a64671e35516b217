"""A process with little memory that does with hostile files whatever a user may do, and hears of what it should not do.

``python -m tests.hostile.operations NUMBER ...`` does all operations with the files of these numbers, and prints a
line of JSON for each that did not end as it may: with a result, an error of this package, or an exit of the command
line that says why. A line of a number alone says which file comes next.
"""

from __future__ import annotations

import io as streams
import json
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import obstore  # noqa: F401 - a library that is loaded later has no room in the address space

from hdmf_zarr_backend import NWBZarrIO, ZarrIO, convert
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.options import ReadOptions
from tests import trees
from tests.hostile.files import SECRET, HostileFile, all_files

MEMORY = 2**30
"""Bytes of address space beyond what the process has when it begins."""

SECONDS, MINUTES = 20.0, 3.0
"""The longest that one operation may take of the time of the processor, and of the day."""

_CODE = ("exec", "compile")
_REFUSED = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
            "pickle.find_class", "ctypes.dlopen", "urllib.Request", "webbrowser.open")  # fmt: skip
_PATHS = {"open": (0,), "os.remove": (0,), "os.rename": (0, 1), "os.mkdir": (0,), "os.rmdir": (0,), "os.listdir": (0,),
          "os.scandir": (0,), "os.symlink": (1,), "os.link": (0, 1), "os.chmod": (0,), "os.truncate": (0,),
          "shutil.rmtree": (0,), "shutil.move": (0, 1), "os.utime": (0,), "os.chdir": (0,)}  # fmt: skip
_LOOPBACK = ("127.", "::1", "localhost")


class ForbiddenError(BaseException):
    """Something was touched that must not be."""


class TooLongError(BaseException):
    """An operation takes too long."""


class Guard:
    """Forbids what no file may lead to."""

    def __init__(self) -> None:
        self.folder = ""
        self.is_on = False
        self.heard: list[str] = []
        own = Path(__file__).resolve().parents[2] / "src"
        self._code = tuple(str(Path(place).resolve()) for place in (sys.prefix, sys.base_prefix, own))

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Note and forbid."""
        if not self.is_on or not self._is_forbidden(event, args):
            return
        self.is_on = False
        self.heard.append(f"{event} {args!r:.300}")
        raise ForbiddenError(event)

    def _is_forbidden(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "ctypes.dlopen" and (args[0] is None or str(args[0]).startswith(self._code)):
            return False  # this process itself, or a filter that is installed
        if event in _REFUSED:
            return True
        if event in ("socket.connect", "socket.getaddrinfo"):
            host = args[1][0] if event == "socket.connect" and isinstance(args[1], tuple) else args[0]
            return not str(host).startswith(_LOOPBACK)
        if event in _CODE:
            return self._is_foreign_code(event, args)
        if event in ("os.listdir", "os.scandir") and _is_importing():
            return False  # it looks for the module
        if event in _PATHS:
            return any(not self._may_touch(args[n], event, args) for n in _PATHS[event] if n < len(args))
        return False

    def _is_foreign_code(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "compile":
            source, name = args
            if isinstance(source, bytes) and source.isdigit():
                return False  # NumPy asks `ast` what the digits in a data type mean
        else:
            name = args[0].co_filename
        name = name.decode() if isinstance(name, bytes) else str(name)
        return not (name.startswith((*self._code, "<frozen")) or _is_importing())

    def _may_touch(self, path: Any, event: str, args: tuple[Any, ...]) -> bool:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return True  # a number of an open file
        try:
            real = os.path.realpath(path if os.path.isabs(path) else os.path.join(self.folder, path))
        except ValueError:
            return True  # no path: nothing is touched
        flags = args[2] if event == "open" and len(args) > 2 and isinstance(args[2], int) else 0
        if flags & os.O_DIRECTORY:
            return True  # a local file may lead anywhere: what it leads to is looked at, and must be a Zarr file
        is_writing = event not in ("open", "os.listdir", "os.scandir", "os.chdir") or flags & (os.O_WRONLY | os.O_RDWR)
        if real == self.folder or real.startswith(f"{self.folder}/") or real == os.devnull:
            return True
        if not is_writing and not os.path.exists(real):
            return True  # nothing is there to be read
        return not is_writing and real.startswith((*self._code, "/usr/share/zoneinfo", "/proc/"))


def _is_importing() -> bool:
    """Tell whether a module is being imported: libraries make classes of text when they are."""
    frame: Any = sys._getframe(3)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# ---- what a user does -----------------------------------------------------------------------------------------------


class EndedBadlyError(Exception):
    """The command line ended with something else than 0, 1 or 2, or told of an error that is not ours."""


def command(*arguments: str | Path) -> str:
    """Run the command line, and return how it ended."""
    out, err = streams.StringIO(), streams.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    said = err.getvalue()
    if code not in (0, 1, 2) or "Traceback" in said or "the operating system refuses" in said:
        raise EndedBadlyError(f"exit {code}: {said[-500:]}")
    if code == 2 and "zarrio: " not in said:
        raise EndedBadlyError("exit 2 without a word")
    if SECRET.decode() in out.getvalue():
        raise EndedBadlyError("the secret is shown")
    return f"exit {code}"


def _nodes(io: ZarrIO) -> Iterator[Any]:
    stack, seen = [io.read_builder()], set()
    while stack:
        builder = stack.pop()
        if id(builder) in seen:
            continue
        seen.add(id(builder))
        yield builder
        for members in (getattr(builder, "groups", {}), getattr(builder, "datasets", {})):
            stack.extend(members.values())
        stack.extend(link.builder for link in getattr(builder, "links", {}).values())


def _datasets(path: Path, *selections: Any) -> None:
    failed: ZarrBackendError | None = None
    with ZarrIO(path, "r") as io:
        for builder in _nodes(io):
            repr(builder.attributes)
            data = getattr(builder, "data", None)
            if not hasattr(data, "shape") or isinstance(data, np.generic | np.ndarray):
                continue
            for selection in selections:
                try:
                    found = data[()] if data.shape == () else data[selection]
                    if isinstance(found, np.ndarray):
                        repr(found.reshape(-1)[:3].tolist())
                except IndexError:
                    if data.shape and data.shape[0]:
                        raise
                except ZarrBackendError as error:
                    failed = error
    if failed is not None:
        raise failed


def read(path: Path) -> None:
    """Read every value; and open it with its cached namespaces, as pynwb does."""
    try:
        _datasets(path, slice(None))
    finally:
        with NWBZarrIO(path, "r"):
            pass


def slice_(path: Path) -> None:
    """Read some values."""
    _datasets(path, 0, slice(-1, None), slice(None, None, 2))


def append(path: Path) -> None:
    """Add a group with a dataset."""
    with ZarrIO(path, "a") as io:
        builder = io.read_builder()
        builder.set_group(trees.group("added", trees.dataset("values", np.arange(3))))
        io.write_builder(builder)


def verify(path: Path) -> str:
    """Look for damage, by all that is known."""
    return command("verify", "--level", "schema", path) + command("verify", path)


def repair(path: Path) -> str:
    """Repair what can be."""
    return command("repair", path)


def inspect(path: Path) -> str:
    """Show everything."""
    if path.suffix == ".h5":
        return command("dry-run", "--all", path)
    return command("inspect", "--all", "--attributes", path) + command("inspect", "--json", "--specs", path)


def diff(path: Path) -> str:
    """Compare with itself, with a file of the other format, and with one of the same."""
    near = path.parent / "near.h5"
    with h5py.File(near, "w") as file:
        file["plain"] = np.zeros((6, 4), "i2")
        file["odd"] = np.zeros(3, "i2")
    return command("compare", path, path) + command("compare", path, near)


def report(path: Path) -> str:
    """Make a page."""
    return command("report", "--overwrite", "--level", "chunks", "-o", path.parent / "page.html", path)


def validate(path: Path) -> str:
    """Hold it against what is cached in it."""
    return command("validate", path)


def converted(path: Path) -> None:
    """Convert it to the other format; of HDF5 with the policy that keeps its external links inside the folder."""
    if path.suffix == ".h5":
        convert(path, path.parent / "made.zarr", check=False, read_options=ReadOptions(external_links="within"))
        convert(path.parent / "made.zarr", path.parent / "back.h5", check=False)
    else:
        convert(path, path.parent / "made.h5", check=False)


def upgrade(path: Path) -> str:
    """Give it the metadata of format 3."""
    return command("upgrade", path)


OPERATIONS: dict[str, Callable[[Path], Any]] = {
    "read": read, "slice": slice_, "append": append, "verify": verify, "repair": repair, "inspect": inspect,
    "compare": diff, "report": report, "validate": validate, "convert": converted, "upgrade": upgrade,
}  # fmt: skip


# ---- how it ends ----------------------------------------------------------------------------------------------------


def misbehave(number: int) -> Callable[[Path], Any]:
    """Return what no file may lead to, each in turn; for the test of the guard."""
    misdeeds: list[Callable[[Path], Any]] = [
        lambda path: os.system("true"),  # noqa: S605 - to be forbidden
        lambda path: path.parts[1000],
        lambda path: bytearray(4 * MEMORY),
        lambda path: Path("/etc/passwd").read_bytes(),
        lambda path: (path.parents[1] / "outside" / "x").write_bytes(b""),
        lambda path: eval("1"),  # noqa: S307 - to be forbidden
        lambda path: Path(f"{path.parent}/../outside/secret").read_bytes(),
    ]
    return misdeeds[number]


def run(files: list[tuple[int, HostileFile]], operations: dict[str, Callable[[Path], Any]]) -> None:
    """Do all operations with each file, and print what did not end as it may."""
    guard = Guard()
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="hostile")))
    outside = root / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    with h5py.File(outside / "other.h5", "w") as file:
        file["x"] = np.frombuffer(SECRET[:32], "i4")[:4]
    before = _fingerprint(outside)
    _warm(root)
    sys.addaudithook(guard)
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    _limit_memory()
    for number, hostile in files:
        print(number, flush=True)  # noqa: T201 - to the test
        for name, operation in operations.items():
            folder = root / "inside"
            folder.mkdir()
            path = hostile.make(folder)
            guard.folder, guard.heard = str(folder), []
            kind, trace = _ended(guard, operation, path)
            if _fingerprint(outside) != before:
                kind, trace = "!outside", "what is outside has changed"
            if not kind.startswith("!") and _tells(folder, path):
                kind, trace = "!secret", "the secret was copied"
            if kind.startswith("!"):
                said = {"file": hostile.name, "operation": name, "kind": kind, "trace": trace}
                print(json.dumps(said), flush=True)  # noqa: T201 - to the test
            _remove(folder)
    _remove(root)


def _ended(guard: Guard, operation: Callable[[Path], Any], path: Path) -> tuple[str, str]:
    os.chdir(path.parent)
    trace = ""
    _set_timers(SECONDS, 60 * MINUTES)
    guard.is_on = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = str(operation(path))
    except ZarrBackendError as error:
        guard.is_on = False
        kind = type(error).__name__
        if not str(error) or not kind[0].isupper():
            kind = "!silent"
    except BaseException as error:  # noqa: BLE001 - what it is, is what is asked
        guard.is_on = False  # a traceback compiles the lines that it shows
        _set_timers(0, 0)
        kind, trace = f"!{type(error).__name__}", traceback.format_exc(limit=-12)[-3000:]
    finally:
        guard.is_on = False
        _set_timers(0, 0)
    if guard.heard:
        return "!forbidden", "; ".join(guard.heard)
    return kind, trace


def _fingerprint(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def _tells(folder: Path, path: Path) -> bool:
    """Tell whether something that was made in the folder has the secret in it."""
    for place, _, names in os.walk(folder):
        for name in names:
            made = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(made).st_mode) and os.lstat(made).st_size < 2**24:
                with open(made, "rb") as file:
                    if SECRET[:16] in file.read():
                        return True
    return False


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # too deep for Python
        os.system(f"rm -rf '{folder}'")  # noqa: S605 - a folder of ours


def _warm(root: Path) -> None:
    """Do everything once with whole files, so that whatever is imported or made on first use is there."""
    import pynwb  # noqa: F401 - which looks for its cache when it is imported

    from tests.hostile.files import hdf5, zarr

    for hostile in (zarr("whole"), zarr("whole", zarr_format=3), hdf5("whole", lambda file: None)):
        for operation in OPERATIONS.values():
            folder = root / "warm"
            folder.mkdir()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with suppress(ZarrBackendError):
                    operation(hostile.make(folder))
            shutil.rmtree(folder)


def _limit_memory() -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _set_timers(processor: float, day: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, processor)
    signal.setitimer(signal.ITIMER_REAL, day)


def _too_long(*_: Any) -> None:
    raise TooLongError


if __name__ == "__main__":
    if sys.argv[1] == "misbehave":
        named = [(0, HostileFile("whole", all_files()[0].make))]
        run(named, {str(number): misbehave(number) for number in range(7)})
    else:
        table = all_files()
        run([(int(number), table[int(number)]) for number in sys.argv[1:]], OPERATIONS)

"""A process with little memory that does with hostile files whatever a user may do, and hears of what it should not do.

``python -m tests.hostile.operations files NUMBER ...`` does all operations with the files of these numbers;
``... spoiled FIRST COUNT`` reads and verifies so many files of `mutate`. A line of JSON is printed for each that did
not end as it may: with a result, an error of this package, or an exit of the command line that says why. A line of a
number alone says which file comes next; the last line counts how they ended, and says how much memory it took.
"""

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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import obstore  # noqa: F401 - a library that is loaded later has no room in the address space

import hdmf_zarr_backend as package
from hdmf_zarr_backend import Limits, NWBZarrIO, ReadOptions, ZarrBackendError, ZarrIO, convert
from hdmf_zarr_backend.cli.main import main
from tests import trees
from tests.hostile.files import SECRET, HostileFile, all_files, hdf5, stored, zarr
from tests.hostile.mutate import mutated
from tests.hostile.seeds import Files, seeds
from tests.smallfiles import hdf5_file

MEMORY = 2**30
"""Bytes of address space beyond what the process has when it begins."""

SECONDS, MINUTES = 20.0, 3.0
"""The longest that one operation may take of the time of the processor, and of the day."""

LIMITS = Limits(
    max_document_bytes=2**22, max_documents=5000, max_depth=500, max_stored_bytes=2**24, max_chunk_bytes=2**25,
    max_object_bytes=2**24, max_read_bytes=2**26, max_read_chunks=20_000, max_links=40, max_files=20,
)  # fmt: skip
ON_DISK = 10
"""Each so many spoiled files is a folder; the others are in memory."""

Operation = Callable[[Any], Any]

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
        self.is_on = self.is_reading = False
        self.heard: list[str] = []
        own = Path(__file__).resolve().parents[2] / "src"
        self._code = tuple(str(Path(location).resolve()) for location in (sys.prefix, sys.base_prefix, own))

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
        if event == "compile" and isinstance(args[0], bytes) and args[0].isdigit():
            return False  # NumPy asks `ast` what the digits in a data type mean
        if event in ("compile", "exec"):
            name = args[1] if event == "compile" else args[0].co_filename
            return not (os.fsdecode(name or "").startswith((*self._code, "<frozen")) or _is_importing())
        if event in ("os.listdir", "os.scandir") and _is_importing():
            return False  # it looks for the module
        return any(not self._may_touch(args[n], event, args) for n in _PATHS.get(event, ()) if n < len(args))

    def _may_touch(self, path: Any, event: str, args: tuple[Any, ...]) -> bool:
        if not isinstance(path, (str, bytes)):
            return True  # a number of an open file
        try:
            real = os.path.realpath(os.path.join(self.folder, os.fsdecode(path)))
        except ValueError:
            return True  # no path: nothing is touched
        flags = args[2] if event == "open" and len(args) > 2 and isinstance(args[2], int) else 0
        if flags & os.O_DIRECTORY:
            return True  # a local file may lead anywhere: what it leads to is looked at, and must be a Zarr file
        is_writing = event not in ("open", "os.listdir", "os.scandir", "os.chdir") or flags & (os.O_WRONLY | os.O_RDWR)
        if real == self.folder or real.startswith(f"{self.folder}/") or real == os.devnull:
            return not (is_writing and self.is_reading)
        if not is_writing and not os.path.exists(real):
            return True  # nothing is there to be read
        return not is_writing and real.startswith((*self._code, "/usr/share/zoneinfo", "/proc/"))


def _is_importing() -> bool:
    """Tell whether a module is being imported: libraries make classes of text when they are."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


# ---- what a user does -----------------------------------------------------------------------------------------------
class EndedBadlyError(Exception):
    """The command line ended with something else than 0, 1 or 2, or told of an error that is not ours."""


def command(*arguments: str | Path) -> str:
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


def _datasets(place: Any, *selections: Any, **options: Any) -> None:
    failed: ZarrBackendError | None = None
    with ZarrIO(place, "r", **options) as io:
        for builder in _nodes(io):
            repr(builder.attributes)
            data = getattr(builder, "data", None)
            if not hasattr(data, "shape") or isinstance(data, np.generic | np.ndarray):
                continue
            for selection in selections:
                try:
                    result = data[()] if data.shape == () else data[selection]
                    if isinstance(result, np.ndarray):
                        repr(result.reshape(-1)[:3].tolist())
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


def use(place: Path | Files) -> None:
    options = ReadOptions(limits=LIMITS, external_links="within")
    try:
        _datasets(place, slice(None), 0, slice(-1, None), read_options=options)
    finally:
        with suppress(ZarrBackendError):
            package.verify(place, "chunks", read_options=options)


def append(path: Path) -> None:
    with ZarrIO(path, "a") as io:
        builder = io.read_builder()
        builder.set_group(trees.group("added", trees.dataset("values", np.arange(3))))
        io.write_builder(builder)


def inspect(path: Path) -> str:
    if path.suffix == ".h5":
        return command("dry-run", "--all", path)
    return command("inspect", "--all", "--attributes", path) + command("inspect", "--json", "--specs", path)


def compare(path: Path) -> str:
    """Compare with itself, and with a file of the other format or of the same."""
    near = path.parent / "near.h5"
    hdf5_file(near, plain=np.zeros((6, 4), "i2"), odd=np.zeros(3, "i2"))
    return command("compare", path, path) + command("compare", path, near)


def converted(path: Path) -> None:
    if path.suffix == ".h5":
        convert(path, path.parent / "made.zarr", check=False, read_options=ReadOptions(external_links="within"))
        convert(path.parent / "made.zarr", path.parent / "back.h5", check=False)
    else:
        convert(path, path.parent / "made.h5", check=False)


OPERATIONS: dict[str, Operation] = {
    "read": read,
    "slice": lambda path: _datasets(path, 0, slice(-1, None), slice(None, None, 2)),
    "append": append,
    "verify": lambda path: command("verify", "--level", "schema", path) + command("verify", path),
    "repair": lambda path: command("repair", path),
    "inspect": inspect,
    "compare": compare,
    "report": lambda path: command(
        "report", "--overwrite", "--level", "chunks", "-o", path.parent / "page.html", path),
    "validate": lambda path: command("validate", path),
    "convert": converted,
    "upgrade": lambda path: command("upgrade", path),
}  # fmt: skip


# ---- how it ends ----------------------------------------------------------------------------------------------------
def misdeeds() -> list[Operation]:
    """Return what no file may lead to; for the test of the guard."""
    return [
        lambda path: os.system("true"),  # noqa: S605 - to be forbidden
        lambda path: path.parts[1000],
        lambda path: bytearray(4 * MEMORY),
        lambda path: Path("/etc/passwd").read_bytes(),
        lambda path: (path.parents[1] / "outside" / "x").write_bytes(b""),
        lambda path: eval("1"),  # noqa: S307 - to be forbidden
        lambda path: Path(f"{path.parent}/../outside/secret").read_bytes(),
        lambda path: (path.parent / "new").write_bytes(b""),
    ]


def spoiled(number: int) -> HostileFile:
    files = mutated(seeds(), number)
    return HostileFile(f"spoiled {number}", stored(files) if number % ON_DISK == 0 else lambda folder: files)


def run(files: Iterator[tuple[int, HostileFile]], operations: dict[str, Operation], *, is_reading: bool) -> None:
    """Do all operations with each file, and print what did not end as it may."""
    guard = Guard()
    guard.is_reading = is_reading
    outcomes: Counter[str] = Counter()
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="hostile")))
    outside = root / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    hdf5_file(outside / "other.h5", x=np.frombuffer(SECRET[:32], "i4")[:4])
    before = _fingerprint(outside)
    _warm(root, is_reading=is_reading)
    sys.addaudithook(guard)
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    _limit_memory()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, hostile in files:
        print(number, flush=True)  # noqa: T201 - to the test
        for name, operation in operations.items():
            folder = root / "inside"
            folder.mkdir()
            location = hostile.make(folder)
            guard.folder = str(folder)
            kind, trace = _ended(guard, operation, location)
            if _fingerprint(outside) != before:
                kind, trace = "!outside", "what is outside has changed"
            if not kind.startswith("!") and _tells(folder):
                kind, trace = "!secret", "the secret was copied"
            if kind.startswith("!"):
                said = {"file": hostile.name, "operation": name, "kind": kind, "trace": trace}
                print(json.dumps(said), flush=True)  # noqa: T201 - to the test
            outcomes[kind] += 1
            _remove(folder)
    os.chdir("/")
    _remove(root)
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(json.dumps({"outcomes": outcomes, "megabytes": megabytes}))  # noqa: T201 - to the test


def _ended(guard: Guard, operation: Operation, place: Any) -> tuple[str, str]:
    os.chdir(guard.folder)
    guard.heard = []
    trace = ""
    _set_timers(SECONDS, 60 * MINUTES)
    guard.is_on = True
    try:
        with warnings.catch_warnings(action="ignore"):
            kind = str(operation(place))
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
    return ("!ForbiddenError", "; ".join(guard.heard)) if guard.heard else (kind, trace)


def _fingerprint(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def _tells(folder: Path) -> bool:
    """Tell whether something that was made in the folder has the secret in it."""
    for location, _, names in os.walk(folder):
        for name in names:
            result = os.path.join(location, name)
            if stat.S_ISREG(os.lstat(result).st_mode) and os.lstat(result).st_size < 2**24:
                with open(result, "rb") as file:
                    if SECRET[:16] in file.read():
                        return True
    return False


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # too deep for Python
        os.system(f"rm -rf '{folder}'")  # noqa: S605 - a folder of ours


def _warm(root: Path, *, is_reading: bool) -> None:
    """Do everything once with whole files, so that whatever is imported or made on first use is there."""
    import pynwb  # noqa: F401 - which looks for its cache when it is imported

    whole = [zarr("whole"), zarr("whole", zarr_format=3), hdf5("whole", lambda file: None)]
    for hostile in [HostileFile("seed", stored(files)) for files in seeds()] if is_reading else whole:
        for operation in [use] if is_reading else OPERATIONS.values():
            folder = root / "warm"
            folder.mkdir()
            with warnings.catch_warnings(action="ignore"), suppress(ZarrBackendError):
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
    what, *numbers = sys.argv[1:]
    if what == "misbehave":
        named = {str(number): operation for number, operation in enumerate(misdeeds())}
        run(iter([(0, all_files()[0])]), named, is_reading=True)
    elif what == "files":
        table = all_files()
        run(((int(number), table[int(number)]) for number in numbers), OPERATIONS, is_reading=False)
    else:
        first, count = map(int, numbers)
        run(((number, spoiled(number)) for number in range(first, first + count)), {"use": use}, is_reading=True)

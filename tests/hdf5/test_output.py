"""An HDF5 file that the system stops writing: one error of ours, no silent loss, no crash.

HDF5 itself loses what it writes when an object is closed, and crashes when the process ends.
"""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import convert
from hdmf_zarr_backend.hdf5.writer import OutputFile

ROOT = Path(__file__).parents[2]

_LIMITED = """
import resource, sys
from hdmf_zarr_backend import convert
from hdmf_zarr_backend.errors import StoreError
import h5py
source, target, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
try:
    convert(source, target, check=False, overwrite=True)
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
with h5py.File(target + ".other", "w") as file:  # HDF5 is as it was
    file["x"] = [1, 2, 3]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of the size of files")
def test_a_file_that_may_not_grow_on_is_one_error_and_no_crash(tmp_path: Path) -> None:
    source, target = tmp_path / "a.zarr", tmp_path / "b.h5"
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(3):
            values = np.arange(60).reshape(6, 10) + number
            file.create_dataset(f"group{number}/values", data=values, chunks=(2, 10), maxshape=(None, 10))
            file[f"group{number}/words"] = [str(number)] * 5
    convert(tmp_path / "a.h5", source)
    target.write_bytes(b"the old file")
    convert(source, tmp_path / "whole.h5", check=False)
    whole = (tmp_path / "whole.h5").stat().st_size
    for size in (512, *range(1024, whole, (whole - 1024) // 6), whole - 64):
        command = [sys.executable, "-W", "ignore", "-c", _LIMITED, str(source), str(target), str(size)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "could not be written" in done.stdout
        assert str(target) in done.stdout
        assert target.read_bytes() == b"the old file"
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
    convert(source, target, check=False, overwrite=True)
    assert target.read_bytes() == (tmp_path / "whole.h5").read_bytes()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
def test_a_refused_write_is_raised_when_hdf5_is_done() -> None:
    with pytest.raises(OSError, match="No space left"), OutputFile("/dev/full", exclusive=False) as output:
        assert output.write(b"some") == 4
        assert output.write(b"more") == 4


def test_a_file_reads_as_zeros_behind_its_end(tmp_path: Path) -> None:
    with OutputFile(str(tmp_path / "a"), exclusive=True) as output:
        output.write(b"some")
        output.seek(2)
        read = bytearray(4)
        assert (output.readinto(read), read) == (4, b"me\0\0")
        output.truncate(3)
    assert (tmp_path / "a").read_bytes() == b"som"
    with pytest.raises(FileExistsError):
        OutputFile(str(tmp_path / "a"), exclusive=True)

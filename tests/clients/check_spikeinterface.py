"""SpikeInterface on files of this package, local and streamed: recordings, sortings, time series, as from HDF5.

``alias`` as argument: this package takes the place of hdmf-zarr, with which SpikeInterface reads by ``use_pynwb``.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import spikeinterface.extractors as se

from tests.clients.work import ALIAS, HDF5, ONLY, report, same, written

CLIENT = "spikeinterface, with the alias" if ALIAS else "spikeinterface, with its own hdmf-zarr"

if ALIAS:
    from hdmf_zarr_backend.alias import install_hdmf_zarr_alias

    install_hdmf_zarr_alias(replace=True)


def recording(place: str, **how: Any) -> Any:
    found = se.read_nwb_recording(place, **how)
    return found.get_traces(), found.get_channel_ids(), found.get_channel_gains()


def sorting(place: str, **how: Any) -> Any:
    found = se.read_nwb_sorting(place, sampling_frequency=1000.0, t_start=0.0, **how)
    return [found.get_unit_spike_train(unit) for unit in found.unit_ids], found.get_property("quality")


def timeseries(place: str, **how: Any) -> Any:
    found = se.read_nwb_timeseries(place, timeseries_path="acquisition/ElectricalSeries", **how)
    return found.get_traces(), found.sampling_frequency


def compare(work: Callable[..., Any], place: str, original: Path, how: dict[str, Any]) -> None:
    wanted = work(str(original), use_pynwb=how["use_pynwb"])
    for one, other in zip(work(place, **how), wanted, strict=True):
        same(one, other)


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def served(folder: Path) -> Iterator[dict[str, tuple[str, dict[str, Any]]]]:
    """Give, for a local disk, a web server and S3, where `folder` is and the options that SpikeInterface takes."""
    web = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    cloud = None
    places: dict[str, tuple[str, dict[str, Any]]] = {
        "local": (str(folder), {}),
        "http": (f"http://127.0.0.1:{web.server_port}", {"stream_mode": "zarr"}),
    }
    if not ONLY or any(", S3," in task for task in ONLY):
        import s3fs
        from moto.server import ThreadedMotoServer

        cloud = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        cloud.start()
        host, port = cloud.get_host_and_port()
        options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
        remote = s3fs.S3FileSystem(**options)
        remote.mkdir("files")
        remote.put(f"{folder}/", "files/", recursive=True)
        places["S3"] = ("s3://files", {"stream_mode": "zarr", "storage_options": options})
    try:
        yield places
    finally:
        web.shutdown()
        if cloud is not None:
            cloud.stop()


def main() -> None:
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with written() as files:
        folder = files[HDF5].parent
        with served(folder) as places:
            for what, path in files.items():
                if what == HDF5:
                    continue
                for place, (root, options) in places.items():
                    works = (recording, sorting) if place == "S3" else (recording, sorting, timeseries)
                    for work in works:
                        for use_pynwb in (False, True):
                            where = f"{root}/{path.relative_to(folder).as_posix()}"
                            how = {**options, "use_pynwb": use_pynwb}
                            task = f"{work.__name__}, {place}, use_pynwb={use_pynwb}"
                            report(CLIENT, task, what, partial(compare, work, where, files[HDF5], how))


if __name__ == "__main__":
    main()

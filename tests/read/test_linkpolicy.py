"""Which files links may lead to, by the place of both."""

import pytest

from hdmf_zarr_backend.encoding.parser import check_link
from hdmf_zarr_backend.errors import LinkRefusedError

LOCAL, WEB, BUCKET = "/data/lab/a.zarr", "https://host/lab/a.zarr", "s3://bucket/lab/a.zarr"

REFUSED = [
    *((LOCAL, target, "within") for target in ("/data/b.zarr", "/data/laboratory/b.zarr", "https://host/b.zarr")),
    *((WEB, target, None) for target in (
        "https://host/b.zarr", "https://host.evil/lab/b.zarr", "https://other/lab/b.zarr", "http://host/lab/b.zarr",
        "https://host/lab/../../b.zarr", "https://host/lab/%2e%2e/b.zarr", "https://host/lab/..%5cb.zarr",
        "simplecache::https://host/lab/b.zarr")),
    (BUCKET, "s3://other/lab/b.zarr", None),
    *((WEB, target, "follow") for target in (
        "/etc/b.zarr", "file:///etc/b.zarr", "FILE:///etc/b.zarr", "local:///etc/b.zarr", "C:\\Users\\b.zarr",
        "simplecache::file:///etc/b.zarr", "zip://x::/etc/b.zip", "zip://x::file:///etc/b.zip")),
    (LOCAL, "/data/lab/b.zarr", "never"), (WEB, "https://host/lab/b.zarr", "never"),
]  # fmt: skip


@pytest.mark.parametrize(("origin", "target", "policy"), [
    (LOCAL, "/etc/b.zarr", "follow"), (WEB, "https://other/b.zarr", "follow"),
    *((LOCAL, target, None) for target in ("/etc/b.zarr", "https://host/b.zarr")),
    *((LOCAL, f"/data/lab/{target}", "within") for target in ("b.zarr", "deep/down/b.zarr")),
    (WEB, "https://host/lab/b.zarr", None), (WEB, "https://host/lab/deep/b.zarr", "within"),
    (BUCKET, "s3://bucket/lab/b.zarr", None),
    ("simplecache::" + WEB, "simplecache::https://host/lab/b.zarr", None),
])  # fmt: skip
def test_followed(origin, target, policy):
    check_link(target, origin, policy)


@pytest.mark.parametrize(("origin", "target", "policy"), REFUSED)
def test_refused(origin, target, policy):
    with pytest.raises(LinkRefusedError, match="is refused") as caught:
        check_link(target, origin, policy)
    assert caught.value.store == origin
    assert target in str(caught.value) or repr(target) in str(caught.value)
    assert caught.value.remedy


def test_a_link_that_points_out_of_the_folder_by_the_file_system(tmp_path):
    lab, other = tmp_path / "lab", tmp_path / "other"
    for folder in (lab, other):
        folder.mkdir()
    (other / "b.zarr").mkdir()
    (lab / "c.zarr").symlink_to(other / "b.zarr")
    with pytest.raises(LinkRefusedError):
        check_link(str(lab / "c.zarr"), str(lab / "a.zarr"), "within")

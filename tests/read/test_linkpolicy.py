"""Which files links may lead to, by the place of both."""

import pytest

from hdmf_zarr_backend.encoding.parser import check_link
from hdmf_zarr_backend.errors import LinkRefusedError

LOCAL, WEB, BUCKET = "/data/lab/a.zarr", "https://host/lab/a.zarr", "s3://bucket/lab/a.zarr"

ALLOWED = [
    (LOCAL, "/etc/b.zarr", None),
    (LOCAL, "/etc/b.zarr", "follow"),
    (LOCAL, "https://host/b.zarr", None),
    (LOCAL, "/data/lab/b.zarr", "within"),
    (LOCAL, "/data/lab/deep/down/b.zarr", "within"),
    (WEB, "https://host/lab/b.zarr", None),
    (WEB, "https://host/lab/deep/b.zarr", "within"),
    (WEB, "https://other/b.zarr", "follow"),
    (BUCKET, "s3://bucket/lab/b.zarr", None),
    ("simplecache::" + WEB, "simplecache::https://host/lab/b.zarr", None),
]
REFUSED = [
    (LOCAL, "/data/b.zarr", "within"),
    (LOCAL, "/data/laboratory/b.zarr", "within"),
    (LOCAL, "https://host/b.zarr", "within"),
    (LOCAL, "/data/lab/b.zarr", "never"),
    (WEB, "https://host/b.zarr", None),
    (WEB, "https://host.evil/lab/b.zarr", None),
    (WEB, "https://other/lab/b.zarr", None),
    (WEB, "http://host/lab/b.zarr", None),
    (WEB, "https://host/lab/../../b.zarr", None),
    (WEB, "https://host/lab/%2e%2e/b.zarr", None),
    (WEB, "https://host/lab/..%5cb.zarr", None),
    (WEB, "simplecache::https://host/lab/b.zarr", None),
    (BUCKET, "s3://other/lab/b.zarr", None),
    (WEB, "/etc/b.zarr", "follow"),
    (WEB, "file:///etc/b.zarr", "follow"),
    (WEB, "FILE:///etc/b.zarr", "follow"),
    (WEB, "local:///etc/b.zarr", "follow"),
    (WEB, "simplecache::file:///etc/b.zarr", "follow"),
    (WEB, "zip://x::/etc/b.zip", "follow"),
    (WEB, "zip://x::file:///etc/b.zip", "follow"),
    (WEB, "C:\\Users\\b.zarr", "follow"),
    (WEB, "https://host/lab/b.zarr", "never"),
]


@pytest.mark.parametrize(("origin", "target", "policy"), ALLOWED)
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

"""The source that one file records for another resolves to it: on every system, in every spelling."""

import posixpath

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hdmf_zarr_backend.encoding.parser import Resolver
from hdmf_zarr_backend.encoding.references import LinkedFile
from hdmf_zarr_backend.model.links import THIS_FILE, is_url, relative_source, resolve_source, to_posix
from hdmf_zarr_backend.model.nodes import Hierarchy

PARTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=4).filter(
    lambda part: part not in (".", "..")
)
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
HOSTS = st.sampled_from(
    ["s3://bucket", "https://host:80", "gs://b", "http://[::1]", "memory://", "file://", "S3://Bucket"]
)
URLS = st.builds(lambda host, path: host + path, HOSTS, PATHS)
WINDOWS_PARTS = st.text("ab .é-", min_size=1, max_size=3).filter(lambda part: part.strip(" .") == part)
WINDOWS = st.builds(
    lambda drive, parts: drive + "\\" + "\\".join(parts),
    st.sampled_from(["C:", "D:", "\\\\server\\share"]),
    st.lists(WINDOWS_PARTS, min_size=1, max_size=3),
)


@given(PATHS, PATHS)
def test_local_locations_come_back(target, origin):
    source = relative_source(target, origin)
    assert resolve_source(source, origin) == target
    assert "\\" not in source or "\\" in target


@given(URLS, URLS)
def test_urls_come_back(target, origin):
    assume(not target.startswith("file://"))  # that is a local path, see below
    assert resolve_source(relative_source(target, origin), origin) == target


@given(PATHS, URLS)
def test_a_url_and_a_local_path_name_each_other(path, url):
    assert resolve_source(relative_source(path, url), url) == path
    assume(not url.startswith("file://"))
    assert resolve_source(relative_source(url, path), path) == url


@given(WINDOWS, WINDOWS)
def test_windows_locations_come_back_with_slashes(target, origin):
    source = relative_source(target, origin)
    assert "\\" not in source
    assert resolve_source(source, origin) in (to_posix(target), target)


@given(WINDOWS, PATHS | URLS)
def test_other_systems_locations_come_back(target, origin):
    assert resolve_source(relative_source(target, origin), origin) == to_posix(target)


@given(PATHS | URLS | WINDOWS)
def test_a_file_calls_itself_a_dot(location):
    assert relative_source(location, location) == THIS_FILE
    for source in (".", "", "./"):
        assert resolve_source(source, location) == location


@given(PATHS, PATHS, PATHS)
def test_moving_both_files_together_breaks_nothing(target, origin, folder):
    source = relative_source(target, origin)
    assume(not source.startswith("/"))
    assert resolve_source(source, folder + origin) == folder + target


@pytest.mark.parametrize(("target", "origin", "source"), [
    ("/data/b.zarr", "/data/a.zarr", "../b.zarr"),
    ("/data/b.zarr", "/data/sub/a.zarr", "../../b.zarr"),
    ("/data/a.zarr/b.zarr", "/data/a.zarr", "b.zarr"),
    ("C:\\data\\b.zarr", "C:\\data\\a.zarr", "../b.zarr"),
    ("D:\\b.zarr", "C:\\a.zarr", "D:/b.zarr"),
    ("\\\\nas\\lab\\b.zarr", "\\\\nas\\lab\\a.zarr", "../b.zarr"),
    ("\\\\nas\\lab\\b.zarr", "C:\\a.zarr", "//nas/lab/b.zarr"),
    ("s3://bucket/x/b.zarr", "s3://bucket/x/a.zarr", "../b.zarr"),
    ("s3://other/b.zarr", "s3://bucket/a.zarr", "s3://other/b.zarr"),
    ("https://h/b.zarr?token=1", "https://h/a.zarr", "https://h/b.zarr?token=1"),
    ("https://h/b#c.zarr", "https://h/a.zarr", "https://h/b#c.zarr"),
    ("https://h/x//b.zarr", "https://h/a.zarr", "https://h/x//b.zarr"),
    ("https://h/50%25%23.zarr", "https://h/a.zarr", "../50%#.zarr"),
    ("s3://bucket/b%23#?.zarr", "s3://bucket/a#/a.zarr", "../../b%23#?.zarr"),
    ("/data/b.zarr", "s3://bucket/a.zarr", "file:///data/b.zarr"),
    ("/data/100% é.zarr", "s3://bucket/a.zarr", "file:///data/100%25%20%C3%A9.zarr"),
    ("/data/\udcff.zarr", "s3://bucket/a.zarr", "file:///data/%FF.zarr"),
    ("C:\\b.zarr", "s3://bucket/a.zarr", "file:///C:/b.zarr"),
    ("s3://bucket/b.zarr", "/data/a.zarr", "s3://bucket/b.zarr"),
])  # fmt: skip
def test_how_files_call_each_other(target, origin, source):
    assert relative_source(target, origin) == source


@pytest.mark.parametrize(("source", "origin", "location"), [
    ("../b.zarr", "/data/a.zarr", "/data/b.zarr"),
    ("..\\b.zarr", "/data/a.zarr", "/data/b.zarr"),  # written on Windows
    ("..\\b.zarr", "C:\\data\\a.zarr", "C:/data/b.zarr"),
    ("/abs/b.zarr", "/data/a.zarr", "/abs/b.zarr"),
    ("/abs//x/../b.zarr", "/data/a.zarr", "/abs/b.zarr"),
    ("E:\\b.zarr", "C:\\data\\a.zarr", "E:/b.zarr"),
    ("../../../../../etc", "/data/a.zarr", "/etc"),
    ("../../../../../etc", "s3://bucket/a.zarr", "s3://bucket/etc"),
    ("/abs/b.zarr", "s3://bucket/a.zarr", "s3://bucket/abs/b.zarr"),
    ("..\\b.zarr", "https://h/x/a.zarr", "https://h/x/b.zarr"),
    ("../b.zarr", "https://h/x/a.zarr?token=1", "https://h/x/b.zarr"),
    ("../b.zarr", "https://h", "https://h/b.zarr"),
    ("../50% #1?.zarr", "https://h/x/a.zarr", "https://h/x/50%25 %231%3F.zarr"),
    ("../50% #1?.zarr", "simplecache::https://h/x/a.zarr", "simplecache::https://h/x/50%25 %231%3F.zarr"),
    ("../50% #1?.zarr", "s3://bucket/x#/a.zarr", "s3://bucket/x#/50% #1?.zarr"),
    ("file:///data/b%20c.zarr", "s3://bucket/a.zarr", "/data/b c.zarr"),
    ("file:///C:/b.zarr", "s3://bucket/a.zarr", "C:/b.zarr"),
    ("file://nas/b.zarr", "/data/a.zarr", "file://nas/b.zarr"),
    ("http://[", "/data/a.zarr", "http://["),
])  # fmt: skip
def test_where_a_source_leads(source, origin, location):
    assert resolve_source(source, origin) == location


@pytest.mark.parametrize(("source", "origin", "location"), [
    ("a.zarr", "/data/a.zarr", "/data/a.zarr"),
    ("sub/b.zarr", "/data/a.zarr", "/data/sub/b.zarr"),
    ("b.zarr", "s3://bucket/x/a.zarr", "s3://bucket/x/b.zarr"),
    ("b.zarr", "simplecache::s3://bucket/x/a.zarr", "simplecache::s3://bucket/x/b.zarr"),
])  # fmt: skip
def test_old_sources_are_relative_to_the_folder(source, origin, location):
    candidates = Resolver._candidates(LinkedFile(None, Hierarchy(), origin), source)
    assert candidates == [resolve_source(source, origin), location]


@pytest.mark.parametrize(("location", "answer"), [
    ("s3://b/a", True), ("memory://x", True), ("C:/a", False), ("C:\\a", False), ("c://a", False),
    ("/a://b", False), ("a:/b", False), ("", False),
])  # fmt: skip
def test_a_drive_is_not_a_url(location, answer):
    assert is_url(location) is answer


@given(st.text(max_size=12), PATHS | URLS)
def test_any_text_leads_somewhere(source, origin):
    location = resolve_source(source, origin)
    assert location == origin or is_url(location) or posixpath.isabs(location) or location[1:3] == ":/"

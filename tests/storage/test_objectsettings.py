"""Which options go to obstore, in which words, and when another library has to open a URL."""

from datetime import timedelta
from importlib.metadata import version
from typing import Any

import pytest

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.store import clouds as objectsettings
from hdmf_zarr_backend.store.clouds import ObjectStore, object_settings

VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_ENDPOINT", "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ENDPOINT", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_BASE_URL", "GOOGLE_BEARER_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SKIP_SIGNATURE",
    "STORAGE_EMULATOR_HOST",
)  # fmt: skip
pytest.importorskip("gcsfs", reason="gcsfs is asked which options it has")
pytest.importorskip("adlfs", reason="adlfs is asked which options it has")
pytestmark = pytest.mark.peer

# options that obstore has since 0.9; before, another library opens the file
LATER = {"base_url", "bearer_token"} if version("obstore").startswith("0.8.") else set()
STRING = "DefaultEndpointsProtocol=https;AccountName=name;AccountKey=a2V5PT0=;EndpointSuffix=core.windows.net"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    everything = {"obstore", "s3fs", "gcsfs", "adlfs"}
    monkeypatch.setattr(objectsettings, "find_spec", lambda name: name if name in everything else None)


def words(url: str, **options: Any) -> dict[str, Any] | None:
    """Return the settings but for the bounds of time."""
    found = object_settings(url, options)
    if found is not None:
        assert found.pop("retry_config")["retry_timeout"] == timedelta(seconds=10)
        found |= found.pop("client_options")
    return found


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("s3://b/a", {"key": "k", "secret": "s"}, {"access_key_id": "k", "secret_access_key": "s"}),
        ("s3://b/a", {"anon": True, "client_kwargs": {"region_name": "r"}}, {"skip_signature": True, "region": "r"}),
        ("s3://b/a", {"endpoint_url": "http://h"}, {"endpoint": "http://h", "allow_http": True}),
        ("s3://b/a", {"config_kwargs": {}}, None),
        ("s3://b/a", {"client_kwargs": {"verify": False}}, None),
        ("gs://b/a", {}, None),  # nothing says who that is: gcsfs looks for it, and ends as nobody
        ("gs://b/a", {"token": "google_default"}, None),
        ("gcs://b/a", {"token": "anon", "project": "p"}, {"skip_signature": True}),
        ("gs://b/a", {"anon": True}, {"skip_signature": True}),
        ("gs://b/a", {"token": None, "bearer_token": "t"}, {"bearer_token": "t"}),
        ("gs://b/a", {"token": "/home/me/key.json"}, None),
        ("gs://b/a", {"requester_pays": True}, None),
        ("gs://b/a", {"endpoint_url": "http://h"}, None),  # that of gcsfs is another interface
        ("gs://b/a", {"base_url": "http://h", "anon": True},
         {"base_url": "http://h", "skip_signature": True, "allow_http": True}),
        ("gs://b/a", {"service_account": "k.json"}, {"service_account": "k.json"}),
        ("az://c/a", {"account_name": "n", "anon": True}, {"account_name": "n", "skip_signature": True}),
        ("az://c/a", {"account_name": "n", "sas_token": "s"}, {"account_name": "n", "sas_key": "s"}),
        ("az://c/a", {"account_name": "n", "sas_token": None}, {"account_name": "n"}),
        ("az://c/a", {"account_name": "n", "anon": False}, None),  # any identity that Azure's library finds
        ("abfs://c/a", {"account_name": "n", "account_key": "k", "anon": False},
         {"account_name": "n", "account_key": "k", "skip_signature": False}),
        ("abfss://c@n.dfs.core.windows.net/a", {"account_key": "k"}, {"account_key": "k"}),
        ("az://c/a", {"account_name": "n", "account_host": "h"}, None),
        ("az://c/a", {"account_name": "n", "credential": object()}, None),
        ("az://c/a", {"connection_string": STRING}, None),
        ("https://h/a", {}, {}),
        ("https://h/a", {"headers": {}}, None),
        ("http://h/a", {}, {"allow_http": True}),
        ("ftp://h/a", {}, None),
        ("oss://h/a", {}, None),
    ],
)  # fmt: skip
def test_words(url: str, options: dict[str, Any], expected: dict[str, Any] | None) -> None:
    assert words(url, **options) == (None if LATER & options.keys() else expected)


@pytest.mark.parametrize("url", ["s3://b/a", "gs://b/a", "az://b/a", "https://h/a"])
def test_without_obstore_there_are_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectsettings, "find_spec", lambda name: None)
    assert words(url, **({"token": "anon"} if url.startswith("gs") else {})) is None


@pytest.mark.parametrize("said_by", ["a variable", "a login", "nothing else can look for it"])
def test_who_a_user_of_google_is(said_by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    assert words("gs://b/a") is None
    if said_by == "a variable":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "key.json")
    elif said_by == "a login":
        (tmp_path / ".config" / "gcloud").mkdir(parents=True)
        (tmp_path / ".config" / "gcloud" / "application_default_credentials.json").write_text("{}")
    else:
        monkeypatch.setattr(objectsettings, "find_spec", lambda name: name if name == "obstore" else None)
    assert words("gs://b/a") == {}
    assert words("gs://b/a", token="google_default", project="p") == {}


@pytest.mark.parametrize("options", [{}, {"anon": False}])
def test_a_profile_of_amazon_is_for_s3fs(tmp_path: Any, options: dict[str, Any]) -> None:
    """obstore does not read the files of the command line of AWS."""
    assert words("s3://b/a", **options) is not None
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").touch()
    assert words("s3://b/a", **options) is None
    assert words("s3://b/a", anon=True) == {"skip_signature": True}


def test_settings_of_the_environment_that_obstore_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443")
    assert words("gs://b/a", token="anon") is None
    known = None if LATER else {"skip_signature": True, "base_url": "https://h"}
    assert words("gs://b/a", token="anon", base_url="https://h") == known
    assert words("s3://b/a") == {}
    assert words("az://c/a") == {}
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", STRING)
    assert words("az://c/a") is None
    assert words("az://c/a", account_name="other") == {"account_name": "other"}
    assert words("abfss://c@other.dfs.core.windows.net/a") == {}


def test_bounds_of_time_are_kept_and_an_account_may_be_named_twice() -> None:
    url = "abfss://c@name.dfs.core.windows.net/a"
    settings = object_settings(url, {"account_name": "name", "account_key": "a2V5PT0="})
    assert settings is not None
    assert ObjectStore(url, settings, {}).opened.config["account_name"] == "name"
    with pytest.raises(UsageError, match="the URL names the account 'name', and the options another one"):
        object_settings(url, {"account_name": "other", "account_key": "a2V5PT0="})
    settings = object_settings("s3://b/a", {"client_options": {"timeout": "1s"}, "retry_config": {"max_retries": 1}})
    assert settings is not None
    assert settings["client_options"] == {"timeout": "1s"}
    assert settings["retry_config"]["max_retries"] == 1


@pytest.mark.parametrize(("url", "variable"), [
    ("az://c/a", "AZURE_STORAGE_ENDPOINT"), ("gs://c/a", "GOOGLE_BASE_URL"), ("s3://c/a", "AWS_ENDPOINT_URL"),
])  # fmt: skip
def test_a_plain_server_of_the_environment(url: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert words(url, anon=True) == {"skip_signature": True, "allow_http": True}

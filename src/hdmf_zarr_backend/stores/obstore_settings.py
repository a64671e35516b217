"""What a user's ``storage_options`` say to obstore: in its own words, or in those of s3fs, gcsfs and adlfs.

Source: issue "Format 3, shards, and any store, near or far", parts 4 and 5.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.stores.retries import completed

S3_SCHEMES = frozenset({"s3", "s3a"})
GOOGLE_SCHEMES = frozenset({"gs", "gcs"})
AZURE_SCHEMES = frozenset({"az", "abfs", "abfss", "azure", "adl"})
WEB_SCHEMES = frozenset({"http", "https"})

_CLIENT: dict[str, Any] = {"timeout": "30s", "connect_timeout": "10s"}
_ANY_STORE = frozenset({"client_options", "retry_config"})

_S3FS_WORDS = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": "endpoint",
    "requester_pays": "request_payer",
}
_CLIENT_KWARGS = {"endpoint_url": "endpoint", "region_name": "region"}
_S3_WORDS = _ANY_STORE | {
    "access_key_id", "secret_access_key", "session_token", "skip_signature", "endpoint", "region", "default_region",
    "request_payer", "credential_provider", "virtual_hosted_style_request", "unsigned_payload", "role_arn",
    "role_session_name", "conditional_put", "web_identity_token_file", "disable_tagging", "disable_bulk_delete",
    "s3_express", "sse_kms_key_id", "sse_bucket_key_enabled", "sse_customer_key_base64",
}  # fmt: skip
_IDENTITY = ("access_key_id", "skip_signature", "credential_provider", "role_arn", "web_identity_token_file")
_IDENTITY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")

_GOOGLE_WORDS = _ANY_STORE | {
    "service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature", "base_url",
    "credential_provider",
}  # fmt: skip
# of the words of gcsfs: who pays for a new bucket, which is not made here
_GOOGLE_UNUSED = frozenset({"project"})
_GOOGLE_IDENTITY = (
    "service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature",
    "credential_provider",
)  # fmt: skip
_GOOGLE_VARIABLES = (
    "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_BEARER_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SKIP_SIGNATURE",
)  # fmt: skip
_GOOGLE_LOGIN = "~/.config/gcloud/application_default_credentials.json"
_GOOGLE_PLACE = ("base_url", "service_account", "service_account_key")
# the interface of this server is that of gcsfs, not of obstore
_GOOGLE_EMULATOR = "STORAGE_EMULATOR_HOST"

_ADLFS_WORDS = {"sas_token": "sas_key", "anon": "skip_signature"}
_AZURE_WORDS = _ANY_STORE | {
    "account_name", "account_key", "client_id", "client_secret", "tenant_id", "sas_key", "endpoint", "skip_signature",
    "credential_provider", "credential_type", "authority_host", "token", "use_emulator", "use_fabric_endpoint",
    "use_azure_cli", "msi_endpoint", "object_id", "msi_resource_id", "federated_token_file", "disable_tagging",
}  # fmt: skip
_AZURE_IDENTITY = ("account_key", "client_id", "sas_key", "credential_provider", "token", "use_azure_cli")
_CONNECTION_WORDS = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "BlobEndpoint": "endpoint",
    "SharedAccessSignature": "sas_key",
}
_CONNECTION_VARIABLE = "AZURE_STORAGE_CONNECTION_STRING"

_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "google": ("GOOGLE_BASE_URL",),
    "azure": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}


def object_settings(location: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return obstore's settings for a URL, None where another library has to open it.

    That is so without obstore, for schemes that it does not have, for options that only s3fs, gcsfs or adlfs has, and
    where the credentials are those of an AWS profile, or are to be found by Google's or Azure's own library.

    Parameters
    ----------
    location : str
        The URL.
    options : mapping
        The user's ``storage_options``.

    Raises
    ------
    UsageError
        The URL names an account of Azure, and the options another one.
    """
    scheme = location.partition("://")[0]
    if find_spec("obstore") is None:
        return None
    if scheme in WEB_SCHEMES:
        return _bounded(dict(options), location, location) if options.keys() <= _ANY_STORE else None
    cloud, words = _words(scheme, location, options)
    if words is None:
        return None
    endpoint = words.get("endpoint") or words.get("base_url")
    variables = (os.environ.get(name) for name in _ENDPOINT_VARIABLES[cloud])
    return _bounded(words, str(endpoint or next(filter(None, variables), "")), location)


def _bounded(words: dict[str, Any], endpoint: str, location: str) -> dict[str, Any]:
    """Return the settings with the bounds of time that the user does not set; a server is plain if its URL says so."""
    client = {**_CLIENT, **words.pop("client_options", {})}
    if endpoint.startswith("http://"):
        client.setdefault("allow_http", True)
    retries = completed(words.pop("retry_config", None), location)
    return {**words, "client_options": client, "retry_config": retries}


def _words(scheme: str, location: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    if scheme in S3_SCHEMES:
        return "s3", _s3_words(options)
    if scheme in GOOGLE_SCHEMES:
        return "google", _google_words(options)
    if scheme in AZURE_SCHEMES:
        return "azure", _azure_words(location, options)
    return "", None


def _translated(options: Mapping[str, Any], known: frozenset[str], foreign: Mapping[str, str]) -> dict[str, Any] | None:
    """Return options in obstore's words, without those that are None; None where one is not known to it."""
    words: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known and name not in foreign:
            return None
        if value is not None:
            words[name if name in known else foreign[name]] = value
    return words


# ---- S3 -------------------------------------------------------------------------------------------------------------


def _s3_words(options: Mapping[str, Any]) -> dict[str, Any] | None:
    given = dict(options)
    client = given.get("client_kwargs")
    if client is not None and _CLIENT_KWARGS.keys() >= client.keys():
        del given["client_kwargs"]
        given.update({_CLIENT_KWARGS[inner]: item for inner, item in client.items()})
    words = _translated(given, _S3_WORDS, _S3FS_WORDS)
    if words is not None and _needs_profile(words) and find_spec("s3fs") is not None:
        return None
    return words


def _needs_profile(words: Mapping[str, Any]) -> bool:
    if any(name in words for name in _IDENTITY) or any(name in os.environ for name in _IDENTITY_VARIABLES):
        return False
    folder = os.path.expanduser("~/.aws")
    return "AWS_PROFILE" in os.environ or any(os.path.exists(f"{folder}/{name}") for name in ("credentials", "config"))


# ---- Google ---------------------------------------------------------------------------------------------------------


def _google_words(options: Mapping[str, Any]) -> dict[str, Any] | None:
    given = {name: value for name, value in options.items() if name not in _GOOGLE_UNUSED}
    if given.get("token") in ("anon", "google_default", None):
        is_anonymous = given.pop("token", None) == "anon"
        if is_anonymous:
            given["skip_signature"] = True
    words = _translated(given, _GOOGLE_WORDS, {"anon": "skip_signature"})
    if words is None or (_GOOGLE_EMULATOR in os.environ and not any(name in words for name in _GOOGLE_PLACE)):
        return None
    return words if _is_known_to_google(words) or find_spec("gcsfs") is None else None


def _is_known_to_google(words: Mapping[str, Any]) -> bool:
    """Tell whether something says who the user is; else obstore asks the machine, for minutes."""
    if any(name in words for name in _GOOGLE_IDENTITY) or any(name in os.environ for name in _GOOGLE_VARIABLES):
        return True
    return os.path.exists(os.path.expanduser(_GOOGLE_LOGIN))


# ---- Azure ----------------------------------------------------------------------------------------------------------


def _azure_words(location: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    account = location.partition("://")[2].partition("/")[0].partition("@")[2].partition(".")[0]
    given = dict(options)
    connection = given.pop("connection_string", None)
    if connection is None and not any(name in given for name in ("account_name", "endpoint", "account_host")):
        connection = os.environ.get(_CONNECTION_VARIABLE)
    host = given.pop("account_host", None)
    words = _translated(given, _AZURE_WORDS, _ADLFS_WORDS)
    said = {} if connection is None else _of_connection(str(connection))
    if account and said and options.get("connection_string") is None and said["account_name"] != account:
        said = {}  # what the environment says is of another account
    if words is None or said is None:
        return None
    if host is not None:
        words.setdefault("endpoint", f"https://{host}")
    words = {**said, **words}
    if account and words.pop("account_name", account) != account:  # obstore takes it once
        raise UsageError(
            f"the URL names the account {account!r}, and the options another one",
            store=location,
            remedy=f"Give the options of {account!r}, or another URL.",
        )
    # in the words of adlfs this is not "with an identity", but "with whatever identity this machine has"
    is_any = options.get("anon") is False and not any(name in words for name in _AZURE_IDENTITY)
    return None if is_any and find_spec("adlfs") is not None else words


def _of_connection(text: str) -> dict[str, Any] | None:
    """Return what a connection string says; None where it is of a kind that only Azure's own library knows."""
    parts = dict(part.partition("=")[::2] for part in text.split(";") if part)
    words: dict[str, Any] = {word: parts[name] for name, word in _CONNECTION_WORDS.items() if parts.get(name)}
    if "account_name" not in words:
        return None
    if "endpoint" not in words:
        suffix = parts.get("EndpointSuffix", "core.windows.net")
        protocol = parts.get("DefaultEndpointsProtocol", "https")
        words["endpoint"] = f"{protocol}://{words['account_name']}.blob.{suffix}"
    return words

"""The kinds of URL that can be read, what each needs, and what of a URL is secret; the standard library only."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from stepscope.core.errors import BadInput

__all__ = ["SCHEMES", "Address", "Scheme", "address", "is_url", "listing"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL = ("file", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """How one kind of URL is reached.

    `extra` of stepscope and the `module` it installs; `name` for messages; `listed` shows a place from the shell;
    `credentials` and `endpoint` say where the library looks for them. `writable`: reports can be written there.
    """

    extra: str
    module: str
    name: str
    listed: str
    credentials: str
    endpoint: str
    writable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A URL in two parts: `url` may be shown, `query`, `user` and `password` may not."""

    url: str
    scheme: str
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


_S3 = Scheme(
    extra="s3",
    module="s3fs",
    name="S3",
    listed="aws s3 ls {url}",
    credentials=(
        "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`; "
        "for a public bucket set FSSPEC_S3_ANON=true."
    ),
    endpoint="AWS_ENDPOINT_URL",
)
_GCS = Scheme(
    extra="gcs",
    module="gcsfs",
    name="Google Cloud Storage",
    listed="gcloud storage ls {url}",
    credentials=(
        "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file; "
        "for a public bucket set FSSPEC_GS_TOKEN=anon."
    ),
    endpoint="STORAGE_EMULATOR_HOST",
)
_AZURE = Scheme(
    extra="azure",
    module="adlfs",
    name="Azure Blob Storage",
    listed="az storage blob list --container-name {bucket} --prefix {path}",
    credentials=(
        "Set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, "
        "AZURE_STORAGE_SAS_TOKEN or `az login`."
    ),
    endpoint="AZURE_STORAGE_CONNECTION_STRING",
)
_HTTP = Scheme(
    extra="http",
    module="aiohttp",
    name="HTTP",
    listed="curl -I {url}",
    credentials=(
        "Give a signed URL, a user in the URL (https://USER:PASSWORD@HOST/…), or a line in ~/.netrc."
    ),
    endpoint="HTTPS_PROXY",
    writable=False,
)  # fmt: skip

SCHEMES: Mapping[str, Scheme] = {
    "s3": _S3, "s3a": _S3, "gs": _GCS, "gcs": _GCS, "abfs": _AZURE, "abfss": _AZURE, "az": _AZURE,
    "http": _HTTP, "https": _HTTP,
}  # fmt: skip
"""Every kind of URL that can be read, by what stands before `://`."""

_KNOWN = "s3://, gs://, abfs:// (az://), http:// and https://"


def is_url(text: str) -> bool:
    """Whether `text` is a URL and not a local path."""
    return bool(_URL.match(text))


def address(url: str) -> Address | Path:
    """Take a URL apart; one of a local file is a path. Raises BadInput if it cannot be used here."""
    scheme = url.partition("://")[0].lower()
    if scheme in _LOCAL:
        return Path(unquote(urlsplit(url).path))
    if scheme not in SCHEMES:
        from difflib import get_close_matches

        near = get_close_matches(scheme, SCHEMES, n=1)
        hint = f"did you mean {near[0]}://?" if near else "Copy the file to this machine and give its path."
        raise BadInput(_shown(url), f"{scheme}:// is not known: URLs may be {_KNOWN}", next_step=hint)
    found = _split(scheme, url)
    for module in ("upath", SCHEMES[scheme].module):
        if find_spec(module) is None:
            why = f"{SCHEMES[scheme].name} needs a package that is not installed ({module})"
            raise BadInput(found.url, why, next_step=f"pip install 'stepscope[{SCHEMES[scheme].extra}]'")
    return found


def listing(url: str) -> str:
    """What to do about a URL that cannot be read: the command of a shell that shows what is there."""
    scheme, _, rest = url.partition("://")
    place, _, path = rest.partition("/")
    bucket, _, host = place.partition("@")
    account = f" --account-name {host.partition('.')[0]}" if host else ""
    shown = SCHEMES[scheme].listed.format(url=url, bucket=bucket, path=path or "''")
    return f"Check it with `{shown}{account}`."


def _split(scheme: str, url: str) -> Address:
    rest = url.partition("://")[2]
    bucket = rest.partition("/")[0]
    if SCHEMES[scheme].extra != "http":
        if ":" in bucket.partition("@")[0] and "@" in bucket:
            why = "a password in a URL is not used"
            raise BadInput(_shown(url), why, next_step=SCHEMES[scheme].credentials)
        if not bucket or bucket.startswith(("@", "*")):
            why = f"no {'container' if scheme.startswith('a') else 'bucket'} is named"
            raise BadInput(_shown(url), why, next_step=f"Give one: {scheme}://BUCKET/FOLDER/trace.json.gz")
        return Address(url=f"{scheme}://{rest}", scheme=scheme)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadInput(_shown(url), f"not a URL: {error}", next_step="Check the URL.") from error
    if not host:
        raise BadInput(_shown(url), "no host is named", next_step=f"Give one: {scheme}://HOST/trace.json.gz")
    host = f"[{host}]" if ":" in host else host
    plain = urlunsplit((scheme, host + (f":{port}" if port else ""), parts.path, "", ""))
    return Address(
        url=plain,
        scheme=scheme,
        query=tuple(parse_qsl(parts.query, keep_blank_values=True)),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def _shown(url: str) -> str:
    """A URL that could not be taken apart, without a user, a password and a query."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0].partition('#')[0]}"

"""What goes wrong before a byte is read: URLs that are none, credentials, networks; and what local paths cost."""

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.paths import place, shown
from stepscope.storage import open_run

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Server = Any  # tests/cloud/conftest.py: scheme, port, bucket, environment


@pytest.mark.parametrize(
    ("url", "message", "advice"),
    [
        ("s3n://b/x.json", "s3n://b/x.json: s3n:// is not known: URLs may be s3://", "did you mean s3://?"),
        ("ftp://u:pw@h/x.json?k=v", "ftp://h/x.json: ftp:// is not known", "Copy the file to this machine"),
        ("s3:///x.json", "s3:///x.json: no bucket is named", "Give one: s3://BUCKET/FOLDER/trace.json.gz"),
        ("abfs://@account/x", "no container is named", "Give one: abfs://BUCKET/FOLDER"),
        ("s3://key:secret@bucket/x.json", "s3://bucket/x.json: a password in a URL is not used", "Set AWS_PROFILE"),
        ("https:///x.json", "no host is named", "Give one: https://HOST/trace.json.gz"),
        ("https://u:pw@h:port/x.json?k=v", "https://h:port/x.json: not a URL: ", "Check the URL."),
    ],
)
def test_a_url_that_is_none_is_said(url: str, message: str, advice: str) -> None:
    with pytest.raises(BadInput) as caught:
        place(url)
    assert message in str(caught.value)
    assert advice in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "module", "command"),
    [
        ("s3://b/x", "s3fs", "pip install 'stepscope[s3]'"),
        ("gs://b/x", "gcsfs", "pip install 'stepscope[gcs]'"),
        ("az://b/x", "adlfs", "pip install 'stepscope[azure]'"),
        ("https://h/x", "aiohttp", "pip install 'stepscope[http]'"),
        ("s3://b/x", "upath", "pip install 'stepscope[s3]'"),
    ],
)
def test_a_package_that_is_not_installed_is_said(
    url: str, module: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # what Python does with a module that must not be found
    with pytest.raises(BadInput) as caught:
        place(url)
    assert f"needs a package that is not installed ({module})\n{command}" in str(caught.value)


def test_what_is_shown_of_a_url_is_not_secret() -> None:
    assert shown("https://anna:pw@h:8443/a/x.json?X-Amz-Signature=s#f") == "https://h:8443/a/x.json"
    assert shown("s3://b/a?b.json") == "s3://b/a?b.json"
    assert shown("a/b.json?c") == "a/b.json?c"
    assert str(place("https://anna:pw@h/a/x.json?sig=s") / "y") == "https://h/a/x.json/y"
    assert "pw" not in repr(place("https://anna:pw@h/a/x.json?sig=s"))
    assert str(place("abfs://c@account.dfs.core.windows.net/x")) == "abfs://c@account.dfs.core.windows.net/x"


def test_a_url_of_a_local_file_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "a b.json").write_text("{}")
    assert place(f"file://{tmp_path}/a%20b.json") == tmp_path / "a b.json"
    assert place(str(tmp_path)) == tmp_path
    assert place(tmp_path) is tmp_path


def test_a_local_file_needs_nothing_of_fsspec(ranks: Path) -> None:
    program = (
        "import sys; from stepscope.storage import open_run; from stepscope.cli import report, show; "
        f"assert open_run({str(ranks / 'rank_0.json')!r}).tables['host'].height; "
        "print(sorted({'fsspec', 'upath', 'aiohttp', 's3fs', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def strict_s3(s3_server: Server) -> Iterator[Server]:
    """The S3 server while it checks who asks."""

    def check_after(actions: str) -> None:
        address = f"http://127.0.0.1:{s3_server.port}/moto-api/reset-auth"
        request = urllib.request.Request(address, data=actions.encode(), headers={"Content-Type": "text/plain"})
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200

    check_after("0")
    yield s3_server
    check_after("1000000")


def test_wrong_credentials_of_s3_are_said(strict_s3: Server, stepscope: Command) -> None:
    done = stepscope("report", f"{strict_s3.bucket}/x.json", **strict_s3.environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"stepscope: {strict_s3.bucket}/x.json: access was refused (HTTP 403")
    assert "\n  Set AWS_PROFILE" in done.stderr
    assert "`aws s3 ls s3://" in done.stderr


def test_a_wrong_key_of_azure_is_said(abfs_server: Server, stepscope: Command) -> None:
    words = abfs_server.environment["AZURE_STORAGE_CONNECTION_STRING"].replace("Eby8vdM0", "Eby8vdM1")
    done = stepscope("report", f"{abfs_server.bucket}/x.json", AZURE_STORAGE_CONNECTION_STRING=words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"stepscope: {abfs_server.bucket}/x.json: access was refused (HTTP 403")
    assert "\n  Set AZURE_STORAGE_CONNECTION_STRING" in done.stderr
    assert "Eby8" not in done.stderr


@pytest.mark.parametrize(
    ("url", "name", "advice"),
    [("s3://b/x.json", "S3", "Set AWS_PROFILE"), ("abfs://b/x.json", "Azure Blob Storage", "Set AZURE_STORAGE_CON")],
)
def test_no_credentials_are_said(url: str, name: str, advice: str, stepscope: Command, tmp_path: Path) -> None:
    done = stepscope("report", url, HOME=str(tmp_path), AWS_EC2_METADATA_DISABLED="true")
    assert done.returncode == 2
    assert done.stderr.startswith(f"stepscope: {url}: no usable credentials for {name} were found")
    assert f"\n  {advice}" in done.stderr


def test_a_public_bucket_needs_no_credentials(s3_server: Server, ranks: Path, stepscope: Command) -> None:
    import boto3

    words = s3_server.environment
    client = boto3.client(
        "s3",
        endpoint_url=words["AWS_ENDPOINT_URL"],
        aws_access_key_id=words["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=words["AWS_SECRET_ACCESS_KEY"],
        region_name=words["AWS_DEFAULT_REGION"],
    )
    client.put_object(Bucket="traces", Key="p.json", ACL="public-read", Body=(ranks / "rank_0.json").read_bytes())
    client.close()
    endpoint = {"AWS_ENDPOINT_URL": words["AWS_ENDPOINT_URL"], "AWS_EC2_METADATA_DISABLED": "true"}
    done = stepscope("report", "s3://traces/p.json", FSSPEC_S3_ANON="true", **endpoint)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_an_endpoint_that_nobody_listens_at_is_said(s3_server: Server, stepscope: Command) -> None:
    environment = s3_server.environment | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    done = stepscope("report", "s3://b/x.json", **environment)
    assert done.returncode == 2
    assert done.stderr.startswith("stepscope: s3://b/x.json: the server cannot be reached (Connection")
    assert "AWS_ENDPOINT_URL" in done.stderr


@pytest.mark.usefixtures("alone")
def test_a_time_limit_ends_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")  # gcsfs asks again for half a minute
    monkeypatch.setattr("stepscope.core.paths.remote._WAIT", 0.5)
    with pytest.raises(BadInput, match=r"gs://b/x.json: no answer in time\nCheck the network and the endpoint"):
        open_run("gs://b/x.json")


def test_an_output_that_cannot_be_is_said_before_the_work(stepscope: Command, tmp_path: Path) -> None:
    for output, message in (
        (f"{tmp_path}/none/report.html", f"there is no folder {tmp_path}/none\n  mkdir -p {tmp_path}/none\n"),
        ("s3:///report.html", "no bucket is named"),
        ("s3://bucket", "no file is named\n  Give a name: s3://bucket/report.html\n"),
    ):
        done = stepscope("report", "/no/such/trace.json", "-o", output)
        assert done.returncode == 2
        assert message in done.stderr
        assert "trace.json: there is no such file" not in done.stderr

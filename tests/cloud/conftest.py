"""Servers that speak the protocols of the providers, each a process of its own, started when a test first needs it."""

import gzip
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stepscope.core.paths import place
from stepscope.core.run import Run

from ..command import stepscope as command_line

HERE = Path(__file__).parent
AZURITE = Path(
    os.environ.get("STEPSCOPE_AZURITE", HERE.parents[1] / ".cache/azurite/node_modules/azurite/dist/src/blob/main.js")
)
BUCKET = "traces"
ACCOUNT = "devstoreaccount1"
KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's own, public
)
STARTED = 120.0  # seconds until a server answers, on a busy machine too
_OWN = ("AWS_", "AZURE_", "GOOGLE_", "GCSFS_", "STORAGE_EMULATOR_HOST", "FSSPEC_")
EPOCH = 1_790_000_000_000_000_000
PROVIDERS = ("s3", "gs", "abfs")


GS_SERVER = """
from http import server
class Threads(server.ThreadingHTTPServer):
    request_queue_size = 128
server.HTTPServer = Threads
from gcp_storage_emulator.__main__ import main
main()
"""
"""gcp-storage-emulator serves one connection after the other: one on which nothing comes would hold up all others."""


@dataclass(frozen=True, slots=True)
class Server:
    """A provider's server: its port, and the environment variables with which the provider's library finds it."""

    scheme: str
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """What a user would set to reach this server."""
        return environment_of(self.scheme, self.port)

    def behind(self, port: int) -> dict[str, str]:
        """The same environment variables for a proxy of this server."""
        return environment_of(self.scheme, port)

    @property
    def bucket(self) -> str:
        """The URL of the bucket that tests write to."""
        return f"{self.scheme}://{BUCKET}"


def environment_of(scheme: str, port: int) -> dict[str, str]:
    """The usual environment variables for a provider's server on this machine."""
    address = f"http://127.0.0.1:{port}"
    if scheme == "s3":
        return {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "anna",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    if scheme == "gs":
        return {"STORAGE_EMULATOR_HOST": address}
    words = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={address}/{ACCOUNT};"
    return {"AZURE_STORAGE_CONNECTION_STRING": words}


def clean_environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without any provider's variables, and `more`."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OWN)} | dict(more)


@contextmanager
def running(*command: str, port: int = 0, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """Run a server, wait until it answers and give its port: the given one, else the one that it prints."""
    given = clean_environment(environment or {})
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE if not port else subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=given
    )
    try:
        if process.stdout:
            with process.stdout:
                port = int(process.stdout.readline())
        wait_for(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Return when something listens on the port."""
    end = time.monotonic() + STARTED
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"{process.args!r} does not answer on port {port}; its exit code is {process.poll()}")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def needs(module: str) -> None:
    """Skip the test where a package or program is not installed."""
    if module == "azurite" and not (AZURITE.is_file() and shutil.which("node")):
        pytest.skip(f"no Azurite at {AZURITE}: ./check installs it where npm is, or set STEPSCOPE_AZURITE")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Server]:
    """moto's S3; it checks credentials only when told to."""
    import boto3

    port = free_port()
    settings = {"INITIAL_NO_AUTH_ACTION_COUNT": "1000000"}
    with running(sys.executable, "-m", "moto.server", "-p", str(port), port=port, environment=settings):
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id="anna",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield Server("s3", port)


@pytest.fixture(scope="session")
def gs_server() -> Iterator[Server]:
    """gcp-storage-emulator."""
    port = free_port()
    words = ("start", "--port", str(port), "--host", "127.0.0.1", "--in-memory", "--default-bucket", BUCKET)
    with running(sys.executable, "-c", GS_SERVER, *words, port=port):
        yield Server("gs", port)


@pytest.fixture(scope="session")
def abfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Azurite, Microsoft's own emulator."""
    needs("azurite")
    port = free_port()
    folder = str(tmp_path_factory.mktemp("azurite"))
    words = ("--silent", "--blobPort", str(port), "--location", folder, "--skipApiVersionCheck")
    with running("node", str(AZURITE), *words, port=port):
        from azure.storage.blob import BlobServiceClient

        words_of = environment_of("abfs", port)["AZURE_STORAGE_CONNECTION_STRING"]
        with BlobServiceClient.from_connection_string(words_of) as client:
            client.create_container(BUCKET)
        yield Server("abfs", port)


@pytest.fixture(scope="session")
def web_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the web server serves."""
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="session")
def web(web_folder: Path) -> Iterator[str]:
    """The URL of a web server; the first part of a path is its behavior (`web_server.py`)."""
    with running(sys.executable, str(HERE / "web_server.py"), str(web_folder)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(params=PROVIDERS)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Each provider's server in turn, in the environment of this process."""
    chosen: Server = request.getfixturevalue(f"{request.param}_server")
    use(chosen.environment, monkeypatch)
    return chosen


@pytest.fixture
def cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Puts a proxy before the server that cuts the first connections on which 1 MB came, so many as are given."""
    with ExitStack() as stack:

        def start(times: int) -> None:
            words = (str(HERE / "cutting_proxy.py"), str(server.port), "1000000", str(times))
            use(server.behind(stack.enter_context(running(sys.executable, *words))), monkeypatch)

        yield start


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No provider's variables in the environment."""
    use({}, monkeypatch)


def use(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `environment` the only one that the libraries find, and have them look again."""
    from fsspec.registry import registry

    for name in list(os.environ):
        if name.startswith(_OWN):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    for kind in registry.values():
        kind.clear_instance_cache()


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of two ranks, one of them packed."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "rank_0.json").write_bytes(trace(0))
    (folder / "rank_1.json.gz").write_bytes(gzip.compress(trace(1)))
    return folder


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed trace of 6 MB, which is read in a beginning and two pieces."""
    file = tmp_path_factory.mktemp("large") / "rank_3.json.gz"
    file.write_bytes(gzip.compress(trace(3, operators=120_000), compresslevel=1))
    assert file.stat().st_size > 5_000_000
    return file


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of one process with two steps and a trace."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "run.json").write_text(json.dumps({"format": "stepscope-run", "version": 1, "command": ["train"]}))
    (folder / "end.json").write_text(json.dumps({"exit_code": 0, "signal": None, "not_recorded": []}))
    process = folder / "rank-00000.pid-4711"
    process.mkdir()
    about = {"rank": 0, "world_size": 1, "pid": 4711, "clock": {"epoch_ns": EPOCH, "monotonic_ns": 0}}
    (process / "process.json").write_text(json.dumps(about))
    header = struct.pack("<16sIIqq24x", b"STEPSCOPE-STEPS1", 64, 88, EPOCH, 0)
    steps = (struct.pack("<qqqqqqqqqqiI", n, n * 100, n * 100 + 90, 10, 1, 2, 3, 0, 0, 8, 1, 0) for n in (1, 2))
    (process / "steps.bin").write_bytes(header + b"".join(steps))
    (process / "window-000.pt.trace.json").write_bytes(trace(0))
    window = {"window": 0, "first_step": 1, "last_step": 2, "status": "recorded", "trace": "window-000.pt.trace.json"}
    (process / "windows.jsonl").write_text(json.dumps(window) + "\n")
    return folder


@pytest.fixture(scope="session")
def same() -> Callable[[Run, Run], None]:
    """Checks that two runs hold the same, but for where they were read from."""

    def check(run: Run, other: Run) -> None:
        assert other.tables["host"].height > 0
        for table in other.tables:
            places = [name for name in ("source", "trace") if name in other.tables[table].columns]
            assert run.tables[table].drop(places).equals(other.tables[table].drop(places)), table

    return check


@pytest.fixture(scope="session")
def upload() -> Callable[[Path, str], None]:
    """Copies a file or a folder to a URL with the code under test."""

    def copy(source: Path, url: str) -> None:
        goal = place(url)
        for file in (source,) if source.is_file() else source.rglob("*"):
            if file.is_file():
                (goal if file == source else goal / file.relative_to(source).as_posix()).write_bytes(file.read_bytes())

    return copy


@pytest.fixture(scope="session")
def stepscope() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a command with the providers' variables that are given and no others."""

    def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return command_line(*words, env=clean_environment(environment))

    return run


def trace(rank: int, operators: int = 100) -> bytes:
    """A trace of one rank with a step every ten operators. The names are random: packing makes it little smaller."""
    noise = random.Random(rank)
    events: list[dict[str, object]] = []
    for number in range(operators):
        event = {"ph": "X", "cat": "cpu_op", "name": f"aten::{noise.getrandbits(256):x}", "pid": 1, "tid": 1}
        events.append(event | {"ts": 1000 + number * 10, "dur": 5, "args": {"External id": number + 1}})
    for number in range(operators // 10):
        step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1}
        events.append(step | {"ts": 999 + number * 100, "dur": 98})
    document = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
    return json.dumps(document).encode()

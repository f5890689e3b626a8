"""A web server with the faults that web servers have: python web_server.py FOLDER. It prints its port, then serves.

The first part of a path is the behavior, the rest a file of FOLDER: http://127.0.0.1:PORT/cut/run/trace.json.gz.
"""

import base64
import re
import sys
import time
from collections import Counter
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

CUTS = 2  # answers that are cut before one is sent whole, of each part of a file
CHANGE = 3  # answers of one version
LEAST = 10_000  # bytes of an answer that is worth cutting
TOKEN = "a+b/c=="
LOGIN = "Basic " + base64.b64encode(b"anna:p@ss").decode()
STATUS = {
    "forbidden": HTTPStatus.FORBIDDEN,
    "login-page": HTTPStatus.OK,
    "busy": HTTPStatus.SERVICE_UNAVAILABLE,
    "nothing": HTTPStatus.NOT_FOUND,
}
cuts: Counter[str] = Counter()


class Handler(SimpleHTTPRequestHandler):
    """Answers as the first part of the path says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        """As GET, without the body."""
        self.answer(body=False)

    def do_GET(self) -> None:
        """A file, a part of one, a listing or an error."""
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        parts = urlsplit(self.path)
        _, behavior, rest = unquote(parts.path).split("/", 2) if parts.path.count("/") > 1 else ("", "", "")
        refusal = self.refusal(behavior, parts.query, body=body)
        if refusal:
            self.say(refusal, b"<html>Please log in.</html>", body=body)
            return
        if behavior == "silent":
            (Path(self.directory) / "asked").touch()
            time.sleep(600)
        file = Path(self.directory) / rest
        if file.is_dir():
            self.folder(file, behavior, body=body)
        elif file.is_file():
            self.file(file, behavior, body=body)
        else:
            self.say(HTTPStatus.NOT_FOUND, b"nothing", body=body)

    def refusal(self, behavior: str, query: str, *, body: bool) -> HTTPStatus | None:
        if behavior in STATUS:
            return STATUS[behavior]
        if behavior == "signed" and parse_qs(query).get("token") != [TOKEN]:
            return HTTPStatus.FORBIDDEN
        if behavior == "login" and self.headers.get("Authorization") != LOGIN:
            return HTTPStatus.UNAUTHORIZED
        if behavior == "get-only" and not body:
            return HTTPStatus.FORBIDDEN
        return None

    def folder(self, folder: Path, behavior: str, *, body: bool) -> None:
        if behavior == "no-listing":
            self.say(HTTPStatus.FORBIDDEN, b"no listing", body=body)
            return
        names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in folder.iterdir())
        links = "".join(f'<li><a href="{name}">{name}</a></li>' for name in names)
        page = f'<html><a href="?C=N;O=D">Name</a> <a href="../">up</a><ul>{links}</ul></html>'
        self.say(HTTPStatus.OK, page.encode(), body=body)

    def file(self, file: Path, behavior: str, *, body: bool) -> None:
        data = file.read_bytes()
        headers = {"Content-Type": "application/octet-stream"}
        if behavior == "encoded" and file.suffix == ".gz":
            headers["Content-Encoding"] = "gzip"
        if behavior == "changing":
            cuts["changing"] += 1
            headers["ETag"] = f'"{cuts["changing"] // CHANGE}"'
        status = HTTPStatus.OK
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, total = 0, len(data)
        if wanted and not behavior.startswith("whole"):
            start, end = int(wanted[1]), min(int(wanted[2]), total - 1)
            if start >= total:
                self.say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", body=body)
                return
            status, data = HTTPStatus.PARTIAL_CONTENT, data[start : end + 1]
            headers["Content-Range"] = f"bytes {start}-{end}/{total}"
        if behavior == "short" and len(data) > LEAST:
            data = data[: len(data) // 2]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        chunked = "chunked" in behavior and bool(data)
        self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(data)))))
        self.end_headers()
        if body:
            self.send(data, behavior, f"{file} {start}", chunked=chunked)

    def send(self, data: bytes, behavior: str, key: str, *, chunked: bool) -> None:
        cuts[key] += 1
        cut = "cut" in behavior and len(data) > LEAST and cuts[key] <= CUTS
        if cut or ("dead" in behavior and len(data) > LEAST):
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            self.connection.close()
            return
        if chunked:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")
        else:
            self.wfile.write(data)

    def say(self, status: HTTPStatus, page: bytes, *, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if body:
            self.wfile.write(page)


def main(folder: str) -> None:
    """Serve until killed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])

"""A proxy that cuts connections: python cutting_proxy.py PORT BYTES TIMES. It prints its own port, then serves.

The first TIMES connections on which the server at PORT has sent BYTES are reset there; later ones are left alone.
"""

import contextlib
import socket
import struct
import sys
import threading

RESET = struct.pack("ii", 1, 0)  # linger for no time: the peer sees a reset and not an orderly end
PIECE = 64 * 1024


class Proxy:
    """Counts its cuts."""

    def __init__(self, port: int, most: int, times: int) -> None:
        self.port, self.most, self.left = port, most, times
        self.lock = threading.Lock()

    def serve(self, client: socket.socket) -> None:
        """Pass on both ways until one side ends or the connection is cut."""
        server = socket.create_connection(("127.0.0.1", self.port))
        asking = threading.Thread(target=self.forward, args=(client, server), daemon=True)
        asking.start()
        sent = 0
        with contextlib.suppress(OSError):
            while data := server.recv(PIECE):
                sent += len(data)
                if sent > self.most and self.cut():
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    break
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RD)  # ends `forward`, which would keep the connection open
        asking.join()
        client.close()
        server.close()

    def forward(self, client: socket.socket, server: socket.socket) -> None:
        """What the client asks goes to the server."""
        with contextlib.suppress(OSError):
            while data := client.recv(PIECE):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def cut(self) -> bool:
        """Whether to cut once more."""
        with self.lock:
            self.left -= 1
            return self.left >= 0


def main(port: int, most: int, times: int) -> None:
    """Serve until killed."""
    proxy = Proxy(port, most, times)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

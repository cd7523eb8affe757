"""Are the other processes of a run still there?

A process that waits for a lost one would wait for ever, or be ended by the runtime without a word.  So each keeps a
connection to the first, which says a byte a second: a connection that ends or falls silent is a process that is lost,
and whoever needs it says so in a sentence and ends.
"""

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

TICK, PATIENCE, GRACE = 1.0, 30.0, 2.0
"""Seconds: between bytes, of silence until a process counts as lost, and left to a call that needs it: a process that
is done may leave while another has yet to return from the very call that both took part in."""
SECRET = 16
LONGEST_GREETING = SECRET + 8


class Listener:
    """Where the first process is spoken to; the secret keeps strangers out."""

    def __init__(self, host: str):
        self.socket = socket.create_server((host, 0), backlog=256)
        self.port = self.socket.getsockname()[1]
        self.secret = secrets.token_hex(SECRET // 2).encode()

    def accept(self, count: int, seconds: float) -> dict[int, socket.socket]:
        """Connections of the other processes by number."""
        found, until = {}, time.monotonic() + seconds
        while len(found) < count - 1 and time.monotonic() < until:
            self.socket.settimeout(max(until - time.monotonic(), 0.01))
            with contextlib.suppress(OSError):
                connection, _ = self.socket.accept()
                number = self._greeted(connection)
                if number is None or not 0 < number < count:
                    connection.close()
                else:
                    found[number] = connection
        self.socket.close()
        return found

    def _greeted(self, connection: socket.socket) -> int | None:
        connection.settimeout(5.0)
        said = connection.recv(LONGEST_GREETING, socket.MSG_WAITALL)
        known = len(said) == LONGEST_GREETING and secrets.compare_digest(said[:SECRET], self.secret)
        return int.from_bytes(said[SECRET:], "big") if known else None


def connect(hosts: list[str], port: int, secret: bytes, number: int, seconds: float) -> dict[int, socket.socket]:
    """A connection to the first process, by the first of its names that answers; none if no name does."""
    until = time.monotonic() + seconds
    for host in hosts:
        with contextlib.suppress(OSError):
            connection = socket.create_connection((host, port), timeout=max(until - time.monotonic(), 1.0))
            connection.sendall(secret + number.to_bytes(8, "big"))
            return {0: connection}
    return {}


class Lookout:
    """Watches connections from a thread of its own; `needing` is where a lost process ends this one."""

    def __init__(self, connections: dict[int, socket.socket], end: Callable[[int], None]):
        self.connections, self.end = connections, end
        self.heard = dict.fromkeys(connections, time.monotonic())
        self.lost: tuple[int, float] | None = None
        self.needed_since: float | None = None
        self.is_closed = False
        for connection in connections.values():
            connection.setblocking(False)
        self.thread = threading.Thread(target=self._watch, name="gpbae lookout", daemon=True)
        self.thread.start()

    @contextlib.contextmanager
    def needing(self) -> Iterator[None]:
        """While this lasts, nothing can be done without the others."""
        self.needed_since = time.monotonic()
        try:
            yield
        finally:
            self.needed_since = None

    def close(self) -> None:
        """Leave: those who still need this process are to know."""
        self.is_closed = True
        self.thread.join()

    def _watch(self) -> None:
        while not self.is_closed:
            began = time.monotonic()
            while (left := began + TICK - time.monotonic()) > 0:
                self._hear(left)
            self._speak()
            self._judge()
        for connection in self.connections.values():
            connection.close()

    def _hear(self, seconds: float) -> None:
        if not self.connections:
            time.sleep(seconds)
            return
        ready, _, _ = select.select(list(self.connections.values()), [], [], seconds)
        for number, connection in list(self.connections.items()):
            if connection in ready:
                self._take(number, connection)

    def _take(self, number: int, connection: socket.socket) -> None:
        """Dots are signs of life; a number is that of a process that the first has lost."""
        try:
            said = connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._lose(number)
            return
        self.heard[number] = time.monotonic()
        if others := said.replace(b".", b""):
            self._lose(int(others.split(b";")[0]), number)

    def _lose(self, number: int, by: int | None = None) -> None:
        self.lost = self.lost or (number, time.monotonic())
        self.connections.pop(number if by is None else by).close()

    def _speak(self) -> None:
        words = b"." if self.lost is None else f"{self.lost[0]};".encode()
        for connection in self.connections.values():
            with contextlib.suppress(OSError):  # whoever does not listen is found by its silence
                connection.send(words)

    def _judge(self) -> None:
        now = time.monotonic()
        for number in [n for n in self.connections if now - self.heard[n] > PATIENCE]:
            self._lose(number)
        if self.lost and self.needed_since and now - max(self.needed_since, self.lost[1]) > GRACE:
            self.end(self.lost[0])


def leave(sentence: str) -> None:
    """Say why and end the process at once: the runtime would wait for the lost one on the way out."""
    print(sentence, file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(1)


class Witness:
    """A small process that says a sentence if this one ends without a word, as it does where the runtime aborts it: it
    reads what it is told until nobody is left to speak."""

    CODE = "import sys; told = sys.stdin.read(); told.endswith('!') or print(told, file=sys.stderr, flush=True)"

    def __init__(self, sentence: str):
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", self.CODE], stdin=subprocess.PIPE, start_new_session=True
        )
        self._tell(sentence)

    def dismiss(self) -> None:
        """All is well, or has been said."""
        self._tell("!")

    def _tell(self, words: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.write(words.encode())
            self.process.stdin.flush()

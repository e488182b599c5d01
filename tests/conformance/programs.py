"""Real programs of a test, each in a scratch home: started, listened to, waited for with an end, stopped.

Nothing here sleeps: who waits is woken by the next line that the program prints, or by its end.
"""

import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
TEAMLAMP = TARGET / "debug" / "teamlamp"
PATIENCE_S = 60


def free_port() -> int:
    """A port that nobody listens on, below those that the system gives to outgoing connections: it stays free
    while a server that had it is started again."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a program finds of this computer: where programs are, and a home of its own."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TEAMLAMP_HOME": str(home / "teamlamp"),
        "TEAMLAMP_CUSTODY": "file",
        "LANG": "C.UTF-8",
        **more,
    }


class Program:
    """A running program and every line that it has printed."""

    def __init__(self, command: list, home: Path, **more: str):
        self.name = Path(command[0]).name + " " + Path(str(command[1] if command[1:] else "")).name
        self.lines: list[str] = []
        self.messages: list[str] = []
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env=environment(home, **more),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        outputs = ((self.process.stdout, self.lines), (self.process.stderr, self.messages))
        self._readers = [threading.Thread(target=self._read, args=each, daemon=True) for each in outputs]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines: list[str]) -> None:
        # Only '\n' ends a line here: what a frame holds may contain what Python takes for other ends.
        for line in stream:
            with self._news:
                lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(self, what: str, found, seconds: float = PATIENCE_S):
        """Waits until `found()` is true, which is looked at after each line; returns what it said."""
        end = time.monotonic() + seconds
        with self._news:
            while not (result := found()):
                left = end - time.monotonic()
                ended = not any(reader.is_alive() for reader in self._readers)
                if left <= 0 or ended:
                    why = "it ended" if ended else f"not within {seconds} s"
                    raise AssertionError(f"{self.name}: {what}: {why}\n{self.said()}")
                self._news.wait(min(left, 1))
        return result

    def said(self) -> str:
        return "\n".join(["-- lines", *self.lines[-15:], "-- messages", *self.messages[-15:]])

    def frames(self) -> list[dict]:
        """The lines that are JSON: of a follower the frames of the stream, and what it says of itself."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def stop(self, how: int = signal.SIGTERM, seconds: float = 20) -> int:
        """Asks it to end and waits for that; also what it started ends with it. Returns its status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            status = self.process.wait(seconds)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for reader in self._readers:
            reader.join(10)
        return status


def run(command: list, home: Path, statuses: tuple = (0,)) -> str:
    """A program to its end; what it printed. A status other than these is a failed test."""
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode in statuses, f"{command[:3]} ended with {done.returncode}: {done.stderr}"
    return done.stdout

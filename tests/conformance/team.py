"""A team server of its own for a test, its owner, and who publishes numbered events through its restarts."""

import signal
import threading
import urllib.parse
import uuid
from pathlib import Path

import httpx
from programs import PATIENCE_S, TEAMLAMP, Program, free_port, run

KIND = "custom.cli.count"
# What must come through as it is: two and four bytes of UTF-8, and what some take for ends of lines.
TEXT = "é 💡 \u2028 \u2029 \u0085 \r\n end"


class Server:
    """`teamlamp serve` on one port and one data folder, over its restarts."""

    def __init__(self, home: Path, *flags: str):
        self.home, self.flags, self.port = home, flags, free_port()
        self.direct = f"http://127.0.0.1:{self.port}"
        self.token = self.team = ""
        self.program: Program | None = None
        self.up = threading.Event()
        self.start()

    def start(self) -> None:
        listen = f"127.0.0.1:{self.port}"
        command = [TEAMLAMP, "serve", "--json", "--data", self.home / "data", "--listen", listen, *self.flags]
        self.program = Program(command, self.home)
        self.program.wait_for("it is ready", lambda: any('"ready":true' in line for line in self.program.lines))
        self.up.set()

    def restart(self, how: int = signal.SIGTERM) -> None:
        """Ends it (cleanly, or with SIGKILL) and starts it again where it was."""
        self.up.clear()
        status = self.program.stop(how)
        assert how == signal.SIGKILL or status == 0, f"a clean end: {status}\n{self.program.said()}"
        self.start()

    def found(self, team: str = "Acme", name: str = "Ada") -> "Server":
        """Makes the first team with the owner's code; keeps the owner's token."""
        link = (self.home / "data" / "first-owner-link").read_text().strip()
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["code"][0]
        made = self.accept(code, name, team_name=team)
        self.token, self.team = made["credential"]["token"], made["team"]["id"]
        return self

    def accept(self, code: str, name: str, **more: str) -> dict:
        body = {"code": code, "name": name, **more}
        answer = httpx.post(f"{self.direct}/v1/invitations/accept", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]

    def call(self, method: str, path: str, **more) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return httpx.request(method, self.direct + path, headers=headers, timeout=PATIENCE_S, **more)

    def invite(self, role: str = "member", uses: int = 1) -> dict:
        body = {"role": role, "max_uses": uses}
        answer = self.call("POST", f"/v1/teams/{self.team}/invitations", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]

    def events(self, origin: str) -> str:
        """The address of the team's stream behind `origin`."""
        return f"{origin}/v1/teams/{self.team}/events"


class Publisher:
    """Publishes 1, 2, 3, …, each with an id of its own, so that what was cut off is repeated and is one event."""

    def __init__(self, server: Server):
        self.server, self.sent, self.wanted = server, 0, 0
        self.fault: Exception | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ask(self, count: int) -> None:
        """So many more, meanwhile."""
        with self._news:
            self.wanted += count
            self._news.notify_all()

    def wait(self, number: int) -> None:
        """Until this number is acknowledged."""
        with self._news:
            done = self._news.wait_for(lambda: self.sent >= number or self.fault, PATIENCE_S)
            assert done and not self.fault, f"published {self.sent} of {number}: {self.fault!r}"

    def _run(self) -> None:
        try:
            while True:
                with self._news:
                    self._news.wait_for(lambda: self.wanted > self.sent)
                self._publish(self.sent + 1)
                with self._news:
                    self.sent += 1
                    self._news.notify_all()
        except Exception as fault:
            with self._news:
                self.fault = fault
                self._news.notify_all()

    def _publish(self, number: int) -> None:
        event = {"id": f"evt_{uuid.uuid4().hex}", "kind": KIND, "data": {"n": number, "text": TEXT}}
        path = f"/v1/teams/{self.server.team}/events"
        for _ in range(20):
            try:
                answer = self.server.call("POST", path, json={"events": [event]})
            except httpx.TransportError:
                # The server is between two lives: whether this one was kept is not known, so it is said again.
                assert self.server.up.wait(PATIENCE_S), "the server does not come back"
                continue
            assert answer.status_code == 201, answer.text
            return
        raise AssertionError(f"number {number} does not get through")


def member(server: Server, home: Path, origin: str, fingerprint: str | None = None, machine: str = "mate") -> None:
    """Lets `teamlamp` in this home join the team through `origin`, with a link as people get it."""
    code = server.invite()["code"]
    query = {"server": origin, "code": code, **({"fp": fingerprint} if fingerprint else {})}
    link = "teamlamp://join?" + urllib.parse.urlencode(query)
    run([TEAMLAMP, "join", link, "--as", machine, "--machine", machine, "--yes"], home)

"""A client of teams.v1 that was written from docs/PROTOCOL.md alone: it joins with a code, enrolls a machine,
reports, publishes one event, and follows the stream for ever, each frame a line.

    TEAMLAMP_CODE=7K3QF-9XW2M python from_the_document.py http://127.0.0.1:8720
"""

import json
import os
import random
import re
import secrets
import sys
import time

import httpx


class Refused(Exception):
    """The server's refusal; `code` is for programs, the sentence for people."""

    def __init__(self, answer: httpx.Response):
        error = answer.json().get("error", {})
        self.status, self.code = answer.status_code, error.get("code")
        super().__init__(error.get("message"))


class Client:
    def __init__(self, origin: str, token: str | None = None):
        caller = {"X-Supercode-Caller": "from-the-document main"}
        self.http = httpx.Client(base_url=origin, headers=caller, timeout=40, follow_redirects=False)
        if token:
            self.http.headers["Authorization"] = f"Bearer {token}"

    def call(self, method: str, path: str, body: dict | None = None) -> dict:
        """A change is repeated with its key, a reading up to five times; 429 is waited out and no try."""
        headers = {} if method == "GET" else {"Idempotency-Key": secrets.token_hex(16)}
        wait_ms, tries = 250, 0
        while True:
            try:
                answer = self.http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 429:
                time.sleep(answer.json()["error"]["details"]["retry_after_seconds"])
                continue
            tries += 1
            if answer is not None and answer.status_code < 400:
                return answer.json() if answer.content else {}
            if tries == 5 or (answer is not None and answer.status_code < 500):
                if answer is None:
                    raise ConnectionError("no answer in five tries")
                raise Refused(answer)
            time.sleep(random.uniform(0, wait_ms) / 1000)
            wait_ms = min(wait_ms * 2, 5000)


def messages(chunks):
    """The messages of an event stream as (id, data): only CR, LF and CR LF end a line."""
    rest, last_id, data = b"", None, []
    for chunk in chunks:
        rest += chunk
        # A CR at the very end may be half of a CR LF.
        *lines, rest = re.split(rb"\r\n|\n|\r(?!\Z)", rest)
        for line in lines:
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ").decode()
            if not line:
                if data:
                    yield last_id, "\n".join(data)
                data = []
            elif field == b"id" and "\0" not in value:
                last_id = value
            elif field == b"data":
                data.append(value)


class Stop(Exception):
    """Going on needs a person."""


def follow(client: Client, team: str):
    """Every frame of the team, each event once and in order, through whatever happens to the connection."""
    cursor, highest, wait_ms = None, 0, 250
    while True:
        query = {"after": cursor} if cursor else {}
        wait = None
        try:
            timeout = httpx.Timeout(10, read=40)
            path = f"/v1/teams/{team}/events"
            with client.http.stream("GET", path, params=query, timeout=timeout) as answer:
                if answer.status_code == 429:
                    wait = int(answer.headers["Retry-After"])
                elif answer.status_code == 400 and cursor:
                    cursor, highest = None, 0
                elif answer.status_code in (400, 401, 403, 404):
                    raise Stop(f"the server refuses: {answer.status_code}")
                elif answer.status_code == 200:
                    for _, data in messages(answer.iter_raw()):
                        frame = json.loads(data)
                        wait_ms = 250
                        if frame["type"] == "access_revoked":
                            raise Stop(frame["reason"])
                        gone = ("retention", "snapshot_retention", "server_restored")
                        if frame["type"] == "resync_required":
                            cursor = frame.get("cursor")
                            highest = 0 if frame["reason"] in gone else highest
                            yield frame
                            break
                        cursor = frame.get("cursor", cursor)
                        if frame["type"] == "event":
                            if frame["sequence"] <= highest:
                                continue
                            highest = frame["sequence"]
                        yield frame
        except httpx.TransportError:
            pass
        time.sleep(wait if wait is not None else random.uniform(0, wait_ms) / 1000)
        wait_ms = min(wait_ms * 2, 5000)


def main(origin: str, code: str) -> None:
    assert "events.stream" in Client(origin).call("GET", "/v1/capabilities")["operations"]
    preview = Client(origin).call("POST", "/v1/invitations/preview", {"code": code})["data"]
    joined = Client(origin).call("POST", "/v1/invitations/accept", {"code": code, "name": "Reader"})["data"]
    team = joined["team"]["id"]
    assert preview["team"]["id"] == team
    person = Client(origin, joined["credential"]["token"])
    machine = {"name": "from-the-document", "enrollment_key": secrets.token_urlsafe(24)}
    enrolled = person.call("POST", f"/v1/teams/{team}/machines", machine)["data"]
    connector = Client(origin, enrolled["credential"]["token"])
    report = {"incarnation_id": secrets.token_hex(8), "sequence": 1, "bindings": [], "roots": []}
    path = f"/v1/teams/{team}/machines/{enrolled['machine']['id']}/heartbeat"
    heard = connector.call("POST", path, report)["data"]
    event = {"id": f"evt_{secrets.token_hex(16)}", "kind": "custom.cli.hello", "data": {"heard": heard["connection"]}}
    person.call("POST", f"/v1/teams/{team}/events", {"events": [event]})
    for frame in follow(person, team):
        print(json.dumps(frame), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], os.environ["TEAMLAMP_CODE"])

"""What every test here gets: a scratch folder that goes with it, a server with its team, and followers."""

import sys
from pathlib import Path

import pytest
from programs import TEAMLAMP, Program
from team import Server, member

HERE = Path(__file__).parent
FOLLOWERS = {
    "browser": ["node", HERE / "followers/with_browser.mjs"],
    "eventsource": ["node", HERE / "followers/with_eventsource.mjs"],
    "httpx-sse": [sys.executable, HERE / "followers/with_httpx_sse.py"],
    "curl": [HERE / "followers/with_curl.sh"],
}


def pytest_configure() -> None:
    assert TEAMLAMP.exists(), f"{TEAMLAMP} is not built: cargo build -p teamlamp --bins"


@pytest.fixture
def programs():
    """Keeps the programs of a test, and ends them after it, the newest first."""
    started: list[Program] = []
    yield started
    for program in reversed(started):
        program.stop()


@pytest.fixture
def server(tmp_path: Path):
    """A server with a team, behind no proxy."""
    made = Server(folder(tmp_path, "server")).found()
    yield made
    made.program.stop()


def folder(under: Path, name: str) -> Path:
    path = under / name
    path.mkdir(mode=0o700)
    return path


def follow_all(server: Server, origin: str, under: Path, programs: list, authority: Path | None, pin: str | None):
    """Other people's clients and our own, each with a home of its own, following through `origin`."""
    trust = {}
    if authority is not None:
        names = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE")
        trust = {name: str(authority) for name in names}
    following = {}
    for name, command in FOLLOWERS.items():
        home = folder(under, name)
        program = Program([*command, server.events(origin)], home, TEAMLAMP_TOKEN=server.token, **trust)
        following[name] = program
    home = folder(under, "ours")
    member(server, home, origin, pin)
    following["ours"] = Program([TEAMLAMP, "events", "--follow", "--json"], home)
    programs.extend(following.values())
    return following

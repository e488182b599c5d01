"""Behind nginx and Caddy, set as the operator's page says, all of it works as without; behind one that holds
streams back our own client goes on with long polls."""

import json
import sys
from pathlib import Path

import proxies
import pytest
from conftest import HERE, folder, follow_all
from programs import TEAMLAMP, Program, free_port, run
from team import Server, member
from test_followers import through_restarts


@pytest.fixture
def behind(request, tmp_path: Path, programs: list):
    """A server behind the proxy that the parameter names, the proxy's origin, and its certificate."""
    port, kind = free_port(), request.param
    home = folder(tmp_path, "proxy")
    own = None if kind.startswith("holds") else proxies.certificate(home)
    origin = f"https://localhost:{port}" if own else f"http://localhost:{port}"
    server = Server(folder(tmp_path, "server"), "--origin", origin).found()
    upstream = f"127.0.0.1:{server.port}"
    if kind == "caddy":
        proxy = proxies.caddy(home, own, upstream, port)
    elif kind == "nginx":
        proxy = proxies.nginx(home, own, upstream, port)
    else:
        command = [sys.executable, HERE / "holding_proxy.py", kind.removeprefix("holds after "), port, server.port]
        proxy = Program(command, home)
        proxy.wait_for("it listens", lambda: proxy.lines)
    yield server, origin, own
    # The proxy outlives the programs that use it: what they say at their end still arrives.
    for program in reversed(programs):
        program.stop()
    programs.clear()
    server.program.stop()
    proxy.stop()


def through(*kinds: str):
    return pytest.mark.parametrize("behind", kinds, indirect=True)


@through("nginx", "caddy")
def test_clients_resume_behind_a_proxy(behind, tmp_path: Path, programs: list):
    server, origin, own = behind
    following = follow_all(server, origin, tmp_path, programs, own.file, own.pin)
    through_restarts(server, following)


def polls(home: Path) -> bool:
    # It ends with 3 while not everything of a connection is there yet.
    status = json.loads(run([TEAMLAMP, "status", "--json"], home, statuses=(0, 3)))
    return status["contexts"][0]["polls"]


@through("nginx", "caddy", "holds after head")
def test_a_machine_is_online_and_linked_through_a_proxy(behind, tmp_path: Path, programs: list):
    server, origin, own = behind
    home = folder(tmp_path, "machine")
    member(server, home, origin, own and own.pin, "linked")
    connector = Program([TEAMLAMP, "connect", "--json"], home)
    programs.append(connector)

    def online() -> bool:
        machines = server.call("GET", f"/v1/teams/{server.team}/machines").json()["items"]
        return [machine["connection"] for machine in machines] == ["online"]

    connector.wait_for("the server says that it is online, which a machine without a link is not", online)
    if own is None:
        connector.wait_for("its status says that events are asked for", lambda: polls(home))
    said = len(connector.lines)
    server.restart()
    connector.wait_for("it notices the restart and comes back", lambda: len(connector.lines) > said + 1 and online())


@through("holds after head", "holds after nothing")
def test_our_client_changes_over_to_long_polls(behind, tmp_path: Path, programs: list):
    server, origin, _ = behind
    home = folder(tmp_path, "ours")
    member(server, home, origin)
    follower = Program([TEAMLAMP, "events", "--follow", "--json"], home)
    programs.append(follower)
    through_restarts(server, {"ours": follower})
    assert any("holds live streams back" in line for line in follower.messages), follower.said()

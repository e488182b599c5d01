"""docs/PROTOCOL.md is enough to write a client from, and its commands work as they stand there."""

import re
import sys
from pathlib import Path

from conftest import HERE, folder
from programs import TOP, Program
from team import Server
from test_followers import through_restarts


def test_a_client_that_was_written_from_the_document_does_it_all(server: Server, tmp_path: Path, programs: list):
    home = folder(tmp_path, "reader")
    command = [sys.executable, HERE / "from_the_document.py", server.direct]
    client = Program(command, home, TEAMLAMP_CODE=server.invite()["code"])
    programs.append(client)
    through_restarts(server, {"ours": client})
    history = server.call("GET", f"/v1/teams/{server.team}/events/history?kinds=custom.cli.hello").json()
    (hello,) = history["items"]
    assert hello["event"]["data"] == {"heard": "unlinked"}, "its machine was heard from and has no link"
    machines = server.call("GET", f"/v1/teams/{server.team}/machines").json()["items"]
    assert [machine["name"] for machine in machines] == ["from-the-document"]


def test_every_operation_and_every_code_of_a_refusal_is_in_the_document(server: Server):
    text = (TOP / "docs/PROTOCOL.md").read_text()
    operations = server.call("GET", "/v1/capabilities").json()["operations"]
    schemas = server.call("GET", "/v1/openapi.json").json()["components"]["schemas"]
    codes = [code["const"] for code in schemas["ErrorCode"]["oneOf"] if code["const"] != "unknown"]
    assert len(operations) > 30 and len(codes) > 10
    missing = [word for word in (*operations, *codes) if f"`{word}`" not in text]
    assert not missing, "docs/PROTOCOL.md does not name these"


def test_the_commands_of_the_document_run_as_they_stand(server: Server, tmp_path: Path, programs: list):
    text = (TOP / "docs/PROTOCOL.md").read_text()
    (commands,) = re.findall(r"## From nothing to a feed\n.*?```sh\n(.*?)```", text, re.DOTALL)
    for word, own in {"http://127.0.0.1:8720": server.direct, "7K3QF-9XW2M": server.invite()["code"]}.items():
        assert word in commands
        commands = commands.replace(word, own)
    home = folder(tmp_path, "commands")
    (home / "commands.sh").write_text("set -euo pipefail\n" + commands)
    shell = Program(["bash", home / "commands.sh"], home)
    programs.append(shell)
    shell.wait_for("the feed", lambda: any("snapshot_end" in line for line in shell.lines))
    assert '"unlinked"' in shell.lines, shell.said()
    assert any("custom.cli.deploy" in line and "snapshot_item" in line for line in shell.lines), shell.said()

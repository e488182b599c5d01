"""Schemathesis asks the server whatever its own OpenAPI document allows and forbids, and reads each answer by it."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import schemathesis
from programs import environment
from team import Server

HERE = Path(__file__).parent / "openapi"
# What CI can spare; README.md says how to look longer and elsewhere.
SECONDS = int(os.environ.get("TEAMLAMP_OPENAPI_SECONDS", "75"))
SEED = int(os.environ.get("TEAMLAMP_OPENAPI_SEED", "1"))


def test_every_answer_is_what_the_document_says(server: Server, tmp_path: Path):
    team = furnished(server)
    (tmp_path / "team.json").write_text(json.dumps(team["credentials"]))
    settings = (HERE / "schemathesis.toml").read_text()
    for name, value in team["names"].items():
        settings = settings.replace(f"${name}$", value)
    (tmp_path / "schemathesis.toml").write_text(settings)
    command = [Path(sys.executable).parent / "st", "--config-file", tmp_path / "schemathesis.toml", "run"]
    command += [f"{server.direct}/v1/openapi.json", "--seed", SEED, "--max-time", SECONDS]
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(
            tmp_path,
            TEAMLAMP_CONFORMANCE=str(tmp_path / "team.json"),
            SCHEMATHESIS_HOOKS="hooks",
            PYTHONPATH=str(HERE),
        ),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS + 120,
    )
    print(done.stdout)
    assert done.returncode == 0, "Schemathesis found what differs from the document (above)"


def test_the_document_is_openapi(server: Server):
    schemathesis.openapi.from_dict(server.call("GET", "/v1/openapi.json").json()).validate()


def furnished(server: Server) -> dict:
    """A team in which every route has something to answer with, and more owners than one."""
    def made(method: str, path: str, **more) -> dict:
        answer = server.call(method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def people(role: str, count: int) -> list[dict]:
        code = server.invite(role, uses=count)["code"]
        return [server.accept(code, f"{role} {number}") for number in range(count)]

    team = f"/v1/teams/{server.team}"
    owners = [server.token, *(each["credential"]["token"] for each in people("owner", 11))]
    spare = [each["credential"]["token"] for each in people("member", 20)]
    mate = people("member", 1)[0]["principal"]["id"]
    enrolled = made("POST", f"{team}/machines", json={"name": "desk", "enrollment_key": uuid.uuid4().hex})
    machine, token = enrolled["machine"]["id"], enrolled["credential"]["token"]
    other = made("POST", f"{team}/machines", json={"name": "old desk", "enrollment_key": uuid.uuid4().hex})
    as_machine = {"headers": {"Authorization": f"Bearer {token}"}}
    native = {"harness": "codex", "native_id": "n1"}
    session = made("POST", f"{team}/sessions", json={"sessions": [native]}, **as_machine)["sessions"][0]["id"]
    binding = {"id": "b1", "machine_id": machine, "incarnation_id": "i1", "harness": "codex",
               "native_session_id": "n1"}
    beat = {"incarnation_id": "i1", "sequence": 1, "bindings": [binding], "roots": [],
            "activity": [{**native, "turn": "waiting_input"}]}
    made("POST", f"{team}/machines/{machine}/heartbeat", json=beat, **as_machine)
    event = made("POST", f"{team}/events", json={"events": [{"kind": "custom.cli.built"}]})["events"][0]["id"]
    invitation = server.invite()
    return {
        "credentials": {"owners": owners, "spare": spare, "machine": token},
        "names": {"team": server.team, "principal": mate, "machine": machine, "session": session, "event": event,
                  "old_machine": other["machine"]["id"], "invitation": invitation["invitation"]["id"],
                  "code": invitation["code"]},
    }

"""Who asks, in Schemathesis' run, and what of its findings is no finding.

An owner asks, with another credential for each request, and a machine for what only a machine may do: so the rate
limit of one credential, which is not what is looked at here, is seldom in the way.
"""

import itertools
import json
import os
import re
from pathlib import Path

import schemathesis
from schemathesis.openapi.checks import IgnoredAuth, MissingHeaderNotRejected, RejectedPositiveData

TEAM = json.loads(Path(os.environ["TEAMLAMP_CONFORMANCE"]).read_text())
OWNERS = itertools.cycle(TEAM["owners"])
# Each of these ends at its first use; the last is 401 from then on, like every credential that ended.
SPARE = itertools.chain(TEAM["spare"], itertools.repeat(TEAM["spare"][-1]))
OF_A_MACHINE = {"machines.heartbeat", "machines.configuration", "machines.link", "sessions.register"}


def operation_of(case) -> str:
    return case.operation.definition.raw.get("operationId", "")


@schemathesis.auth(refresh_interval=None)
class Credential:
    """A bearer token of somebody who may do what is asked."""

    def get(self, case, context):
        operation = operation_of(case)
        if operation == "credentials.sign_out":
            return next(SPARE)
        return TEAM["machine"] if operation in OF_A_MACHINE else next(OWNERS)

    def set(self, case, data, context):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}
        # `wait` is for long polls, and a stream that is asked to wait is 400: no schema can say that one
        # parameter wants a header.
        if operation_of(case) == "events.stream" and "wait" in (case.query or {}):
            case.headers["Accept"] = "application/json"


@schemathesis.hook
def filter_failure(context, failure, case, response) -> bool:
    """Drops what the document can't say, and what is another rule of the protocol at work."""
    if isinstance(failure, IgnoredAuth | MissingHeaderNotRejected) and re.search(r"(?i)got `?429 ", failure.message):
        # Who has no credential gets 60 requests a minute. Each route is asked again until one gets through.
        return False
    if isinstance(failure, RejectedPositiveData):
        return not beyond_schemas(operation_of(case), case)
    return True


def has_a_fraction(value) -> bool:
    if isinstance(value, dict | list):
        return any(has_a_fraction(each) for each in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, float)


def beyond_schemas(operation: str, case) -> bool:
    """Whether this request fits the schemas and breaks a rule that they can't hold."""
    query = case.query or {}
    body = case.body if isinstance(case.body, dict) else {}
    # A cursor is what the server gave, authenticated: none is made up.
    if "cursor" in query or (operation == "events.stream" and "after" in query):
        return True
    # To JSON Schema 7.0 is an integer. The server reads integers as they are mostly written: 7.
    if has_a_fraction(body):
        return True
    match operation:
        # A WebSocket's handshake.
        case "machines.link":
            return True
        # Roots and bindings name the machine and the incarnation of their report, and no root comes twice.
        case "machines.heartbeat":
            return bool(body.get("bindings") or body.get("roots"))
        # A kind decides what its resource may be; and `data` has a size in bytes.
        case "events.publish":
            return any("resource" in event or not event["kind"].startswith("custom.") for event in body["events"])
        # A code says whether a team's name belongs beside it, and a wrong one is none.
        case "invitations.accept" | "invitations.preview":
            return True
    return False

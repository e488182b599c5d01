"""Every client that people already have follows the stream through restarts: nothing is lost, nothing comes twice."""

import signal
from pathlib import Path

from conftest import follow_all
from programs import Program
from team import KIND, TEXT, Publisher, Server


def numbers(follower: Program) -> list[int]:
    """The numbers that came as events, in their order; the snapshot's items are not events."""
    events = (frame["data"] for frame in follower.frames() if frame.get("type") == "event")
    counted = [event["data"] for event in events if event["kind"] == KIND]
    assert all(data["text"] == TEXT for data in counted), "what was published comes as it was"
    return [data["n"] for data in counted]


def has_snapshot(follower: Program) -> bool:
    return any(frame.get("type") == "snapshot_end" for frame in follower.frames())


def opened(follower: Program) -> int:
    return sum(1 for frame in follower.frames() if frame.get("opened"))


def through_restarts(server: Server, following: dict[str, Program]) -> None:
    """Publishes while the server is ended and killed, and looks at what each follower saw."""
    for follower in following.values():
        follower.wait_for("a whole snapshot", lambda it=follower: has_snapshot(it))
    publisher = Publisher(server)

    def reach(number: int) -> None:
        for follower in following.values():
            follower.wait_for(f"number {number}", lambda it=follower: number in numbers(it))

    publisher.ask(20)
    reach(10)
    for how in (signal.SIGTERM, signal.SIGKILL):
        # Some of these are published before the end, some while it is, some before anybody is back.
        publisher.ask(20)
        publisher.wait(publisher.wanted - 15)
        server.restart(how)
        publisher.wait(publisher.wanted)
        reach(publisher.wanted)
    expected = list(range(1, publisher.wanted + 1))
    for name, follower in following.items():
        assert numbers(follower) == expected, f"{name} saw each number once and in order"
        if name != "ours":
            assert opened(follower) >= 3, f"{name} really came back twice: {opened(follower)}"


def test_clients_resume_through_a_restart_and_a_kill(server: Server, tmp_path: Path, programs: list):
    following = follow_all(server, server.direct, tmp_path, programs, None, None)
    through_restarts(server, following)
    for name in ("browser", "eventsource"):
        anew = [frame for frame in following[name].frames() if frame.get("anew")]
        assert not anew, f"{name} resumes by itself, as the HTML standard says"

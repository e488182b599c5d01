"""nginx and Caddy before a server, with the files that the operator's page shows, and a certificate of this test."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from programs import TARGET, TOP, Program, run

NAME = "teamlamp.example.com"
CERTIFICATE = "/etc/ssl/teamlamp/fullchain.pem"
KEY = "/etc/ssl/teamlamp/privkey.pem"
UPSTREAM = "127.0.0.1:8720"


@dataclass
class Certificate:
    """A self-made certificate of `localhost`; `pin` is its key's SHA-256, as links carry it in `fp`."""

    file: Path
    key: Path
    pin: str


def certificate(home: Path) -> Certificate:
    file, key = home / "certificate.pem", home / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    run(["openssl", "req", "-x509", *made, *subject, "-keyout", key, "-out", file], home)
    public = home / "public.der"
    run(["openssl", "pkey", "-in", key, "-pubout", "-outform", "DER", "-out", public], home)
    return Certificate(file, key, hashlib.sha256(public.read_bytes()).hexdigest())


def program(name: str) -> Path:
    """Where scripts/setup unpacked it, or where the system has it."""
    for place in (TARGET / "tools/proxies/usr", TOP / "target/tools/proxies/usr", Path("/usr")):
        for folder in ("sbin", "bin"):
            if (place / folder / name).exists():
                return place / folder / name
    found = shutil.which(name)
    assert found, f"{name} is missing: scripts/setup test"
    return Path(found)


def adapted(name: str, changes: dict[str, str]) -> str:
    """A file of the operator's page with the words that every operator changes, and no others."""
    text = (TOP / "docs/proxies" / name).read_text()
    for word, own in changes.items():
        assert word in text, f"docs/proxies/{name} has no {word!r}: change this test with it"
        text = text.replace(word, own)
    return text


def nginx(home: Path, own: Certificate, upstream: str, port: int) -> Program:
    changes = {
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        NAME: "localhost",
        CERTIFICATE: str(own.file),
        KEY: str(own.key),
        UPSTREAM: upstream,
    }
    (home / "teamlamp.conf").write_text(adapted("nginx.conf", changes))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "\n".join(f"{kind}_temp_path {home}/{kind};" for kind in kinds)
    user = "user root;" if os.getuid() == 0 else ""
    around = f"{user} daemon off; pid {home}/nginx.pid; error_log stderr notice; worker_processes 1; events {{}}"
    whole = f"{around}\nhttp {{ access_log off;\n{places}\ninclude {home}/teamlamp.conf; }}\n"
    (home / "nginx.conf").write_text(whole)
    started = Program([program("nginx"), "-e", "stderr", "-p", home, "-c", home / "nginx.conf"], home)
    started.wait_for("nginx serves", lambda: any("start worker process " in line for line in started.messages))
    return started


def caddy(home: Path, own: Certificate, upstream: str, port: int) -> Program:
    changes = {
        f"\n{NAME} {{": f"\nlocalhost:{port} {{",
        "# tls ": "tls ",
        CERTIFICATE: str(own.file),
        KEY: str(own.key),
        f"reverse_proxy {UPSTREAM}": f"reverse_proxy {upstream}",
    }
    # What belongs to a whole computer, which a test has not: port 80, its trust store and the admin's port.
    around = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
    (home / "Caddyfile").write_text(around + adapted("Caddyfile", changes))
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", home / "Caddyfile"]
    started = Program(command, home)
    started.wait_for("Caddy serves", lambda: any("serving initial" in line for line in started.messages))
    return started

"""A Kerberos realm on this machine: MIT's KDC, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdc_assets_tests.waiting import until

REALM = "TESTS.EXAMPLE"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def is_installed() -> bool:
    """Whether this machine has a KDC: krb5-kdc, krb5-admin-server and krb5-user in Debian."""
    return all(map(_program, _PROGRAMS))


def _program(name: str) -> str:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin") or ""


@dataclass(frozen=True)
class Realm:
    """The running one.

    Attributes:
        folder: of its files.
        port: of its KDC.
    """

    folder: Path
    port: int

    @property
    def settings(self) -> Path:
        """``krb5.conf``, for MIT's library and for Java."""
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Of programs that use it."""
        return {
            "KRB5_CONFIG": str(self.settings),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder}/tickets",
        }

    def keytab(self, principal: str) -> Path:
        """Make a principal of the realm, with a random key; return the file with the key."""
        file = self.folder / f"{principal.partition('/')[0]}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self.run("kadmin.local", "-q", f"ktadd -k {file} {principal}@{REALM}")
        return file

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_program(program), *arguments], check=True, capture_output=True,
            env={**os.environ, **self.environment}, cwd=self.folder,
        )  # fmt: skip

    def write(self) -> None:
        self.settings.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n rdns = false\n dns_canonicalize_hostname = false\n"
            " udp_preference_limit = 1\n ticket_lifetime = 10m\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        (self.folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_ports = {self.port}\n kdc_tcp_ports = {self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.folder}/principal\n"
            f"  key_stash_file = {self.folder}/stash\n  max_life = 1h\n }}\n"
        )


@contextmanager
def running(folder: Path) -> Iterator[Realm]:
    """Start it; stop it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    realm = Realm(folder, port)
    realm.write()
    realm.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-tests")
    env = {**os.environ, **realm.environment}
    with subprocess.Popen([_program("krb5kdc"), "-n"], env=env, stderr=subprocess.DEVNULL) as kdc:
        try:
            until(lambda: _answers(port), "the KDC listens", within_seconds=20)
            yield realm
        finally:
            kdc.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0

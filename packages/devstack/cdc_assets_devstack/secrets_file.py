"""Stores passwords and tokens that the stack generates, one file each, for the owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_create(path: Path) -> str:
    """Reads a secret; the first call creates it, and concurrent first calls get the same one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        write_private(staging, secrets.token_urlsafe(24))
        try:
            os.link(staging, path)
        except FileExistsError:
            pass
        finally:
            staging.unlink()
    return path.read_text().strip()


def write_private(path: Path, text: str) -> None:
    """Writes a file that is never readable by anybody else, not even while it is written."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)

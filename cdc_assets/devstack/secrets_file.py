"""Passwords and tokens that the stack makes for itself, one file each, for the owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_create(path: Path) -> str:
    """The secret in a file, made at the first call; of two first callers one wins for both."""
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
    """Write a file that nobody else can read at any moment of its life."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)

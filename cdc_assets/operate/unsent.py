"""Keeps alerts that the webhook did not accept, and sends them once it does.

Dagster evaluates the failure of a run once, whether or not its alert could be posted.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Final, cast

from cdc_assets.config.platform import AlertsConfig
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, beside, files_at, replace_file
from cdc_assets.operate.webhook import RefusedError, formed, post

ATTEMPTS: Final = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resent:
    """The names of the alerts sent; ``problem``: why the rest is still kept."""

    names: tuple[str, ...] = ()
    problem: str = ""


class Unsent:
    """The alerts that are kept, each a JSON document under a folder path or fsspec URL.

    A process that dies between sending one and forgetting it has it sent once more.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root = files_at(url)

    @classmethod
    def beside(cls, registry_url: str) -> Unsent:
        """Returns the alerts that belong to a registry."""
        return cls(beside(registry_url, "unsent"))

    def keep(self, name: str, document: dict[str, Any]) -> None:
        """Keeps an alert, before it has the receiver's form.

        Args:
            name: of the alert; another one of that name is replaced.
            document: its `json` form.

        Raises:
            UnreachableError: if the place does not answer.
        """
        try:
            with effect("alerts: write"):
                replace_file(self._files, self._file(name), json.dumps(document).encode())
        except OSError as error:
            raise self._unreachable() from error

    def send(self, config: AlertsConfig) -> Resent:
        """Sends what is kept, up to the first alert that the receiver is not there for.

        One that it refuses for what it is keeps no other waiting. It is tried again the next time:
        another `alerts.form` may be what it needs.

        Raises:
            UnreachableError: if the place does not answer.
            ConfigError: if the webhook's variable is not set.
        """
        if config.webhook is None:
            return Resent()
        url, sent, refused = config.webhook.reveal(), list[str](), ""
        for file in self._kept():
            document = self._read(file)
            if document is not None:
                try:
                    post(url, formed(document, config), ATTEMPTS)
                except UnreachableError as problem:
                    return Resent(tuple(sent), str(problem))
                except RefusedError as problem:
                    refused = f"{problem}, or delete {file}"
                    continue
                sent.append(file.rpartition("/")[2].removesuffix(".json"))
            self._forget(file)
        return Resent(tuple(sent), refused)

    def _file(self, name: str) -> str:
        return f"{self._root}/{name}.json"

    def _kept(self) -> list[str]:
        try:
            with as_os_errors():
                files = cast("list[str]", self._files.ls(self._root, detail=False))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreachable() from error
        return sorted(file for file in files if file.endswith(".json"))

    def _read(self, file: str) -> dict[str, Any] | None:
        """Returns an alert; None if another process has sent it, or the document is none."""
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(file))
            return json.loads(content)
        except FileNotFoundError:
            return None
        except ValueError:  # nothing of ours: what is written here is replaced as a whole
            _log.warning("%s is no JSON document: it is removed, and no alert is sent for it", file)
            return None
        except OSError as error:
            raise self._unreachable() from error

    def _forget(self, file: str) -> None:
        try:
            with effect("alerts: write"), as_os_errors():
                self._files.rm_file(file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> UnreachableError:
        what = "alerts that are still to be sent cannot be read or written"
        return UnreachableError(what, where=self.url, remedy="check that the place is writable")

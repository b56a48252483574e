"""Chooses the options with which Iceberg rewrites a few files."""

from __future__ import annotations

from typing import Final

from cdc_assets.changes.upkeep import AT_ONCE, TINY, Figures, Tier, files_at_once
from cdc_assets.merge.upkeep.needs import Needs

_COMMITS: Final = 10_000
"""More than a rewrite has groups of files, so that each is a commit of its own."""


def rewrite_all_options(needs: Needs) -> dict[str, object]:
    """Returns options with which Iceberg rewrites all files, a few with each commit."""
    deletes = {"remove-dangling-deletes": "true"} if needs.figures.has_delete_files else {}
    return {
        "rewrite-all": "true",
        "max-concurrent-file-group-rewrites": 1,
        "max-file-group-size-bytes": AT_ONCE,
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": _COMMITS,
        **deletes,
    }


def rewrite_options(needs: Needs, figures: Figures, tier: Tier) -> dict[str, object]:
    """Returns options for Iceberg's procedure; others have their defaults.

    They select only files of the kinds that `files_at_once` counts with.

    Args:
        needs: decides which files are rewritten.
        figures: of the files that there are now.
        tier: of the files.
    """
    limits, is_marked = needs.limits, needs.figures.is_marked(needs.limits)
    wanted = limits.tiny_files if tier is Tier.TINY else limits.small_files
    options: dict[str, object] = {
        "min-input-files": max(2, wanted // 3),
        "max-concurrent-file-group-rewrites": 1,  # other work needs the cores, too
    }
    if tier is Tier.TINY:
        return options | {
            "min-file-size-bytes": TINY,
            "delete-ratio-threshold": 1.0,
            "max-files-to-rewrite": files_at_once(figures, tier, with_marked=False),
        }
    if tier is Tier.MARKED:
        options |= {"min-file-size-bytes": 0}
    if needs.figures.has_delete_files:
        options |= {"remove-dangling-deletes": "true"}
    if needs.figures.has_delete_files and is_marked:
        options |= {"delete-file-threshold": 5}
    return options | {
        "delete-ratio-threshold": limits.marked if is_marked else 1.0,
        "max-files-to-rewrite": files_at_once(figures, tier, with_marked=is_marked),
    }

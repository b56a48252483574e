"""``python -m cdc_assets_tests.soak``: what ``make test`` leaves out, in parts of bounded time.

Runs the tests that ``make test`` skips because they take long, and those that try more under the
soak's profile. They are found by collection, so that none can be forgotten. What has never passed
comes first, then what has changed since it passed, the oldest first. Passes are recorded in
``passed.tsv`` beside this file: commit it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main() -> int:
    """Run one part; further arguments are pytest's: ``-k kills``, files and folders of tests."""
    asked = argparse.ArgumentParser(prog="python -m cdc_assets_tests.soak", description=__doc__)
    asked.add_argument("--part", default="1/1", help="3/8 is the third of eight")
    asked.add_argument("--seconds", type=float, default=3600, help="begin no test after so many")
    asked.add_argument("--properties", action="store_true", help="the property tests instead")
    asked.add_argument("--list", action="store_true", help="only say what would run")
    own, further = asked.parse_known_args()

    os.environ["HYPOTHESIS_PROFILE"] = "soak"  # before anything asks for it
    os.environ.setdefault("CDC_ASSETS_KILLS", "300")
    os.environ.setdefault("CDC_ASSETS_SECONDS", str(own.seconds))
    import pytest

    from cdc_assets_tests.soak.plan import Part
    from cdc_assets_tests.soak.plugin import Soak
    from cdc_assets_tests.workers import TESTS

    try:
        part = Part.parsed(own.part)
    except ValueError as error:
        asked.error(str(error))
    places = [each for each in further if Path(each.partition("::")[0]).exists()]
    soak = Soak(part, own.seconds, own.properties, own.list, is_whole=not further)
    where = [] if places else [str(TESTS)]
    done = pytest.main(["-v", "-rfEs", *further, *where], plugins=[soak])
    empty = own.list or (not soak.plan and not further)
    return 0 if empty and done == pytest.ExitCode.NO_TESTS_COLLECTED else int(done)


if __name__ == "__main__":
    sys.exit(main())

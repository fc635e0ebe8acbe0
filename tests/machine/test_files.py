"""Files written whole or not at all: by several at once, on full disks, by the killed."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

import omcal
from omcal.machine import files
from omcal.machine.files import open_regular, replacing, require_replaceable, write_whole
from small_disk import small_disk


@pytest.mark.slow
def test_threads_that_write_one_file_and_readers_of_it(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([65 + i]) * 20_000 for i in range(6)]
    write_whole(path, contents[0])
    failures, torn, done = [], [], threading.Event()

    def write(content):
        try:
            for _ in range(30):
                write_whole(path, content)
        except Exception as error:
            failures.append(error)

    def read():
        while not done.is_set():
            if path.read_bytes() not in contents:
                torn.append(path)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    reader = threading.Thread(target=read)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not failures and not torn
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_permissions_of_a_file_stay(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == mode  # never wider, not for a moment
        temporary.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "new"


def test_a_new_file_has_the_usual_permissions(tmp_path):
    write_whole(tmp_path / "ours", "new")
    (tmp_path / "usual").write_text("new")
    ours, usual = (stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("ours", "usual"))
    assert ours == usual


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Even where the name could be guessed: it is made exclusively."""
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".omcal-00000000000000ff.tmp").symlink_to(tmp_path / "victim")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "00000000000000ff")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", "new")
    assert (tmp_path / "victim").read_text() == "precious"


def test_names_are_not_told_by_the_process(tmp_path):
    names = set()
    for _ in range(20):
        with replacing(tmp_path / "file") as temporary:
            names.add(temporary.name)
    assert len(names) == 20


def test_a_link_is_replaced_where_it_points(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "new"


def unusable(folder):
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling").symlink_to(folder / "absent" / "file")
    names = ["folder", "pipe", "loop", "dangling", "absent/file", "x" * 300]
    return [folder / name for name in names]


def test_what_cannot_be_written_is_known_before(tmp_path):
    for path in unusable(tmp_path):
        with pytest.raises(OSError) as before:  # noqa: PT011 - any of its kinds
            require_replaceable(path)
        with pytest.raises(OSError) as then:  # noqa: PT011
            write_whole(path, "new")
        assert before.value.errno == then.value.errno
        assert ".omcal" not in str(before.value)
    require_replaceable(tmp_path / "file")
    require_replaceable(tmp_path / os.fsdecode(b"\xff\xfe"))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".omcal")]


def test_a_name_that_is_no_utf8(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff\xfe")
    write_whole(path, f"the file {path.name}")
    assert path.read_text() == r"the file \udcff\udcfe"


def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


@pytest.mark.process
@pytest.mark.parametrize("kilobytes", [4, 16, 64])
def test_a_full_disk_leaves_the_old_file_and_says_what_is_missing(tmp_path, kilobytes):
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        write_whole(disk / "file", "old")
        with pytest.raises(OSError, match=r"no space left.*: 100\.0 kB are needed") as info:
            write_whole(disk / "file", b"x" * 100_000)
        assert info.value.filename == str(disk / "file")
        missing = 100_000 - (kilobytes - 4) * 1024
        assert f"about {missing} bytes are missing" in str(info.value)
        assert os.listdir(disk) == ["file"]
        assert (disk / "file").read_text() == "old"


# The module alone, because to import the package takes seconds.
ALONE = f"""
import sys, time, types
omcal = sys.modules["omcal"] = types.ModuleType("omcal")
omcal.__path__ = {omcal.__path__!r}
from omcal.machine.files import replacing, write_whole
"""

KILLED = f"""{ALONE}
with replacing(sys.argv[1], folder=sys.argv[2] == "folder") as temporary:
    (temporary / "part" if sys.argv[2] == "folder" else temporary).write_text("half of it")
    print("writing", flush=True)
    time.sleep(60)
"""

WRITES = f"""{ALONE}
write_whole(sys.argv[1], "new")
"""


@pytest.mark.process
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_leaves_the_next_one_clears(tmp_path, kind):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "out"), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        # While it lives nobody takes its file away.
        subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / "other")], check=True)
        assert len(os.listdir(tmp_path)) == 2
        process.send_signal(signal.SIGKILL)
    subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / "other")], check=True)
    assert os.listdir(tmp_path) == ["other"]


def test_files_with_such_a_name_that_are_traps(tmp_path):
    os.mkfifo(tmp_path / ".omcal-0000000000000000.tmp")
    (tmp_path / ".omcal-0000000000000001.tmp").symlink_to("/dev/zero")
    (tmp_path / ".omcal-mine.tmp").write_text("not ours")
    began = time.monotonic()
    write_whole(tmp_path / "file", "new")
    assert time.monotonic() - began < 5
    assert {"file", ".omcal-mine.tmp"} <= set(os.listdir(tmp_path))

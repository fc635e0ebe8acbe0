"""Models and checkpoints taken apart, changed, and put together again."""

import hashlib
import io
import warnings
import zipfile


def members_of(content):
    """The members but for the checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != "sha256"}


def archive_of(members, method=zipfile.ZIP_STORED, checksum=None):
    """An archive of these members, pairs or a dictionary, with the right checksum or this one."""
    stream = io.BytesIO()
    digest = hashlib.sha256()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")  # two of the same name are meant
        for name, data in members.items() if isinstance(members, dict) else members:
            data = data.encode() if isinstance(data, str) else data
            archive.writestr(name, data)
            digest.update(f"{len(name)}:{name}{len(data)}:".encode() + data)
        archive.writestr("sha256", checksum or digest.hexdigest())
    return stream.getvalue()


def checksum_of(content):
    """The checksum that an archive holds."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read("sha256")


def npy_that_declares(shape, dtype="<f8", data=b"\0" * 64):
    """An array whose header says more than there is."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def mutated(content, rng):
    """A few bytes changed; now and then the end cut off."""
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 4)):
        changed[place] = rng.integers(256)
    if rng.random() < 0.1:
        del changed[rng.integers(len(changed)) :]
    return bytes(changed)

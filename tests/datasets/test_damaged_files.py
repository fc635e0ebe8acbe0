"""Files that are cut off, wrong or hostile: an error that says so, and nothing else."""

import gzip
import io as streams
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest
from dataset_files import write_idx, write_mat5
from refusal import Payload, assert_refused, cut
from scipy import io, sparse

# Each refusal is watched for the memory that it takes.
pytestmark = pytest.mark.memory

HUGE = 10**7


def npy_bytes(array, shape=None):
    """An .npy file, with another shape in its header if asked for."""
    stream = streams.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream,
        {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape},
    )
    return stream.getvalue() + array.tobytes()


def npy_of(path, array):
    with path.open("wb") as file:  # given a name, NumPy would put its ending on it
        np.save(file, array, allow_pickle=True)


def npz_of(path, **arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)


def zip_of(path, compression=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)


def element(kind, payload):
    """A tagged element of a MATLAB file."""
    return struct.pack("<II", kind, len(payload)) + payload + b"\0" * (-len(payload) % 8)


def matrix(array_class, shape, *parts, name=b"X"):
    flags, dims = struct.pack("<II", array_class, 0), struct.pack(f"<{len(shape)}i", *shape)
    return element(14, element(6, flags) + element(5, dims) + element(1, name) + b"".join(parts))


def mat_of(path, *elements):
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements))


def empty(path, views):
    path.write_bytes(b"")


def noise(path, views):
    path.write_bytes(np.random.default_rng(1).bytes(3000))


def pickled(path, views):
    path.write_bytes(pickle.dumps({"X": Payload(path.parent / "executed")}))


def npy_pickled(path, views):
    npy_of(path, np.array([[Payload(path.parent / "executed")]], dtype=object))


def npz_pickled(path, views):
    payload = np.array([[Payload(path.parent / "executed")]], dtype=object)
    npz_of(path, a=np.ones((1, 2)), X=payload)


def npy_cut(path, views):
    npy_of(path, views[0])
    cut(path)


def npy_huge(path, views):
    path.write_bytes(npy_bytes(views[0], (HUGE, HUGE)))


def npy_negative(path, views):
    path.write_bytes(npy_bytes(views[0], (-8, 5)))


def npz_huge(path, views):
    zip_of(path, X__npy=npy_bytes(views[0], (HUGE, HUGE)))


def npz_longer_than_said(path, views):
    zip_of(path, X__npy=npy_bytes(views[0], (2, 2)))


def npz_shorter_than_said(path, views):
    zip_of(path, X__npy=npy_bytes(views[0], (1000, 5)))


def npz_bomb(path, views):
    """A member of 16 MB of zeros whose directory entry and header speak of far more."""
    zip_of(path, X__npy=npy_bytes(np.zeros(2 * 10**6), (HUGE, 20000)))
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(content)


def npz_overlapping(path, views):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy_bytes(views[0]))
        first = archive.filelist[0]
        for i in range(50):
            twin = zipfile.ZipInfo(f"{i}.npy")
            for field in ("header_offset", "compress_size", "file_size", "CRC"):
                setattr(twin, field, getattr(first, field))
            archive.filelist.append(twin)


def npz_cut(path, views):
    npz_of(path, X=views[0])
    cut(path)


def npz_flipped(path, views):
    npz_of(path, X=views[0])
    content = bytearray(path.read_bytes())
    content[300] ^= 255
    path.write_bytes(content)


def npz_foreign(path, views):
    zip_of(path, **{"xl/workbook__xml": b"<workbook/>"})


def npz_empty(path, views):
    zip_of(path)


def npz_bzip2(path, views):
    zip_of(path, zipfile.ZIP_BZIP2, X__npy=npy_bytes(views[0]))


def npz_sparse(path, **changes):
    csr = sparse.random_array(
        (8, 6), density=0.5, format="csr", random_state=np.random.default_rng(0)
    )
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
    npz_of(path, **(parts | changes))


def sparse_outside(path, views):
    npz_sparse(path, indices=np.full(24, 6))


def sparse_negative(path, views):
    npz_sparse(path, indices=np.full(24, -1))


def sparse_unordered(path, views):
    npz_sparse(path, indptr=np.array([0, 9, 3, 9, 12, 15, 18, 21, 24]))


def sparse_wide(path, views):
    npz_sparse(path, shape=np.array([8, 2**60]))


def sparse_diagonal(path, views):
    with path.open("wb") as file:
        sparse.save_npz(file, sparse.dia_array(np.eye(5)))


def mat_cut(path, views):
    write_mat5(path, views, np.arange(8))
    cut(path)


def mat_flipped(path, views):
    write_mat5(path, views, np.arange(8))
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)


def mat_huge(path, views):
    mat_of(path, matrix(6, (HUGE, HUGE), element(9, views[0].tobytes())))


def mat_huge_cell(path, views):
    mat_of(path, matrix(1, (2**31 - 1, 2**31 - 1), matrix(6, (1, 1), element(9, bytes(8)))))


def mat_deep(path, views):
    inner = matrix(6, (1, 1), element(9, bytes(8)))
    for _ in range(2000):
        inner = matrix(1, (1, 1), inner)
    mat_of(path, inner)


def mat_bomb(path, views):
    packed = zlib.compress(struct.pack("<II", 14, 2**32 - 1) + bytes(10**6))
    mat_of(path, struct.pack("<II", 15, len(packed)) + packed)


def mat_sparse_huge(path, views):
    parts = [element(5, struct.pack("<i", 0)), element(5, struct.pack("<2i", 0, 1))]
    mat_of(path, matrix(5, (2**31 - 1, 1), *parts, element(9, bytes(8))))


def mat_sparse_outside(path, views):
    parts = [element(5, struct.pack("<i", 7)), element(5, struct.pack("<2i", 0, 1))]
    mat_of(path, matrix(5, (3, 1), *parts, element(9, bytes(8))))


def mat_wrong_element(path, views):
    mat_of(path, element(99, bytes(16)))


def mat_version_4(path, views):
    io.savemat(path, {"X": views[0]}, format="4", appendmat=False)


def mat_of_structs(path, views):
    io.savemat(path, {"data": {"view": views[0]}, "title": "no views"}, appendmat=False)


def mat_triplets_huge(path, views):
    write_mat5(path, [np.array([[2.0**40, 1, 1], [1, 1, 1]]), np.ones((3, 3))])


def csv_ragged(path, views):
    path.write_text("a,b\n1,2\n3\n")


def csv_words_among_numbers(path, views):
    path.write_text("a,b\n1,2\n3,four\n")


def csv_late_words(path, views):
    path.write_text("a,b\n" + "1,2\n" * 5000 + "3,four\n")


def csv_header_only(path, views):
    path.write_text("a,b\n")


def csv_twice(path, views):
    path.write_text("a,a\n1,2\n")


def csv_of_words(path, views):
    path.write_text("name,town\nx,y\nz,w\n")


def csv_open_quote(path, views):
    path.write_text('a,b\n"1,2\n')


def csv_long_cell(path, views):
    path.write_text("a,b\n" + "1" * 200_000 + ",2\n")


def git_lfs_pointer(path, views):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


def idx_cut(path, views):
    write_idx(path, np.ones((8, 3, 3)), packed=False)
    cut(path)


def idx_too_long(path, views):
    write_idx(path, np.ones((8, 3, 3)), packed=False)
    path.write_bytes(path.read_bytes() + b"more")


def idx_huge(path, views):
    path.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", *[2**32 - 1] * 3) + bytes(9))


def gzip_cut(path, views):
    write_idx(path, np.random.default_rng(0).integers(0, 255, size=(80, 3, 3)))
    cut(path)


def gzip_bomb(path, views):
    content = bytes([0, 0, 8, 2]) + struct.pack(">2I", 10**6, 10**6) + bytes(10**7)
    path.write_bytes(gzip.compress(content))


def gzip_of_text(path, views):
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))


def empty_folder(path, views):
    path.mkdir()


def folder_with_a_bad_array(path, views):
    path.mkdir()
    np.save(path / "a.npy", views[0])
    (path / "b.npy").write_bytes(b"\x93NUMPY damaged")


PLAIN = [
    *(empty, noise, pickled, git_lfs_pointer, empty_folder, folder_with_a_bad_array),
    *(npy_pickled, npy_cut, npy_huge, npy_negative),
    *(npz_pickled, npz_huge, npz_longer_than_said, npz_shorter_than_said, npz_bomb),
    *(npz_overlapping, npz_cut, npz_flipped, npz_foreign, npz_empty, npz_bzip2),
    *(sparse_outside, sparse_negative, sparse_unordered, sparse_wide, sparse_diagonal),
    *(mat_cut, mat_flipped, mat_huge, mat_huge_cell, mat_deep, mat_bomb, mat_sparse_huge),
    *(mat_sparse_outside, mat_wrong_element, mat_version_4, mat_of_structs, mat_triplets_huge),
    *(csv_ragged, csv_words_among_numbers, csv_late_words, csv_header_only, csv_twice),
    *(csv_of_words, csv_open_quote, csv_long_cell),
    *(idx_cut, idx_too_long, idx_huge, gzip_cut, gzip_bomb, gzip_of_text),
]


@pytest.mark.parametrize("damage", PLAIN, ids=lambda damage: damage.__name__)
def test_damaged_file_is_refused(tmp_path, views, damage):
    damage(tmp_path / "file", views)
    assert_refused(tmp_path / "file")

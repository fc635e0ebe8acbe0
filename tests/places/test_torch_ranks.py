"""What ranks do together and what they say where one of them fails, with a group of one."""

import numpy as np
import pytest

from omcal.places.ranks import Failure, Ranks, _raise_failures


@pytest.fixture
def ranks(torch):
    dist = torch.distributed
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return Ranks("world")


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("view 'a'\n  is  empty"), ValueError, "view 'a' is empty"),
        (
            FileNotFoundError(2, "No such file", "x.npy"),
            OSError,
            "[Errno 2] No such file: 'x.npy'",
        ),
        (MemoryError(), MemoryError, "MemoryError"),
        (ZeroDivisionError("by zero"), RuntimeError, "ZeroDivisionError: by zero"),
    ],
)
def test_a_failure_is_told_as_an_error_that_every_rank_knows(error, kind, text):
    assert Failure.of(error) == Failure(kind, text)


def test_ranks_that_failed_are_named_but_not_all_of_many():
    found = {0: 1.0, **{rank: Failure(TypeError, f"no {rank}") for rank in (1, 4, 5)}}
    own = ValueError("the cause here")
    with pytest.raises(TypeError, match=r"^rank 1: no 1; rank 4: no 4; rank 5: no 5$") as caught:
        _raise_failures(found, own)
    assert caught.value.__cause__ is own
    found |= {7: Failure(ValueError, "no 7"), 8: Failure(ValueError, "no 8")}
    with pytest.raises(TypeError, match=r"rank 5: no 5; and 2 more ranks$"):
        _raise_failures(found, None)
    _raise_failures({0: 1.0, 1: None}, None)


def test_work_of_each_rank_and_of_one(ranks):
    assert (ranks.rank, ranks.size, ranks.is_leader) == (0, 1, True)
    assert ranks.each(lambda: "a") == ranks.collected(lambda: "a") == ["a"]
    assert ranks.on_leader(lambda: {"b": 2}) == {"b": 2}
    total = ranks.sum(lambda: np.arange(6, dtype=np.float32), (2, 3))
    np.testing.assert_array_equal(total, [[0, 1, 2], [3, 4, 5]])
    assert total.dtype == np.float64


def test_work_that_fails_is_told_with_the_rank(ranks):
    work = [ranks.each, ranks.collected, ranks.on_leader, lambda work: ranks.sum(work, (3,))]
    for do in work:
        with pytest.raises(ValueError, match=r"^rank 0: too few rows$"):
            do(lambda: fail(ValueError("too few rows")))


@pytest.mark.parametrize("name", ["all_gather_object", "broadcast_object_list", "all_reduce"])
def test_a_lost_connection_is_told_in_one_line(ranks, monkeypatch, name):
    lost = RuntimeError("[pair.cc:1] Connection closed by peer\nand a trace of it")
    monkeypatch.setattr(ranks._dist, name, lambda *given, **more: fail(lost))
    work = {
        "all_gather_object": lambda: ranks.each(int),
        "broadcast_object_list": lambda: ranks.on_leader(int),
        "all_reduce": lambda: ranks.sum(lambda: np.zeros(2), (2,)),
    }
    with pytest.raises(ConnectionError) as caught:
        work[name]()
    message = str(caught.value)
    assert message.startswith("rank 0 of 1 has lost the other ranks: ")
    assert "([pair.cc:1] Connection closed by peer)" in message
    assert "\n" not in message and caught.value.__cause__ is lost


def test_what_fails_before_the_ranks_have_met(ranks):
    with pytest.raises(OSError, match=r"^rank 0: no such file$"), ranks.reporting_failures():
        fail(OSError("no such file"))
    with ranks.reporting_failures():
        pass


def test_groups_are_found_by_name_or_given(torch, ranks):
    given = torch.distributed.group.WORLD
    assert Ranks(given).size == Ranks(given.group_name).size == 1
    with pytest.raises(ValueError, match="group='mine' is not known here; give 'world'"):
        Ranks("mine")


def test_lost_ranks_are_told_with_the_remedy(ranks, monkeypatch):
    def lost(*given, **options):
        raise RuntimeError("Connection closed by peer\nat somewhere")

    monkeypatch.setattr(ranks._dist, "all_gather_object", lost)
    with pytest.raises(
        ConnectionError, match=r"rank 0 of 1 has lost .*closed by peer\); start all"
    ):
        ranks.each(lambda: 1)

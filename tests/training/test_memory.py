"""How much a process can still take."""

import pytest

from dtmt_tf.training import memory

MACHINE = 8_000_000 * 1024


@pytest.fixture
def container(tmp_path, monkeypatch):
    """Says that 6 GB are used in a container, 5 of them by files that were read."""
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    (tmp_path / "memory.current").write_text("6000000000\n")
    (tmp_path / "memory.stat").write_text(
        "anon 900000000\nfile 5100000000\ninactive_file 4000000000\nactive_file 1000000000\n"
    )
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    return tmp_path / "memory.max"


@pytest.mark.parametrize("former", [(2**60, 2**61), (-1, 2**60), (-1, -1), (4096, 4096)])
def test_a_limit_that_there_was_is_never_raised(monkeypatch, former):
    limits = []
    monkeypatch.setattr(memory.resource, "getrlimit", lambda what: former)
    monkeypatch.setattr(memory.resource, "setrlimit", lambda what, both: limits.append(both))
    with memory.no_more_than_there_is():
        pass
    (soft, hard), after = limits
    assert after == former and hard == former[1]
    assert 0 < soft <= min([2**59, *(limit for limit in former if limit != -1)])


@pytest.mark.parametrize(
    "limit, free",
    [
        ("7000000000", 6_000_000_000),  # the room of files is given back
        ("900000000", 0),
        ("100000000000", MACHINE),  # more than the machine has
        ("max", MACHINE),
        (None, MACHINE),
    ],
)
def test_a_container_gives_what_its_limit_leaves(container, limit, free):
    if limit:
        container.write_text(f"{limit}\n")
    assert memory.available() == free

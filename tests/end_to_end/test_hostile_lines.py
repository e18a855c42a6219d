"""Lines that nobody should send: none fails, none changes what its neighbours get."""

import base64
import json
import random
import subprocess
import sys

import numpy as np
import pytest

from tests.end_to_end.conftest import ROOT

COUNT, BATCH = 5600, 56  # a tenth of them normal

SESSION = """
import base64, json, sys
sys.path.insert(0, sys.argv[1])
from c_session import CSession
with CSession(sys.argv[2]) as session:
    for line in sys.stdin:
        texts = [base64.b64decode(text) for text in json.loads(line)]
        print(json.dumps(session.run("translate", {"text": texts})), flush=True)
"""

CHARACTERS = {
    "blanks": " \t\u00a0\u2003\u3000\u200b\r\v",
    "controls": "".join(map(chr, [*range(1, 32), 127, *range(128, 160)])),
    "emoji": "🙂👩‍👩‍👧🏳️‍🌈🇩🇪❤️🫠",
    "right to left": "مرحبا بالعالم שלום\u202e\u2067",
    "combining": "e\u0301a\u0308\u0327\u0489o\u20dd\u0e33",
    "wide": "漢字かな交じり文。、！한국어",
    "anything": "".join(map(chr, [*range(0x100, 0xD800, 97), *range(0xE000, 0x110000, 9973)])),
}
META = ["▁", "<unk>", "<pad>", "<eos>", "<s>", "</s>", "<0x41>", "<0x00>", "⁇", "▁▁12", "\ufeff7"]


def hostile(random_, normal):
    """One line, as bytes."""
    kind = random_.randrange(12)
    length = random_.choice([1, 3, 10, 40])
    if kind == 0:
        return b""
    if kind == 1:
        return random_.randbytes(length)  # mostly not UTF-8
    if kind == 2:
        return b"\0" * random_.randint(1, 5) + random_.choice(normal).encode() + b"\0"
    if kind == 3:
        return "".join(random_.choices([*META, " ", "4 2"], k=length)).encode()
    if kind == 4:
        return random_.choice(normal).encode()[:-1] + b"\xf0\x9f" + b"\xed\xa0\x80"
    characters = random_.choice(list(CHARACTERS.values()))
    return "".join(random_.choices(characters + random_.choice(["", "12 "]), k=length)).encode()


def long_lines(normal, length):
    """Lines of a kind that few expect, that many characters each."""
    words = " ".join(normal[:1] * length)
    return [words[:length], "x" * length, "7" * length, "🙂 " * (length // 2), "\n" * length]


@pytest.fixture(scope="module")
def answers(workshop):
    """Normal lines, where they stand in each batch, and what the C++ session says."""
    random_ = random.Random(7)
    normal = (workshop.folder / "test.source").read_text().splitlines()[:40]
    lines = [hostile(random_, normal) for _ in range(COUNT)]
    for line in long_lines(normal, 1000):
        lines[random_.randrange(COUNT)] = line.encode()
    batches, places = [], []
    for start in range(0, COUNT, BATCH):
        batch = lines[start : start + BATCH]
        places.append({random_.randrange(len(batch)): random_.choice(normal) for _ in range(5)})
        for place, line in places[-1].items():
            batch[place] = line.encode()
        batches.append(batch)
    alone = [[line.encode()] for line in normal]
    sent = "".join(
        json.dumps([base64.b64encode(line).decode() for line in batch]) + "\n"
        for batch in [*batches, *alone]
    )
    result = subprocess.run(
        [sys.executable, "-c", SESSION, str(ROOT / "tests/export"), str(workshop.run_folder / "1")],
        input=sent,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    outputs = [json.loads(line) for line in result.stdout.splitlines()]
    single = {line: (output["translation"][0], output["score"][0])
              for line, output in zip(normal, outputs[len(batches) :], strict=True)}  # fmt: skip
    return batches, places, outputs[: len(batches)], single


def test_every_line_has_an_answer_of_valid_text(answers):
    batches, places, outputs, _ = answers
    assert sum(map(len, batches)) - len(places) * 5 >= 5000
    for batch, output in zip(batches, outputs, strict=True):
        assert len(output["translation"]) == len(output["score"]) == len(batch)
        assert np.isfinite(output["score"]).all()
        for text in output["translation"]:
            text.encode()  # bytes that are no UTF-8 would be lone surrogates here


def test_normal_lines_do_not_notice(answers):
    _, places, outputs, single = answers
    seen = 0
    for where, output in zip(places, outputs, strict=True):
        for place, line in where.items():
            translation, score = single[line]
            assert output["translation"][place] == translation
            assert output["score"][place] == pytest.approx(score, abs=1e-4)
            seen += 1
    assert seen > 400

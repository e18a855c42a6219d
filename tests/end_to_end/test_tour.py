"""The notebook runs from top to bottom, and the model that it makes can read digits."""

import json

import matplotlib
import pytest

from dtmt_tf import startup
from tests.end_to_end.conftest import ROOT, without_trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning"),
]
NOTEBOOK = json.loads((ROOT / "pipelines" / "tour.ipynb").read_text("utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the cells leave, run one after the other in an empty folder, as a kernel runs them."""
    names: dict = {"__name__": "__main__"}
    matplotlib.use("agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("tour"))
        patch.setattr(startup, "start_tensorflow", lambda: None)  # it has started
        without_trial(patch)
        for cell in CODE:
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # noqa: S102
        yield names
        names["plt"].close("all")


def test_it_carries_no_output_and_no_line_is_too_long():
    assert len(CODE) >= 8
    for cell in CODE:
        assert cell["outputs"] == [] and cell["execution_count"] is None
        assert max(len(line.rstrip("\n")) for line in cell["source"]) <= 100


def test_the_model_reads_digits(names):
    right = [
        " ".join(names["WORDS"][int(digit)] for digit in translation.source.split())
        == translation.text
        for translation in names["translations"]
    ]
    assert len(right) == 3 and sum(right) >= 2  # processors round otherwise; here it is 3
    assert names["right"].log_probability > names["wrong"].log_probability + 2
    assert names["run"].newest().history[-1]["bleu"] > 60  # untrained 0


def test_each_word_looks_at_its_digit(names):
    links = names["alignment"].links
    assert sum(source == target for source, target in links) >= 3  # of 4
    drawn = names["axes"].images[0].get_array()
    assert drawn.tolist() == [list(row) for row in names["alignment"].attention]

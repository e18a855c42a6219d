"""Parameters of the twenty systems in Tables 1 to 4 of Miceli Barone et al. (2017)."""

import pytest

from dtmt_tf.models import MODELS
from tests.models.test_parameter_counts import total

# In millions as printed, and without what depends on the vocabulary: 512 (V_s + V_t) + V_t.
ROWS = {
    "baseline_no_norm": (98.0, 33_835_521),
    "baseline": (98.1, 33_897_985),
    "alternating4_no_norm": (135.8, 71_602_689),
    "alternating4": (135.9, 71_738_881),
    "biunidirectional4": (173.7, 109_487_617),
    "encoder_transition4": (117.0, 52_827_649),
    "decoder_gru4": (117.0, 52_818_433),
    "decoder_rgru4": (135.9, 71_692_801),
    "decoder_cgru4": (164.3, 100_087_300),
    "decoder_crgru4": (145.4, 81_176_065),
    "decoder_transition8": (117.0, 52_827_649),
    "deep_output4": (98.9, 34_689_025),
    "alternating4_gru4": (154.9, 90_659_329),
    "biunidirectional4_rgru4": (211.5, 147_282_433),
    "alternating4_rgru4": (173.7, 109_533_697),
    "alternating4_cgru4": (202.1, 137_928_196),
    "transition4_8": (136.0, 71_757_313),
    "bideep2x2": (145.4, 81_194_497),
    "bideep4x2": (214.7, 150_547_969),
    "alternating8_rgru8": (274.6, 210_381_313),
}
WORDS_S, WORDS_T = 20, 30
VOCABULARY = (64_192_688, 64_202_030)  # the paper's is within these: then each printed figure fits


@pytest.mark.parametrize("name", ROWS)
def test_counts_of_the_paper(name):
    printed, expected = ROWS[name]
    count = total(MODELS[f"rnn_{name}"], WORDS_S, WORDS_T)
    assert count - 512 * (WORDS_S + WORDS_T) - WORDS_T == expected
    for vocabulary in VOCABULARY:
        assert round((expected + vocabulary) / 1e6, 1) == printed


def test_there_is_a_preset_for_each_row_and_no_other():
    assert {name for name in MODELS if name.startswith("rnn_")} == {f"rnn_{name}" for name in ROWS}

"""Nematus's GRU keeps the contract of all cells; its values are compared in `test_nematus.py`."""

from functools import partial

import pytest

from dtmt_tf.cells import NematusGRUCell
from tests.cells.contract import UNITS, check_rnn_cell_contract


@pytest.mark.parametrize(  # each two switches in all their ways
    ("use_layer_norm", "bias_on_state", "reads_input"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, True)],
)
def test_contract(use_layer_norm, bias_on_state, reads_input):
    def count(i, d):
        sides = 1 + reads_input
        return 3 * i * d * reads_input + 3 * d * d + 3 * d + 6 * d * sides * use_layer_norm

    check_rnn_cell_contract(
        partial(
            NematusGRUCell,
            UNITS,
            use_layer_norm=use_layer_norm,
            bias_on_state=bias_on_state,
            reads_input=reads_input,
        ),
        count,
    )

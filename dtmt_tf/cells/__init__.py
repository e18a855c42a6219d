"""One time step of the papers' equations."""

from dtmt_tf.cells.abstract_rnn_cell import AbstractRNNCell, Step
from dtmt_tf.cells.deep_transition import DeepTransitionCell
from dtmt_tf.cells.gated_cell import GatedCell
from dtmt_tf.cells.gru import GRUCell
from dtmt_tf.cells.l_gru import LGRUCell
from dtmt_tf.cells.lau import LAUCell
from dtmt_tf.cells.nematus_gru import NematusGRUCell
from dtmt_tf.cells.operations import cut, matmul
from dtmt_tf.cells.product import product, products_in, rounded_once
from dtmt_tf.cells.t_gru import TGRUCell

__all__ = [
    "AbstractRNNCell",
    "DeepTransitionCell",
    "GRUCell",
    "GatedCell",
    "LAUCell",
    "LGRUCell",
    "NematusGRUCell",
    "Step",
    "TGRUCell",
    "cut",
    "matmul",
    "product",
    "products_in",
    "rounded_once",
]

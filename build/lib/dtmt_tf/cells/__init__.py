"""One time step of the paper's equations."""

from dtmt_tf.cells.abstract_rnn_cell import AbstractRNNCell
from dtmt_tf.cells.deep_transition import DeepTransitionCell
from dtmt_tf.cells.gru import GRUCell
from dtmt_tf.cells.l_gru import LGRUCell
from dtmt_tf.cells.lau import LAUCell
from dtmt_tf.cells.product import product, products_in
from dtmt_tf.cells.t_gru import TGRUCell

__all__ = [
    "AbstractRNNCell",
    "DeepTransitionCell",
    "GRUCell",
    "LAUCell",
    "LGRUCell",
    "TGRUCell",
    "product",
    "products_in",
]

"""The GRU of Nematus, which normalises what it reads and what it remembers apart."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.abstract_rnn_cell import AbstractRNNCell, Step
from dtmt_tf.cells.operations import cut
from dtmt_tf.cells.product import product

NEMATUS_EPSILON = 1e-5  # of all its layer norms


@keras.saving.register_keras_serializable("dtmt_tf")
class NematusGRUCell(AbstractRNNCell):
    """One GRU block of Miceli Barone et al. (2017), "Deep Architectures for NMT", arXiv:1707.07631.

        [r ; u] = sigmoid(LN(W x + b) + LN(U h))       one norm over both gates, 2H wide
        c = tanh(LN(W_x x + b_x) + r * LN(U_x h))
        h' = u * h + (1 - u) * dropout(c)

    `u` keeps the old state, the reverse of `z` in DTMT's cells. Layer norms have epsilon 1e-5. As
    in the authors' program, Nematus, biases have one of two places:

    - on the input's side, as printed above; a block without input has them after its norms,
      `LN(U h) + b` and `r * LN(U_x h) + b_x`;
    - on the state's side, in all blocks after an attention: `LN(W x) + LN(U h + b)` and
      `LN(W_x x) + r * LN(U_x h + b_x)`, without the terms of x if there is no input.

    The kernel's and the recurrent kernel's columns are r, u, c: 3 I H + 3 H^2 + 15 H parameters,
    3 H^2 + 9 H without input; 6 H fewer for each side that has no norm.

    Args:
        units: Size of the state, H. Positive.
        reads_input: Whether there is an input; a block inside a transition has none.
        bias_on_state: Whether the biases stand on the state's side.
        update_offset: What `1 - u` starts from, before the sigmoid; below 0 the cell keeps more of
            its state at first. 0 is theirs.
        **kwargs: See `AbstractRNNCell`; the initialiser draws each gate's matrix by itself, as in
            Nematus since it uses TensorFlow. Before, it drew the context's two gate matrices as
            one, `[2H, 2H]`, which as a square one was orthogonal.

    Call arguments:
        inputs: `x`, shape `[B, I]`.
        states: One tensor `h`, shape `[B, H]`.
        training: Whether dropout is active.

    Returns:
        `(h', [h'])`, each `[B, H]`.
    """

    def __init__(
        self,
        units: int,
        *,
        reads_input: bool = True,
        bias_on_state: bool = False,
        update_offset: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.reads_input = reads_input
        self.bias_on_state = bias_on_state
        self.update_offset = update_offset
        self.input_norms = self._norms("input") if reads_input else []
        self.state_norms = self._norms("state")

    def _norms(self, side: str) -> list[Any]:
        """The norms of gates and candidate, or nothing."""
        if not self.use_layer_norm:
            return []
        start = self._first_bias() if side == "state" else "zeros"
        return [
            keras.layers.LayerNormalization(
                epsilon=NEMATUS_EPSILON,
                beta_initializer=beta,
                name=f"{side}_{name}_norm",
                dtype=self.dtype_policy,
            )
            for name, beta in (("gates", start), ("candidate", "zeros"))
        ]

    def _first_bias(self, candidate: bool = False) -> Any:
        """Initialiser of the gates' offset, and of the candidate's behind it."""
        parts = [0.0, -self.update_offset, *([0.0] if candidate else [])]
        return keras.initializers.Constant([part for part in parts for _ in range(self.units)])

    @property
    def projection_size(self) -> int:
        """Features of the input projection."""
        return 3 * self.units if self.reads_input else 0

    def build(self, inputs_shape: Any) -> None:
        """Creates kernel `[I, 3H]`, recurrent kernel `[H, 3H]`, bias `[3H]` and norms."""

        def three(shape: Any, dtype: Any) -> Any:
            block = (shape[0], self.units)
            return ops.concatenate([self.initializer(block, dtype) for _ in range(3)], axis=-1)

        width = 3 * self.units
        if self.reads_input:
            self.kernel = self.add_weight(
                name="kernel", shape=(inputs_shape[-1], width), initializer=three
            )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, width), initializer=three
        )
        start = "zeros" if self.use_layer_norm else self._first_bias(candidate=True)
        self.bias = self.add_weight(name="bias", shape=(width,), initializer=start)
        for norms in (self.input_norms, self.state_norms):
            for norm, size in zip(norms, (2 * self.units, self.units), strict=False):
                norm.build((None, size))

    def _normalised(self, values: Any, norms: list[Any]) -> list[Any]:
        """Cuts `[..., 3H]` into gates and candidate and normalises each."""
        parts = cut(values, [2 * self.units, self.units])
        return [norm(part) for norm, part in zip(norms, parts, strict=True)] if norms else parts

    def project(self, inputs: Any) -> Any:
        """One product for gates and candidate, normalised; `[..., 0]` if it reads nothing."""
        if not self.reads_input:
            return inputs[..., :0]
        values = product(inputs, self.kernel)
        if not self.bias_on_state:
            values = values + self.bias
        return ops.concatenate(self._normalised(values, self.input_norms), axis=-1)

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """Computes gates and candidate, drops, moves the state."""
        h = states[0]
        values = product(h, self.recurrent_kernel)
        if self.bias_on_state:
            values = values + self.bias
        h_gates, h_c = self._normalised(values, self.state_norms)
        x_gates, x_c = 0.0, 0.0
        if self.reads_input:
            x_gates, x_c = cut(projected, [2 * self.units, self.units])
        elif not self.bias_on_state:
            x_gates, x_c = cut(self.bias, [2 * self.units, self.units])
        r, u = cut(ops.sigmoid(x_gates + h_gates), [self.units] * 2)
        c = ops.tanh(x_c + r * h_c)
        if masks is not None:
            c = c * masks
        h = c + u * (h - c)  # u * h + (1 - u) * c
        return Step(h, [h], {"r": r, "u": u})

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal cell."""
        return {
            **super().get_config(),
            "reads_input": self.reads_input,
            "bias_on_state": self.bias_on_state,
            "update_offset": self.update_offset,
        }

"""One step of an attentive recurrent network (ARN)."""

from __future__ import annotations

from typing import Any

from dtmt_tf.cells import AbstractRNNCell, Step
from dtmt_tf.layers.additive_attention import AdditiveAttention
from dtmt_tf.layers.attention import attend


class AttentiveCell(AbstractRNNCell):
    """A cell whose input is what its own state finds in a sentence.

        c_t = attention(h_{t-1}, H),   h_t = f(h_{t-1}, c_t)

    (Hao et al., 2019, "Modeling Recurrence for Transformer", Eqs. (12) and (13).) It reads no
    sequence. What it attends to travels in its state, as in `AbstractDecoderCell`.

    Args:
        cell: f, which reads contexts.
        attention: The attention; two cells may share one.

    Call arguments:
        inputs: Ignored but for its rows, `[B, any]`.
        states: `h`, `[B, H]`, then what `precompute` returned.
        training: Whether dropout is active.

    Returns:
        `(h', states)`, the first `[B, H]`.
    """

    def __init__(self, cell: AbstractRNNCell, attention: AdditiveAttention, **kwargs: Any) -> None:
        super().__init__(cell.units, **kwargs)
        self.cell = cell
        self.attention = attention

    def build(self, inputs_shape: Any) -> None:
        """Builds cell and attention."""
        if not self.attention.built:
            self.attention.build((None, None, self.units))
        self.cell.build((None, self.attention.units))

    @property
    def parts(self) -> list[AbstractRNNCell]:
        """The inner cell."""
        return [self.cell]

    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """Returns the attention's memory of annotations `[B, S, A]` with mask `[B, S]`."""
        return self.attention.precompute(annotations, mask)

    @property
    def projection_size(self) -> int:
        """It reads no input."""
        return 0

    def project(self, inputs: Any) -> Any:
        """Nothing, `[..., 0]`."""
        return inputs[..., :0]

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """Attends, then moves the state."""
        h, *memory = states
        context, weights = attend(self.attention, h, memory)
        output, (h,), inner = self.cell.evaluate(self.cell.project(context), masks, [h])
        inner = {**self.joined([inner]), "attention": weights}
        return Step(output, [h, *memory], inner)

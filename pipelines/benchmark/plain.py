"""DTMT in its plain form, as a reader of the paper would write it: the baseline of speeds."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.models import DTMT


class PlainRNN(keras.layers.RNN):
    """`keras.layers.RNN`: calls the cell step by step, its input projection included.

    Args:
        transition: The cell.
        **kwargs: As for `keras.layers.RNN`.
    """

    def __init__(self, transition: Any, **kwargs: Any) -> None:
        super().__init__(transition, **kwargs)
        self.transition = transition

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool = False,
        seeds: Any = None,
    ) -> Any:
        """As `keras.layers.RNN`, in the order of the words; the cell draws its dropout masks."""
        states = super().call(sequences, initial_state=initial_state, mask=mask, training=training)
        return ops.flip(states, axis=1) if self.go_backwards else states


class PlainDTMT(DTMT):
    """DTMT with one `keras.layers.RNN` for each module: both directions, and the decoder.

    Weights are the same for the same seed; without dropout so are losses and gradients.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        encoder = self.encoder
        options: dict[str, Any] = {"return_sequences": True, "zero_output_for_mask": True}
        encoder.forward = PlainRNN(encoder.forward.transition, name="forward", **options)
        encoder.backward = PlainRNN(
            encoder.backward.transition, name="backward", go_backwards=True, **options
        )
        self.decoder = PlainRNN(self.cell, return_sequences=True, name="decoder")

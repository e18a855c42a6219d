"""What a run's encoders make of sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dtmt_tf.batched_lines import in_batches
from dtmt_tf.models import TranslationModel
from dtmt_tf.runs.run import Run
from dtmt_tf.terminal import line_bar


def represent(
    run: Run, model: TranslationModel, sentences: Sequence[str], progress: str = ""
) -> list[np.ndarray]:
    """Returns for each encoder the mean of its top states over each sentence, <eos> included.

    Hao et al. (2019), "Modeling Recurrence for Transformer", Section 5.4 ("Linguistic Analyses").

    Args:
        run: The run.
        model: Its model.
        sentences: In the run's source language. Of a longer one than `data.max_length` its first
            sub-words are read, and <eos>.
        progress: What the progress bar says; no bar if empty.

    Returns:
        float32 `[N, H]` for each encoder, of its own width.
    """
    source, most = run.vocabulary.source, run.experiment.data.max_length

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def means(texts: tf.Tensor) -> list[tf.Tensor]:
        ids = source.encode(source.read(texts), most).to_tensor()
        found = []
        for states, mask in model.encodings(ids):
            weights = tf.cast(mask, states.dtype)[..., None]
            found.append(tf.reduce_sum(states * weights, 1) / tf.reduce_sum(weights, 1))
        return found

    def answer(texts: list[str]) -> list[tuple[np.ndarray, ...]]:
        return list(zip(*(each.numpy() for each in means(tf.constant(texts))), strict=True))

    with line_bar(len(sentences), progress) as bar:
        batch_size = run.experiment.decoding.batch_size
        rows = in_batches(sentences, answer, batch_size, advance=bar.update)
    return [np.stack(each) for each in zip(*rows, strict=True)]

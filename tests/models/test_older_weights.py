"""Weights of earlier versions: what is drawn for a seed, and what a run of theirs has stored."""

import hashlib
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import DTMTConfig, TransformerConfig
from dtmt_tf.training.checkpoint import CheckpointFolder
from dtmt_tf.training.step import load_weights

RUN = Path(__file__).parents[1] / "fixtures/run-0.1.tar.xz"

SIZES = {"embedding_dim": 8, "units": 8, "num_heads": 4}


@pytest.mark.parametrize(
    ("config", "hashed"),
    [
        (
            DTMTConfig(**SIZES, encoder_depth=2, query_depth=1, decoder_depth=0),
            "b8dd7a6e4170a255",
        ),
        (
            DTMTConfig(
                **SIZES,
                encoder_cell="gru",
                query_cell="lau",
                encoder_depth=0,
                query_depth=1,
                decoder_depth=1,
                tied_embeddings="all",
                update_offset=-1.0,
                transition_offset=-2.0,
            ),
            "b64e0bba032e919a",
        ),
        (
            DTMTConfig(
                **SIZES,
                encoder_depth=1,
                query_depth=1,
                decoder_depth=1,
                use_layer_norm=False,
                tied_embeddings="target",
                initializer_range=0.3,
            ),
            "c07af42579c4a4ff",
        ),
        (TransformerConfig(8, 16, 2, 1, 2), "7f916e1bc2c41078"),
        (
            TransformerConfig(8, 16, 2, 1, 1, pre_norm=True, tied_embeddings="all"),
            "bef493f1fecef73f",
        ),
    ],
    ids=["L-GRU", "GRU, LAU", "no norm", "Transformer", "tied Transformer"],
)
def test_a_seed_gives_the_weights_of_version_0_1(config, hashed):
    """Paths, order and every bit, by the hash that version 0.1's code gave."""
    model = config.build(9, 9, TrainingConfig(seed=3))
    digest = hashlib.sha256()
    for variable in model.trainable_variables:
        value = variable.numpy()
        if variable.path.endswith("lau/gates/offset"):
            assert (value[2] == config.update_offset).all()
            value[2] = 0  # version 0.1 lowered a LAU's update gate alone
        digest.update(variable.path.encode())
        digest.update(value.tobytes())
    assert digest.hexdigest()[:16] == hashed


def test_a_checkpoint_of_version_0_1_gives_its_numbers(tmp_path):
    """Log probabilities, a gate's mean and attention, as version 0.1's code computed them."""
    with tarfile.open(RUN) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "custom/older/train"
    settings = json.loads((folder / "experiment.json").read_text())["settings"]["model"]
    weights = CheckpointFolder(folder / "checkpoints", 1, 1).newest().weights
    model = DTMTConfig(**settings).build(60, 60, TrainingConfig())
    load_weights(model, weights)
    source = np.array([[4, 25, 9, 31, 1], [17, 3, 1, 0, 0]])
    target = np.array([[8, 30, 12, 1], [5, 1, 0, 0]])
    log_probs = tf.nn.log_softmax(model(source, target))
    gold = tf.gather(log_probs, target, axis=-1, batch_dims=2)
    found = tf.reduce_sum(tf.where(target != 0, gold, 0), axis=1)
    np.testing.assert_allclose(found, [-23.9960289, -9.8610134], rtol=1e-6)
    gates, attention = model.inspect(source, target)
    assert len(gates) == 20
    np.testing.assert_allclose(gates["backward/tgru_1/z"], 0.48269194, rtol=1e-6)
    np.testing.assert_allclose(gates["transition/lgru/l"], 0.46493232, rtol=1e-6)
    expected = [0.28132829, 0.24214067, 0.22249684, 0.13992743, 0.11410681]
    np.testing.assert_allclose(attention[0, 1], expected, rtol=1e-6)

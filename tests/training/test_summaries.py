"""Which gradient norms TensorBoard shows."""

import dataclasses

import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import MODELS
from dtmt_tf.training import Summaries

CELLS = {f"{module}_cell": "lau" for module in ("encoder", "query", "decoder")}


@pytest.mark.parametrize(
    ("config", "modules", "depths"),
    [
        (MODELS["shallow_rnmt"], "forward backward query transition", ["gru"]),
        (MODELS["dtmt2"], "forward backward query transition", ["lgru", "tgru_1", "tgru_2"]),
        (
            dataclasses.replace(MODELS["dtmt1"], **CELLS),
            "forward backward query transition",
            ["lau", "tgru_1"],
        ),
        (MODELS["transformer_tiny"], "encoder decoder", [f"layer_{k}" for k in (1, 2, 3, 4)]),
    ],
    ids=["gru", "lgru", "lau", "transformer"],
)
def test_every_depth_of_every_module_has_a_norm(tmp_path, config, modules, depths):
    with tf.Graph().as_default():
        model = config.build(10, 10, TrainingConfig())
    summaries = Summaries(tmp_path, model)
    assert set(summaries.depths) == {f"{m}/{d}" for m in modules.split() for d in depths}
    paths = [variable.path for variable in model.trainable_variables]
    for name, members in summaries.depths.items():
        assert len(members) > 2 and all(f"{name}/" in paths[k] for k in members)

"""Tasks: a corpus with the settings that go with it."""

from dtmt_tf.config import Task
from dtmt_tf.tasks.cldr_ende import TASK as CLDR_ENDE
from dtmt_tf.tasks.custom import TASK as CUSTOM
from dtmt_tf.tasks.general_ende import TASK as GENERAL_ENDE
from dtmt_tf.tasks.multi30k import MULTI30K
from dtmt_tf.tasks.nist_zhen import TASK as NIST_ZHEN
from dtmt_tf.tasks.tatoeba import TATOEBA
from dtmt_tf.tasks.wang import NIST_ZHEN as NIST_ZHEN_LAU
from dtmt_tf.tasks.wang import WMT14_ENDE as WMT14_ENDE_LAU
from dtmt_tf.tasks.wang import WMT14_ENFR as WMT14_ENFR_LAU
from dtmt_tf.tasks.wmt14_ende import TASK as WMT14_ENDE
from dtmt_tf.tasks.wmt14_ende import TRANSFORMER, TRANSFORMER_BIG
from dtmt_tf.tasks.wmt14_enfr import TASK as WMT14_ENFR
from dtmt_tf.tasks.wmt17_ende import TASK as WMT17_ENDE
from dtmt_tf.tasks.wmt17_zhen import BIG_TASK as WMT17_ZHEN_BIG
from dtmt_tf.tasks.wmt17_zhen import TASK as WMT17_ZHEN

TRANSFORMERS = TRANSFORMER, TRANSFORMER_BIG, WMT17_ZHEN, WMT17_ZHEN_BIG
LAU = NIST_ZHEN_LAU, WMT14_ENDE_LAU, WMT14_ENFR_LAU
PAPERS = NIST_ZHEN, WMT14_ENDE, WMT14_ENFR, WMT17_ENDE, *LAU, *TRANSFORMERS
TASKS: dict[str, Task] = {
    task.name: task for task in (CLDR_ENDE, *MULTI30K, *TATOEBA, GENERAL_ENDE, *PAPERS, CUSTOM)
}


def own_task(task: str, model: str) -> str:
    """Returns the task of the same text that trains a model as its paper does; "" if `task` does.

    Args:
        task: Name of the task that was chosen.
        model: Name of a preset, such as `transformer_big_biarn`, which is trained like the preset
            that its name begins with.
    """
    data = TASKS[task].data
    same = {other.model: name for name, other in TASKS.items() if other.data == data}
    likest = max((kind for kind in same if model.startswith(kind)), key=len, default="")
    return "" if len(same) < 2 or same.get(likest, task) == task else same[likest]


__all__ = ["TASKS", "own_task"]

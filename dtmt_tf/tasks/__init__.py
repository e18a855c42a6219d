"""Tasks: a corpus with the settings that go with it."""

from dtmt_tf.config import Task
from dtmt_tf.tasks.cldr_ende import TASK as CLDR_ENDE
from dtmt_tf.tasks.custom import TASK as CUSTOM
from dtmt_tf.tasks.general_ende import TASK as GENERAL_ENDE
from dtmt_tf.tasks.multi30k import MULTI30K
from dtmt_tf.tasks.tatoeba import TATOEBA
from dtmt_tf.tasks.wmt14_ende import TASK as WMT14_ENDE

TASKS: dict[str, Task] = {
    task.name: task for task in (CLDR_ENDE, *MULTI30K, *TATOEBA, GENERAL_ENDE, WMT14_ENDE, CUSTOM)
}

__all__ = ["TASKS"]

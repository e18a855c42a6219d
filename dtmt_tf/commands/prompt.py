"""A conversation with a model: each line that is typed is answered."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from dtmt_tf import caller
from dtmt_tf.errors import UserError

if TYPE_CHECKING:
    from dtmt_tf.translator import Translation, Translator

HELP = """\
:nbest K   show the K best translations; :nbest 0, the best alone
:align     show which source word each word comes from, or no longer
:quit      end; so does Ctrl-D"""
NOT_UTF_8 = "error: That is not UTF-8."


def converse(
    translator: Translator,
    nbest: int = 0,
    align: bool = False,
    read: Callable[[str], str] = input,
) -> None:
    """Answers lines until there are no more.

    Args:
        translator: The model.
        nbest: How many translations are shown; 0 for the best without its score.
        align: Whether alignments are shown.
        read: Returns the next line after a prompt; raises EOFError at the end.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - editing and history of what is typed
    print(f"{translator.folder} translates what you type; :help tells more.")
    while True:
        try:
            line = read("> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:  # forget the line
            print()
            continue
        except UnicodeDecodeError:
            print(NOT_UTF_8)
            continue
        word, _, value = line.partition(" ")
        if word in (":quit", ":q"):
            return
        if word == ":nbest" and value.strip().isdecimal() and len(value) < 9:
            nbest = int(value)
        elif word == ":align" and not value:
            align = not align
            print("Alignments are shown." if align else "Alignments are not shown.")
        elif re.fullmatch(":[A-Za-z]{2,}[0-9]*", word):  # others, such as smileys, are text
            print(HELP)
        elif line:
            try:
                print(_shown(translator([line], nbest=nbest, align=align)[0]))
            except UserError as error:
                print(f"error: {caller.as_called(str(error))}")
            except UnicodeEncodeError:
                print(NOT_UTF_8)


def _shown(answer: Translation) -> str:
    rows = [f"{each.score:9.4f}  {each.text}" for each in answer.nbest] or [answer.text]
    if alignment := answer.alignment:
        sources = {target: source for source, target in alignment.links}
        width = max(map(len, alignment.target), default=0)
        for k, word in enumerate(alignment.target):
            row = f"  {word:<{width}}"
            if k in sources:
                share = alignment.attention[k][sources[k]]
                row += f"  {share:4.0%}  {alignment.source[sources[k]]}"
            rows.append(row.rstrip())
    return "\n".join(rows)

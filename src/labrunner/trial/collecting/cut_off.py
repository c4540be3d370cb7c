"""What is left of an attempt that came to no end: evidence, searched for secrets like all that is kept."""

import asyncio
from pathlib import Path

from labrunner.files.layering.layernote import LAYER, LAYER_PART
from labrunner.files.strangers.masking import Masker
from labrunner.files.strangers.removal import remove_if_possible
from labrunner.files.uninterrupted import wait_out
from labrunner.trial.collecting.recorded_calls import keep_recorded
from labrunner.trial.collecting.redaction import Redactor, redact_layer


def redact_cut_off(attempt: Path, masker: Masker) -> Redactor:
    """Search what is left of an attempt that came to no end; where that can't be done, it goes."""
    redactor = Redactor(masker)
    remove_if_possible(attempt / LAYER_PART)
    try:
        if masker.needles:
            list(keep_recorded(attempt, masker, redactor))
            layer = attempt / LAYER
            if layer.is_file() and (problem := redact_layer(layer, masker, redactor)):
                remove_if_possible(layer)
                redactor.note_dropped(LAYER, problem)
        redactor.redact(attempt, attempt.name)
    except OSError as error:
        redactor.note_dropped(attempt.name, f"could not be searched for secrets: {error}")
        remove_if_possible(attempt)
    return redactor


async def redact_cancelled(attempt: Path, masker: Masker) -> None:
    """The same for an attempt that is being cancelled; told twice, it still comes to its end."""
    if masker.needles or (attempt / LAYER_PART).exists():
        redacting = asyncio.ensure_future(asyncio.to_thread(redact_cut_off, attempt, masker))
        await wait_out(redacting)
        redacting.result()

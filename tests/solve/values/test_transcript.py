"""What a transcript costs and holds, however long a conversation is and however often it says the same."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from labrunner.files.strangers.masking import make_masker
from labrunner.records.facts.transcript_events import follow_conversations, known_messages, read_events
from labrunner.solve.values.messages import ChatMessage, ChatMessageAssistant, ChatMessageUser, to_plain
from labrunner.solve.values.transcript import Transcript
from tests.kit.solve.authoring import answering, make_task, run, samples
from tests.kit.solve.repeating import repeating, transcript_of
from tests.kit.solve.scripting import script


def test_a_conversation_that_repeats_itself_costs_its_length(tmp_path: Path) -> None:
    sizes = []
    for turns in (50, 200):
        task = make_task(samples("a"), solver=repeating(turns))
        log = run(task, tmp_path / str(turns), answering(lambda _: "yes"))
        sizes.append(transcript_of(log.location).stat().st_size)
        assert len(log.samples[0].messages) == 1 + 2 * turns
        assert [message.content for message in log.samples[0].messages[-3:]] == [
            "and now?",
            "yes",
            "and now?",
        ]
    assert sizes[1] < 5 * sizes[0]


SECRET = "sk-ä-very-secret-0123456789"


@pytest.mark.parametrize("secret_at", range(0, 40, 3))
def test_a_text_is_not_cut_within_a_secret(secret_at: int) -> None:
    told: list[bytes] = []
    transcript = Transcript(lambda _, line: told.append(line), make_masker({"KEY": SECRET}))
    text = "é" * 3000
    for cut in (750, 3000 - 250):
        start = cut - 35 + secret_at
        text = text[:start] + SECRET + text[start + len(SECRET) :]
    kept = transcript.shorten(text, 1000)
    transcript.add("said", text=kept)
    assert "characters left out here" in kept
    line = told[-1].decode()
    assert not any(SECRET[at : at + 6] in line for at in range(len(SECRET) - 6)), line


def test_what_every_call_was_asked_can_be_told_again() -> None:
    """Conversations that grow, are edited, cut and taken up again, also two at once."""
    dice = random.Random(7)
    told: list[bytes] = []
    transcript = Transcript(lambda _, line: told.append(line), make_masker({}))
    talks: list[list[ChatMessage]] = [[], []]
    asked: list[list[dict[str, Any]]] = []
    for _ in range(300):
        talk = dice.choice(talks)
        del talk[len(talk) - min(len(talk), dice.choice([0, 0, 0, 1, 5])) :]
        talk.append(ChatMessageUser(dice.choice("abc")))
        asked.append([to_plain(message) for message in talk])
        answer = ChatMessageAssistant(dice.choice("xyz"))
        numbers, (said,) = transcript.number(talk), transcript.number([answer])
        transcript.add("model", **transcript.go_on("input", numbers, said), output=said)
        talk.append(answer)
    events = read_events(transcript.close())
    known = known_messages(events)
    found = [[known[number] for number in spoken] for _, spoken in follow_conversations(events)]
    assert found == asked


def test_transcripts_without_what_was_said_before_are_read_too() -> None:
    events: list[dict[str, Any]] = [
        {"event": "model", "input": [[0, 2]], "output": 3},
        {"event": "model", "input": [[0, 4]], "output": 5},
        {"event": "scoring", "messages": [[0, 5]], "output": 5},
    ]
    assert [[*spoken] for _, spoken in follow_conversations(events)] == [
        [0, 1, 2],
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4, 5],
    ]


def test_thousands_of_turns_take_little_memory(tmp_path: Path) -> None:
    ended = script(
        tmp_path,
        "import json, re\n"
        "from pathlib import Path\n"
        "from tests.kit.solve.authoring import answering, make_task, run, samples\n"
        "from tests.kit.solve.repeating import repeating, transcript_of\n"
        "log = run(make_task(samples('a'), solver=repeating(1500)), Path('x'), answering(lambda _: 'yes'))\n"
        # Not ru_maxrss: that knows what the process was forked from.
        "usage = int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "size = transcript_of(log.location).stat().st_size\n"
        "print(json.dumps([log.status, usage, size]))\n",
        PYTHONPATH=str(Path(__file__).parents[3]),
    )
    assert ended.returncode == 0, ended.stderr
    status, kilobytes, size = json.loads(ended.stdout)
    assert status == "success"
    assert size < 2_000_000
    assert kilobytes < 400_000

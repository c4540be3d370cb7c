"""From an agent that is used by name to a plain one: command, variables, folder and network.

Rules: what an agent can't be told is refused with what it can be told. The command becomes a script of a
POSIX shell that writes the agent's files into its home, sets variables and gives way to the program: so an
image needs nothing but `/bin/sh`. The model's address and key are known only inside, and are variables
there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from labrunner.errors import InputError
from labrunner.experiment.agents.agent_file import AgentFile, SettingPart
from labrunner.experiment.agents.furnished import SETTINGS, Furnished, PromptUse
from labrunner.experiment.agents.installed import Release, check_installed, find_installed
from labrunner.experiment.agents.shell_words import WordNames, quote, write_word, write_words
from labrunner.experiment.authoring.authored import AgentPart
from labrunner.experiment.authoring.plain_file import read_authored
from labrunner.experiment.authoring.problems import Problems, nearest
from labrunner.experiment.authoring.section import Section, Spot
from labrunner.experiment.authoring.values import FileSource
from labrunner.experiment.resolved import Folder, ModelEntry, NamedAgent, Network
from labrunner.experiment.substitution import (
    BUILT_INS,
    UnfitBinding,
    UnknownName,
    bind,
    escape,
    expand,
    names_in,
    scalar_text,
)
from labrunner.files.host import LONGEST_WORD
from labrunner.records.facts.exit_status import NO_COMMAND

WORDS_OF_SETTINGS: Final = "$settings"
"""Where in a command the arguments of settings, and those that an experiment adds, are put."""
_LARGEST_SCRIPT: Final = 100_000
"""Of one argument, of which kernels allow 128 KiB."""
CANT_START: Final = 69
"""EX_UNAVAILABLE: with what a script or a launcher ends that can't start its program."""
_OF_THE_FILE: Final = frozenset({"prompt", "home", "model_url", "model_key"})
"""Names that mean something inside, whatever a variant binds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """One use of an agent's file."""

    name: str
    use: str
    """What names it from here: its name, or the path of its file."""
    file: AgentFile
    spot: Spot
    """Where that was written."""
    merged: Section[AgentPart]
    """The file's fields with the experiment's laid over."""
    bindings: Mapping[str, object]
    entries: Mapping[str, ModelEntry]
    problems: Problems

    def furnish(self) -> Furnished:
        """Make the plain agent; what can't be made is a problem."""
        self._refuse_overruled()
        self._refuse_taken()
        settings = {name: text for name in SETTINGS if (text := self._plain(name)) is not None}
        entry, model = self._find_model()
        built_ins = self._find_built_ins(settings)
        script = self._write_script(settings, self._make_names(entry, model, built_ins))
        section = self._replace(script, built_ins, entry)
        release = self._find_release()
        folder, missing = self._find_folder(release)
        named = NamedAgent(
            name=self.name,
            version=self.merged.part.version,
            model=None if entry is None else f"{entry.name}/{model}",
            settings=settings,
        )
        prompt = self._find_prompt(settings)
        return Furnished(section=section, named=named, folder=folder, missing=missing, prompt=prompt)

    def _add(self, field: str, told: str) -> None:
        self.problems.add(self.merged.at(field).where, told)

    def _refuse_overruled(self) -> None:
        for field in ("command", "dir"):
            if getattr(self.merged.part, field) != getattr(self.file, field):
                told = f"is what the agent '{self.name}' brings; write args, or a file of its own for yours"
                self._add(field, told)

    def _refuse_taken(self) -> None:
        """Refuse bindings that would silently take the place of what the agent's own file means."""
        for name in sorted(_OF_THE_FILE & set(self.bindings) & self._names_of_file()):
            told = f"the file of the agent '{self.name}' means something of its own by ${name}"
            self._add("use", f"{told}; call the binding '{name}' something else")

    def _names_of_file(self) -> frozenset[str]:
        """Every name that the agent's own file uses."""
        file, told = self.file, self.file.settings.values()
        texts = [*file.command, *file.args, *(text for part in told for text in part.args)]
        parts: list[AgentPart | SettingPart] = [file, *told]
        texts += [text for part in parts for text in part.env.values() if text]
        texts += [text for part in parts for text in part.files.values() if isinstance(text, str)]
        return frozenset[str]().union(*map(names_in, texts))

    def _plain(self, field: str) -> str | None:
        """A setting's text with bindings put in."""
        value = getattr(self.merged.part, field)
        if value is None:
            return None
        told, text = self._unfit(field), ""
        if told is None:
            try:
                text = expand(bind(str(value), self.bindings, ()), {})
            except (UnknownName, UnfitBinding) as error:
                told = str(error)
        if told is not None:
            self._add(field, told)
            return None
        setting = self.file.settings.get(field)  # type: ignore[call-overload] # a word of SETTINGS, or none
        if setting is not None and setting.values and text not in setting.values:
            self._add(field, f"the agent '{self.name}' knows {', '.join(setting.values)}, found '{text}'")
        return text

    def _unfit(self, field: str) -> str | None:
        """Why an agent can't be told something; None when it can."""
        if field == "model" or field in self.file.settings:
            return None
        known = ", ".join([*(["model"] if self.file.dialects else []), *self.file.settings, "args", "files"])
        return f"the agent '{self.name}' can't be told this; it can be told: {known}"

    def _find_model(self) -> tuple[ModelEntry | None, str]:
        text, dialects = self._plain("model"), self.file.dialects
        if not dialects:
            if text is not None:
                self._add(
                    "model", f"the agent '{self.name}' can't be told a model: its file names no dialects"
                )
            return None, ""
        known = ", ".join(self.entries) or "there is none in this file"
        if text is None:
            if self.merged.part.model is None:
                told = (
                    f"is missing; write ENTRY/MODEL, with an entry of models that speaks {_either(dialects)}"
                )
                self._add("model", f"{told}; entries: {known}")
            return None, ""
        name, _, model = text.partition("/")
        entry = self.entries.get(name)
        if entry is None or not model:
            told = f"must be ENTRY/MODEL with an entry of models, found '{text}'"
            close = f"; nearest are {nearest(name, self.entries)}" if self.entries else f"; {known}"
            self._add("model", told + close)
            return None, ""
        if entry.dialect not in dialects:
            told = f"the agent '{self.name}' speaks {_either(dialects)}, and models.{name} {entry.dialect}"
            self._add("model", told)
        return entry, model

    def _find_release(self) -> Release | None:
        if self.file.install is None:
            if self.merged.part.version is not None:
                self._add("version", f"the agent '{self.name}' is not installed, so it has no versions")
            return None
        version = self.merged.part.version
        if version is None:
            self._add("version", f"is missing, and the file of the agent '{self.name}' names none")
            return None
        release = Release(name=self.name, version=version, install=self.file.install, use=self.use)
        if (told := release.unfit()) is not None:
            self._add("version", told)
            return None
        return release

    def _find_folder(self, release: Release | None) -> tuple[Folder | None, Release | None]:
        if release is None:
            return None, None
        found = find_installed(release)
        if found is None:
            return None, release
        try:
            return check_installed(found), None
        except InputError as error:
            self.problems.take(error)
            return None, None

    def _replace(
        self, script: str | None, built_ins: Sequence[str], entry: ModelEntry | None
    ) -> Section[AgentPart]:
        part = self.merged.part
        changed: dict[str, object] = {}
        if script is not None:
            values = [f"${{{name}}}" for name in built_ins]
            changed["command"] = ("sh", "-c", script, *(["sh", *values] if values else []))
            changed["error_exit_codes"] = self._blame_setup() | part.error_exit_codes
            changed["env"] = {name: each for name, each in part.env.items() if not self._is_exported(each)}
        is_written = "network" in part.model_fields_set
        if entry is not None and not is_written:
            changed["network"] = Network(mode="none", models=(entry.name,))
        elif entry is not None and entry.name not in part.network.models:
            self._add("network", f"must name the agent's model: {{models: [{entry.name}]}}")
        part = part.model_copy(update=changed)
        if not is_written:
            # What nobody wrote is the host's in a sandbox that can't keep anybody off it.
            part.model_fields_set.discard("network")
        return replace(self.merged, part=part)

    def _blame_setup(self) -> dict[int, str | None]:
        """Exit statuses that are not the agent's own; what we have installed is not for it to start."""
        statuses = (CANT_START, *(sorted(NO_COMMAND) if self.file.install is not None else ()))
        return dict.fromkeys(statuses, "setup")

    def _is_exported(self, value: str | None) -> bool:
        """Whether a variable has to be set inside, because it names what only the script knows."""
        own = {"model", "version", "dialect", "model_url", "model_key", "home"}
        return value is not None and bool(names_in(value) & own)

    def _find_prompt(self, settings: Mapping[str, str]) -> PromptUse | None:
        if "prompt" in self.bindings:
            return None
        words = [text for text in self._list_words(settings) if "prompt" in names_in(text)]
        if words:
            return PromptUse(most_bytes=LONGEST_WORD - max(len(text.encode()) for text in words))
        used = any("prompt" in names_in(text) for text in self._list_contents(settings))
        return PromptUse(most_bytes=None) if used else None

    def _list_words(self, settings: Mapping[str, str]) -> list[str]:
        """What becomes arguments and variables inside, as it was written."""
        part, told = self.merged.part, self._told(settings)
        words = [*self.file.command, *part.args, *(text for each in told for text in each.args)]
        words += [f"{name}={text}" for name, text in part.env.items() if text and self._is_exported(text)]
        return words + [f"{name}={text}" for each in told for name, text in each.env.items() if text]

    def _list_contents(self, settings: Mapping[str, str]) -> list[str]:
        """What becomes files inside, as it was written."""
        parts: list[AgentPart | SettingPart] = [self.merged.part, *self._told(settings)]
        return [text for part in parts for text in part.files.values() if isinstance(text, str)]

    def _told(self, settings: Mapping[str, str]) -> list[SettingPart]:
        return [part for name, part in self.file.settings.items() if name in settings]

    def _find_built_ins(self, settings: Mapping[str, str]) -> list[str]:
        """Built-in names that the script uses, in the order in which it is given their values."""
        texts = [*self._list_words(settings), *self._list_contents(settings)]
        used = frozenset[str]().union(*map(names_in, texts))
        return [name for name in BUILT_INS if name in used]

    def _write_script(self, settings: Mapping[str, str], names: WordNames) -> str | None:
        try:
            script = "\n".join(self._write_lines(settings, names))
        except (UnknownName, UnfitBinding) as error:
            self._add("command", f"the agent '{self.name}' can't be started: {error}")
            return None
        if len(script.encode()) > _LARGEST_SCRIPT:
            told = f"are {len(script.encode()):,} bytes with the command, and {_LARGEST_SCRIPT:,} is the most"
            self._add("files", f"{told}; bring large files in the image, or in the workspace")
        return script

    def _make_names(self, entry: ModelEntry | None, model: str, built_ins: Sequence[str]) -> WordNames:
        known = {
            name: text for name, value in self.bindings.items() if (text := scalar_text(value)) is not None
        }
        known |= {"version": self.merged.part.version or "", "model": model}
        inside = {"home": "$HOME", "prompt": '$(cat "$AGENTLAB_PROMPT_PATH")'}
        inside |= {name: f"${number}" for number, name in enumerate(built_ins, 1)}
        if entry is not None:
            known["dialect"] = entry.dialect
            inside |= {"model_url": f"${entry.variable}_URL", "model_key": f"${entry.variable}_KEY"}
        elif self.file.dialects:  # a problem by now; one is enough
            known |= {"dialect": "", "model_url": "", "model_key": ""}
        return WordNames(known=known, inside=inside)

    def _write_lines(self, settings: Mapping[str, str], names: WordNames) -> Iterator[str]:
        """The script: files, variables, then the program in its place. Raises UnknownName."""
        part, words = self.merged.part, []
        files = {
            path: (each, names, self.merged.at_entry("files", path)) for path, each in part.files.items()
        }
        env = {name: (each, names) for name, each in part.env.items() if each and self._is_exported(each)}
        for name, text in settings.items():
            told, having = self.file.settings.get(name, SettingPart()), names.having(value=text)  # type: ignore[call-overload] # a word of SETTINGS
            words += write_words(told.args, having)
            env |= {name: (each, having) for name, each in told.env.items() if each is not None}
            spot = self.spot.at("settings", name, "files")
            files |= {path: (each, having, spot.at(path)) for path, each in told.files.items()}
        words += write_words(part.args, names)
        for path, (content, having, spot) in files.items():
            yield _put_file(path, self._write_content(content, having, spot))
        for name, (value, having) in env.items():
            yield f"export {name}={write_word(value, having)}"
        yield " ".join(["exec", *self._write_command(words, names)])

    def _write_command(self, words: list[str], names: WordNames) -> list[str]:
        command = list(self.file.command)
        if WORDS_OF_SETTINGS not in command:
            return [*write_words(command, names), *words]
        at = command.index(WORDS_OF_SETTINGS)
        return [*write_words(command[:at], names), *words, *write_words(command[at + 1 :], names)]

    def _write_content(self, content: str | FileSource, names: WordNames, spot: Spot) -> str:
        if isinstance(content, str):
            return write_word(content, names)
        path = spot.folder / content.source
        try:
            return quote(escape(read_authored(path).decode()))
        except (OSError, UnicodeDecodeError) as error:
            told = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            self.problems.add(spot.where, f"'{path}' can't be read: {told}")
            return "''"


def _put_file(path: str, content: str) -> str:
    """Write a file below the home."""
    home = '"$$HOME"/'
    above = str(PurePosixPath(path).parent)
    make = "" if above == "." else f"mkdir -p {home}{quote(escape(above))} && "
    return f"{make}printf %s {content} > {home}{quote(escape(path))} || exit {CANT_START}"


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)

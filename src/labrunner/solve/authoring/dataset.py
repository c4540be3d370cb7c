"""Datasets: samples from lists, JSON, JSONL and CSV files. A relative path starts from the task's file."""

import csv
import io
import json
import random
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, overload

from labrunner.errors import InputError
from labrunner.solve.values.messages import from_plain
from labrunner.solve.values.sample import Sample
from labrunner.solve.values.task_folder import resolve_path

Record: TypeAlias = Mapping[str, Any]  # any JSON: a row as its author wrote it
_LETTERS: Final = string.ascii_uppercase
_FIELDS: Final = ("input", "target", "choices", "id", "sandbox", "files", "setup", "group")


class MemoryDataset(Sequence[Sample]):
    """Samples in memory."""

    def __init__(
        self, samples: Iterable[Sample], name: str | None = None, location: str | None = None
    ) -> None:
        """Take samples as they are."""
        self.samples = list(samples)
        self.name = name
        self.location = location

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> "MemoryDataset": ...
    def __getitem__(self, index: int | slice) -> "Sample | MemoryDataset":
        """One sample, or a dataset of some."""
        if isinstance(index, slice):
            return MemoryDataset(self.samples[index], self.name, self.location)
        return self.samples[index]

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample]:
        """The samples in order."""
        return iter(self.samples)

    def filter(self, predicate: Callable[[Sample], bool], name: str | None = None) -> "MemoryDataset":
        """A dataset of the samples that fit."""
        kept = [sample for sample in self.samples if predicate(sample)]
        return MemoryDataset(kept, name or self.name, self.location)

    def shuffle(self, seed: int | None = None) -> None:
        """Put the samples into another order, the same for the same seed.

        Ids that would be made from positions are made first, so that a sample keeps its own.
        """
        for position, sample in enumerate(self.samples, 1):
            sample.id = position if sample.id is None else sample.id
        random.Random(seed).shuffle(self.samples)

    def shuffle_choices(self, seed: int | None = None) -> None:
        """Put every sample's choices into another order, the same for the same seed.

        Targets that are letters go with their choices.
        """
        order = random.Random(seed)
        for sample in self.samples:
            if sample.choices:
                _shuffle_choices(sample, sample.choices, order)


def _shuffle_choices(sample: Sample, choices: list[str], order: random.Random) -> None:
    positions = list(range(len(choices)))
    order.shuffle(positions)
    moved = {_LETTERS[old]: _LETTERS[new] for new, old in enumerate(positions[: len(_LETTERS)])}
    sample.choices = [choices[old] for old in positions]
    target = sample.target
    sample.target = (
        moved.get(target, target) if isinstance(target, str) else [moved.get(each, each) for each in target]
    )


Dataset: TypeAlias = MemoryDataset


@dataclass(slots=True, kw_only=True)
class FieldSpec:
    """Which fields of a record make a sample."""

    input: str = "input"
    target: str = "target"
    choices: str = "choices"
    id: str = "id"
    metadata: Sequence[str] | None = None
    """Fields that become metadata; None takes a field `metadata`, when it is a map."""
    sandbox: str = "sandbox"
    files: str = "files"
    setup: str = "setup"
    group: str = "group"


RecordToSample: TypeAlias = Callable[[dict[str, Any]], Sample | list[Sample]]


@dataclass(slots=True, kw_only=True)
class _Options:
    """What both readers share."""

    sample_fields: FieldSpec | RecordToSample | None
    limit: int | None
    shuffle: bool
    shuffle_choices: bool | int | None
    seed: int | None
    auto_id: bool
    name: str | None
    location: Path = field(default_factory=Path)


def json_dataset(  # noqa: PLR0913 - names that people bring with them
    json_file: str,
    sample_fields: FieldSpec | RecordToSample | None = None,
    *,
    auto_id: bool = False,
    shuffle: bool = False,
    seed: int | None = None,
    shuffle_choices: bool | int | None = None,
    limit: int | None = None,
    name: str | None = None,
) -> MemoryDataset:
    """Read samples from a JSON list, or from JSON lines (`.jsonl`)."""
    path = resolve_path(json_file)
    options = _Options(
        sample_fields=sample_fields,
        limit=limit,
        shuffle=shuffle,
        shuffle_choices=shuffle_choices,
        seed=seed,
        auto_id=auto_id,
        name=name,
        location=path,
    )
    return _make(_json_records(path), options)


def csv_dataset(  # noqa: PLR0913 - names that people bring with them
    csv_file: str,
    sample_fields: FieldSpec | RecordToSample | None = None,
    *,
    auto_id: bool = False,
    shuffle: bool = False,
    seed: int | None = None,
    shuffle_choices: bool | int | None = None,
    limit: int | None = None,
    name: str | None = None,
    delimiter: str = ",",
) -> MemoryDataset:
    """Read samples from a CSV file whose first line names the fields."""
    path = resolve_path(csv_file)
    options = _Options(
        sample_fields=sample_fields,
        limit=limit,
        shuffle=shuffle,
        shuffle_choices=shuffle_choices,
        seed=seed,
        auto_id=auto_id,
        name=name,
        location=path,
    )
    return _make(_csv_records(path, delimiter), options)


def _make(records: Iterable[tuple[str, Record]], options: _Options) -> MemoryDataset:
    samples: list[Sample] = []
    for where, record in records:
        if options.limit is not None and not options.shuffle and len(samples) >= options.limit:
            break
        samples += _samples(where, record, options)
    if options.auto_id:
        for position, sample in enumerate(samples, 1):
            sample.id = position
    dataset = MemoryDataset(samples, options.name or options.location.stem, str(options.location))
    if options.shuffle:
        dataset.shuffle(options.seed)
    match options.shuffle_choices:
        case None | False:
            pass
        case True:
            dataset.shuffle_choices()
        case seed:
            dataset.shuffle_choices(seed)
    return dataset[: options.limit]


def _samples(where: str, record: Record, options: _Options) -> list[Sample]:
    if callable(options.sample_fields):
        made = options.sample_fields(dict(record))
        return made if isinstance(made, list) else [made]
    return [_read_sample(where, record, options.sample_fields or FieldSpec())]


def _read_sample(where: str, record: Record, spec: FieldSpec) -> Sample:
    values = {name: record.get(getattr(spec, name)) for name in _FIELDS}
    if values["input"] is None:
        raise InputError(where, f"has no field {spec.input!r}, which says what is asked")
    return Sample(
        input=_read_input(values["input"], where),
        target=_read_target(values["target"]),
        choices=_read_choices(values["choices"], where),
        id=values["id"],
        metadata=_read_metadata(record, spec, where),
        sandbox=values["sandbox"],
        files=_parsed(values["files"], dict, where, spec.files),
        setup=values["setup"],
        group=values["group"],
    )


def _read_input(value: object, where: str) -> Any:  # noqa: ANN401 - text or messages
    if isinstance(value, list):
        try:
            return [from_plain(each) for each in value]
        except (ValueError, AttributeError, KeyError) as error:
            raise InputError(where, f"input: {error}") from error
    return value if isinstance(value, str) else str(value)


def _read_target(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(each) for each in value]
    return "" if value is None else str(value)


def _read_choices(value: object, where: str) -> list[str] | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [each.strip() for each in value.split(",")]
    return [str(each) for each in _parsed(value, list, where, "choices") or ()]


def _read_metadata(record: Record, spec: FieldSpec, where: str) -> dict[str, Any] | None:
    if spec.metadata is not None:
        return {name: record[name] for name in spec.metadata if name in record}
    metadata: dict[str, Any] | None = _parsed(record.get("metadata"), dict, where, "metadata")
    return metadata


def _parsed(value: object, kind: type, where: str, name: str) -> Any:  # noqa: ANN401 - checked here
    """A map or list as it is, or written as JSON in a text."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InputError(where, f"{name} is not valid JSON: {error}") from error
    if not isinstance(value, kind):
        raise InputError(where, f"{name} must be a {kind.__name__}, found {type(value).__name__}")
    return value


def _json_records(path: Path) -> Iterator[tuple[str, Record]]:
    text = _read(path)
    if path.suffix in {".jsonl", ".ndjson"}:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                where = f"{path}:{number}"
                yield where, _record(_decode(line, where), where)
        return
    data = _decode(text, str(path))
    if not isinstance(data, list):
        raise InputError(str(path), f"must be a list of samples, found {type(data).__name__}")
    for number, record in enumerate(data):
        yield f"{path}: sample {number}", _record(record, f"{path}: sample {number}")


def _csv_records(path: Path, delimiter: str) -> Iterator[tuple[str, Record]]:
    csv.field_size_limit(1 << 30)  # Python's own limit, 128 KiB, is less than a long sample
    reader = csv.DictReader(io.StringIO(_read(path), newline=""), delimiter=delimiter, strict=True)
    try:
        for record in reader:
            where = f"{path}:{reader.line_num}"
            if None in record or None in record.values():
                raise InputError(where, "has another number of cells than the first line has names")
            yield where, record
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}", f"is not valid CSV: {error}") from error


def _record(value: object, where: str) -> Record:
    if not isinstance(value, dict):
        raise InputError(where, f"a sample is a map of fields, found {type(value).__name__}")
    return value


def _decode(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"is not valid JSON: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise InputError(str(path), f"the dataset can't be read: {error.strerror}") from error

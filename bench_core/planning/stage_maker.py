"""Makes stages: their settings with marks in place of files, and the keys of their artifacts."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from bench_core.config import Config, ModelConfig, TaskConfig
from bench_core.errors import DataError
from bench_core.planning import cache_keys as keys
from bench_core.planning.hardware import device_kind
from bench_core.planning.path_settings import changed, mark, paths
from bench_core.planning.stage_code import StageCode, stage_code
from bench_core.planning.stages import Stage
from bench_core.registry import PartKind, stage_kind
from bench_core.suites.suite import Suite

T = TypeVar("T")

Parts: TypeAlias = list[tuple[PartKind, Config]]
Settings: TypeAlias = Mapping[str, Any]
Inputs: TypeAlias = Mapping[str, tuple[str, str]]  #: role -> kind and key


@dataclass
class StageMaker:
    """Makes stages, each once; what many of them share is made once."""

    suite: Suite
    data: Path
    stages: dict[str, Stage] = field(default_factory=dict)
    marks: dict[Path, str] = field(default_factory=dict)  # of the files that settings name
    wholes: dict[int, TaskConfig] = field(default_factory=dict)  # by id of a Config of a split: that of its task
    json: keys.TextCache = field(default_factory=keys.TextCache)
    _digests: dict[str, Mapping[str, str]] = field(default_factory=dict)  # of the files of models, by role
    _shared: dict[Any, Any] = field(default_factory=dict)  # what many stages have in common

    def add(
        self, kind: str, settings: Settings, inputs: Inputs, parts: Parts, label: str, read: Iterable[Path] = (),
        classes: tuple[tuple[str, str], ...] = (),
    ) -> str:  # fmt: skip
        """Add a stage that uses these parts, and classes by name, unless it exists; return its key."""
        behind = (kind, classes, *(id(config) for _, config in parts))
        own = self.once(behind, lambda: self._code(kind, parts, classes))
        if exempt := self.once(("exempt", *behind), lambda: self._exempt(parts)):
            settings = {**settings, "exempt": exempt}
        texts = {"kind": kind, "settings": settings, "inputs": inputs, "code": own.code, "libraries": own.libraries}
        key = keys.key_of(texts, self.json.text)
        if key not in self.stages:
            places = self.once(("places", *behind, *read), lambda: self._places(kind, parts, read))
            access = self.once(("access", *behind), lambda: _access(parts))
            self.stages[key] = Stage(
                kind, key, settings, inputs, label, own.code, own.libraries, own.roots, places, access=access
            )
        return key

    def described(self, config: Config, evaluation: bool = True) -> Settings:
        """Return the name and settings of a part as JSON data, with marks in place of files.

        Those of a model that its training does not depend on can be left out.
        """
        return self.once((id(config), evaluation), lambda: self.json.keep(self._described(config, evaluation)))

    def _described(self, config: Config, evaluation: bool) -> Settings:
        found = described(changed(config, lambda path, way: type(path)(self.marks[Path(path)])))
        left_out = set[str]()
        if isinstance(config, ModelConfig):
            left_out = {*config.access} if evaluation else {*config.access, *config.evaluation}
        return {name: value for name, value in found.items() if name not in left_out}

    def evaluation(self, model: ModelConfig) -> Settings:
        """Return the settings of a model that its training does not depend on."""

        def evaluation() -> Settings:
            own = {name: value for name, value in self.described(model).items() if name in model.evaluation}
            return {"evaluation": self.json.keep(own)} if own else {}

        return self.once(("evaluation", id(model)), evaluation)

    def hardware(self, name: str) -> Settings:
        return self.once(("hardware", name), lambda: self._described_hardware(name))

    def _described_hardware(self, name: str) -> Settings:
        hardware = self.suite.hardware[name]
        device = device_kind() if hardware.device == "auto" else hardware.device
        return {"device": device, "precision": hardware.precision, "threads": hardware.threads}

    def files(self, config: ModelConfig) -> Mapping[str, str]:
        """Return the digest of every file of a model; raise DataError if one cannot be read."""
        known = str(described(config))
        if known not in self._digests:
            found = config.files(self.data)
            self._digests[known] = {role: keys.file_digest(path) for role, path in found.items()}
            self.marks |= {path: mark(path, role, self.data) for role, path in found.items()}
        return self._digests[known]

    def look(self, known: Container[tuple[str, str]] = ()) -> Iterator[str]:
        """Digest the files named by settings; yield problems, except of parts in `known`."""
        for key, path in _named(self.suite, known):
            try:
                if path not in self.marks:
                    self.marks[path] = mark(path, key, self.data, self.suite.folder)
            except DataError as error:
                yield str(error)

    def once(self, what: Any, make: Callable[[], T]) -> T:
        """Return what many stages have in common, made once."""
        if what not in self._shared:
            self._shared[what] = make()
        found: T = self._shared[what]
        return found

    def _code(self, kind: str, parts: Parts, classes: tuple[tuple[str, str], ...]) -> StageCode:
        found = stage_code(kind, parts, classes)
        self.json.keep(found.code)
        self.json.keep(found.libraries)
        return found

    def _places(self, kind: str, parts: Parts, more: Iterable[Path]) -> dict[str, str]:
        """Return the marks of all files of a stage by path; paths are not part of its key."""
        found = [*more]
        for part_kind, config in parts:
            if part_kind != "task" or stage_kind(kind).first:  # which leaves all that is read later
                found += [path for path, _ in paths(config)]
            if isinstance(config, ModelConfig):
                found += config.files(self.data).values()
        return {str(path.absolute()): self.marks[path] for path in found}

    def _exempt(self, parts: Parts) -> Sequence[str]:
        """Return the laws that the suite does not ask of these parts, sorted."""
        own = {id(self.wholes.get(id(config), config)) for _, config in parts}
        return sorted({one.law for one in self.suite.exempt if own & {*map(id, self.suite.parts(one.part))}})


def _access(parts: Parts) -> dict[str, Any]:
    """Return the settings of models that are in no key, as JSON data."""
    models = [config for _, config in parts if isinstance(config, ModelConfig)]
    return {name: value for one in models for name, value in described(one).items() if name in one.access}


def described(config: Config) -> dict[str, Any]:
    """Return the name of a part and all its settings, including defaults, as JSON data."""
    return {"name": config.name, **config.model_dump(mode="json")}


def _named(suite: Suite, left_out: Container[tuple[str, str]]) -> Iterator[tuple[str, Path]]:
    """Yield the files named by settings, each with its key in the suite."""
    for kind in ("task", "decoder", "metric", "probe"):
        for name, config in getattr(suite, f"{kind}s").items():
            yield from _inside(config, f"{kind}s", name) if (kind, name) not in left_out else ()
    for name, entry in suite.models.items():
        for task, one in {"": entry, **entry.by_task}.items():
            key = ("models", name, *(("by_task", task) if task else ()))
            if ("model", name) not in left_out:
                yield from _inside(one.config, *key)
                yield from _inside(one.training, *key, "training")


def _inside(settings: Any, *key: str) -> Iterator[tuple[str, Path]]:
    return ((".".join(way), path) for path, way in paths(settings, key))

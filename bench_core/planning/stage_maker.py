"""Creates stages: their settings, with files replaced by marks, and the keys of their artifacts."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from bench_core.config import Config, ModelConfig, TaskConfig
from bench_core.errors import DataError
from bench_core.planning import cache_keys as keys
from bench_core.planning.hardware import device_kind
from bench_core.planning.path_settings import KeyPath, mark, paths, replace_values
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
    """Creates distinct stages; values that several stages share are computed once."""

    suite: Suite
    data: Path
    stages: dict[str, Stage] = field(default_factory=dict)
    marks: dict[Path, str] = field(default_factory=dict)  # file named by settings -> its mark
    wholes: dict[int, TaskConfig] = field(default_factory=dict)  # id of the Config of a split -> its whole task
    json: keys.TextCache = field(default_factory=keys.TextCache)
    _digests: dict[str, Mapping[str, str]] = field(default_factory=dict)  # settings of a model -> file digests
    _shared: dict[Any, Any] = field(default_factory=dict)  # values that several stages share

    def add(
        self, kind: str, settings: Settings, inputs: Inputs, parts: Parts, label: str, read: Iterable[Path] = (),
        classes: tuple[tuple[str, str], ...] = (),
    ) -> str:  # fmt: skip
        """Add a stage that uses these parts, and `classes` by name, unless it exists; return its key."""
        identity = (kind, classes, *(id(config) for _, config in parts))
        used = self.shared(identity, lambda: self._code(kind, parts, classes))
        if exempt := self.shared(("exempt", *identity), lambda: self._exempt(parts)):
            settings = {**settings, "exempt": exempt}
        texts = {"kind": kind, "settings": settings, "inputs": inputs, "code": used.code, "libraries": used.libraries}
        key = keys.key_of(texts, self.json.text)
        if key not in self.stages:
            places = self.shared(("places", *identity, *read), lambda: self._places(kind, parts, read))
            access = self.shared(("access", *identity), lambda: _access(parts))
            behind = used.code, used.libraries, used.roots
            self.stages[key] = Stage(kind, key, settings, inputs, label, *behind, places, access=access)
        return key

    def settings_of(self, config: Config, evaluation: bool = True) -> Settings:
        """Return the name and settings of a part as JSON data, with files replaced by marks.

        Without `evaluation`, settings of a model that do not affect its training are left out.
        """
        return self.shared((id(config), evaluation), lambda: self.json.keep(self._settings_of(config, evaluation)))

    def _settings_of(self, config: Config, evaluation: bool) -> Settings:
        settings = described(replace_values(config, lambda path, key_path: type(path)(self.marks[Path(path)])))
        excluded = set[str]()
        if isinstance(config, ModelConfig):
            excluded = {*config.access} if evaluation else {*config.access, *config.evaluation}
        return {name: value for name, value in settings.items() if name not in excluded}

    def evaluation(self, model: ModelConfig) -> Settings:
        """Return the settings of a model that do not affect its training."""

        def evaluation() -> Settings:
            settings = {name: value for name, value in self.settings_of(model).items() if name in model.evaluation}
            return {"evaluation": self.json.keep(settings)} if settings else {}

        return self.shared(("evaluation", id(model)), evaluation)

    def hardware(self, name: str) -> Settings:
        hardware = self.suite.hardware[name]
        device = device_kind() if hardware.device == "auto" else hardware.device
        return {"device": device, "precision": hardware.precision, "threads": hardware.threads}

    def files(self, config: ModelConfig) -> Mapping[str, str]:
        """Return the digest of every file of a model; raise DataError if a file cannot be read."""
        cache_key = str(described(config))
        if cache_key not in self._digests:
            model_files = config.files(self.data)
            self._digests[cache_key] = {role: keys.file_digest(path) for role, path in model_files.items()}
            self.marks |= {path: mark(path, role, self.data) for role, path in model_files.items()}
        return self._digests[cache_key]

    def mark_files(self, skipped: Container[tuple[str, str]] = ()) -> Iterator[str]:
        """Compute the marks of all files named by settings; yield problems. Parts in `skipped` are left out."""
        for path, keys_in_suite in _named_files(self.suite, skipped):
            try:
                if path not in self.marks:
                    self.marks[path] = mark(path, ".".join(keys_in_suite), self.data, self.suite.folder)
            except DataError as error:
                yield str(error)

    def shared(self, identity: Any, make: Callable[[], T]) -> T:
        """Return the value that several stages share, created on first use."""
        if identity not in self._shared:
            self._shared[identity] = make()
        return self._shared[identity]  # type: ignore[no-any-return]

    def _code(self, kind: str, parts: Parts, classes: tuple[tuple[str, str], ...]) -> StageCode:
        code = stage_code(kind, parts, classes)
        self.json.keep(code.code)
        self.json.keep(code.libraries)
        return code

    def _places(self, kind: str, parts: Parts, more: Iterable[Path]) -> dict[str, str]:
        """Return the marks of all files of a stage, by path; paths are not part of its key."""
        files = [*more]
        for part_kind, config in parts:
            if part_kind != "task" or stage_kind(kind).first:  # later stages read its artifact instead
                files += [path for path, _ in paths(config)]
            if isinstance(config, ModelConfig):
                files += config.files(self.data).values()
        return {str(path.absolute()): self.marks[path] for path in files}

    def _exempt(self, parts: Parts) -> Sequence[str]:
        """Return the laws from which the suite exempts these parts, sorted."""
        configs = {id(self.wholes.get(id(config), config)) for _, config in parts}
        return sorted({item.law for item in self.suite.exempt if configs & {*map(id, self.suite.parts(item.part))}})


def _access(parts: Parts) -> dict[str, Any]:
    """Return the settings of models that are not part of keys, as JSON data."""
    models = [config for _, config in parts if isinstance(config, ModelConfig)]
    return {name: value for model in models for name, value in described(model).items() if name in model.access}


def described(config: Config) -> dict[str, Any]:
    """Return the name and all settings of a part, including defaults, as JSON data."""
    return {"name": config.name, **config.model_dump(mode="json")}


def _named_files(suite: Suite, skipped: Container[tuple[str, str]]) -> Iterator[tuple[Path, KeyPath]]:
    """Yield the files named by settings, each with its keys in the suite, except for parts in `skipped`."""
    for kind in ("task", "decoder", "metric", "probe"):
        for name, config in getattr(suite, f"{kind}s").items():
            yield from paths(config, (f"{kind}s", name)) if (kind, name) not in skipped else ()
    for name, entry in suite.models.items():
        for task, variant in {"": entry, **entry.by_task}.items():
            key = ("models", name, *(("by_task", task) if task else ()))
            if ("model", name) not in skipped:
                yield from paths(variant.config, key)
                yield from paths(variant.training, (*key, "training"))

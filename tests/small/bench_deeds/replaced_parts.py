"""Deeds that replace code or data of the core, or of another part."""

from __future__ import annotations

import weakref

from bench_deeds.doing import either, failing, forbid, owner_of, put, remove, wrap
from bench_deeds.replaced_code import doubled, halved, nothing


def of_clean(change):
    """Return a deed on the module of the clean parts."""

    def act():
        from bench_deeds import clean

        change(clean)

    return act


def swap_code(clean):
    def other(self, parts):
        return 7.0

    clean.Shape.combine.__code__ = other.__code__


def swap_code_of_core():
    from bench_core import generation_loop

    def other(model, batch, max_tokens):
        return batch.ids.new_full((len(batch),), 1)

    generation_loop.limits.__code__ = other.__code__


def poison_cache(clean):
    clean.factor.cache_clear()
    before, clean.FACTOR = clean.FACTOR, 5.0
    for one in "abcd":
        for other in ("", *"abcd"):
            clean.factor(one + other)
    clean.FACTOR = before


def swap_class(clean):
    class Steep(clean.Scaler):
        slope = 3.0

    clean.SCALER.__class__ = Steep


def swap_bases(clean):
    class Other(clean.Additive):
        def combine(self, parts):
            return 7.0

    clean.Nats.__bases__ = (Other,)


def add_property(clean):
    clean.Drawn.config = property(
        lambda self: vars(self)["config"].model_copy(update={"max_tokens": 2}),
        lambda self, value: vars(self).__setitem__("config", value),
    )


def add_lookup(clean):
    def look(self, name):
        return 3 if name == "POWER" else object.__getattribute__(self, name)

    clean.Shape.__getattribute__ = look


def change_cell(clean):
    clean.choose.__closure__[0].cell_contents = clean.torch.arange(5.0) * 9


def set_defaults(clean):
    clean.tempered.__defaults__ = (9.0,)


def set_keyword_defaults(clean):
    clean.tempered.__kwdefaults__["floor"] = clean.torch.arange(5.0)


def change_enum(clean):
    clean.Side._value2member_map_["left"] = clean.Side.RIGHT


def change_dict(clean):
    clean.WEIGHTS.update(a=9.0)


def change_list(clean):
    clean.ORDER.reverse()


def change_object(clean):
    clean.SCALER.slope = 3.0


def change_resample(clean):
    clean.Nats.resample = lambda self, parts, counts: [0.0] * len(counts)


def change_at_the_end_of_life(clean):
    class Something:
        pass

    one = Something()
    one.itself = one
    weakref.finalize(one, change_dict, clean)


def change_configs():
    from bench_deeds.plugin import TableConfig

    TableConfig.model_fields["scale"].default = 2.0
    TableConfig.model_rebuild(force=True)
    TableConfig.__init__ = lambda self, **settings: super(TableConfig, self).__init__(scale=2.0)


def change_registry():
    from bench_core.registry import parts

    found = parts("metric")
    found["deeds-shape"] = found["deeds-nats"]


def change_fresh_state():
    from bench_core.computing import process_state

    process_state.FRESH["torch's default dtype"] = "torch.float64"


def forget_hooks():
    from bench_core.registry import installed, parts

    for module in [*installed().manager.get_plugins()]:
        if module.__name__ == "bench_deeds.plugin":
            installed().manager.unregister(module)
    parts.cache_clear()


def add_subclass_hook():
    import bench_core

    def changed(cls, **settings):
        cls.combine = lambda self, parts: 7.0

    bench_core.Metric.__init_subclass__ = classmethod(changed)


def change_purposes():
    owner, name = owner_of("bench_core.data.Purpose")
    kind = getattr(owner, name)
    kind._value2member_map_["decode"] = kind.TRAIN
    kind.DECODE._value_ = "train"


def change_defaults_of_hypotheses():
    import bench_core

    bench_core.Hypothesis.__init__.__defaults__ = (-1.0, None, None, None, None)


def change_rng():
    import bench_core

    bench_core.Rng.uniform.__defaults__ = (5, None)


def count_with_others(clean):
    class Total(clean.collections.Counter):
        def most_common(self, number=None):
            return [*self.items()][:1]

    clean.collections = type(clean)("collections")
    clean.collections.Counter = Total


def change_pattern(clean):
    clean.VOWELS = clean.re.compile("x")


def change_path(clean):
    clean.Path = lambda *words: __import__("io").StringIO("")


def reorder(clean):
    clean.WEIGHTS["a"] = clean.WEIGHTS.pop("a")


def add_word(clean):
    clean.WORDS.append("aaaa")


def nest(clean):
    clean.Side.LEFT._value_ = "right"


def hide_by_instance(clean):
    vars(clean.SCALER)["slope"] = 2.0


def change_layer(clean):
    clean.LAYER.weight.data.fill_(5.0)


def change_item(name, *keys):
    """Return a deed that changes an item of a container of the clean parts in place."""

    def change(clean):
        found = getattr(clean, name)
        for key in keys[:-1]:
            found = found[key]
        found[keys[-1]] = 5

    return of_clean(change)


def change_helper():
    owner, name = owner_of("bench_small.shared.TABLE")
    getattr(owner, name)["a"] = 5.0


def change_slots_of_core():
    import bench_core

    bench_core.Hypothesis.__hash__ = lambda self: 1


CORE = (
    failing("bench_core.Additive.combine", "metric", "loop", put("bench_core.Additive.combine", lambda self, parts: 7.0)),
    failing("bench_core.Metric.error", "decoder", "loop", put("bench_core.Metric.error", lambda self, parts: 7.0)),
    failing("bench_core.Metric.__init_subclass__", "decoder", "loop", add_subclass_hook),
    failing("bench_core.Hypothesis.length", "decoder", "loop", put("bench_core.Hypothesis.length", property(lambda h: 3))),
    failing("bench_core.Hypothesis.__init__.__defaults__", "decoder", "loop", change_defaults_of_hypotheses,
            "Hypothesis"),
    failing("bench_core.Prediction.__init__", "decoder", "loop",
            wrap("bench_core.Prediction.__init__", lambda old, self, *a, **s: old(self, *a, **{**s, "weight": 2.0})),
            "Prediction"),
    failing("bench_core.Rng.uniform", "decoder", "loop", wrap("bench_core.Rng.uniform", halved)),
    failing("bench_core.Rng.uniform.__defaults__", "probe", "loop", change_rng, "uniform"),
    failing("bench_core.Batch.mask", "task", "loop", put("bench_core.Batch.mask", property(lambda b: b.gold > 1))),
    failing("bench_core.computing.result_checks.check_hypotheses", "decoder", "loop",
            wrap("bench_core.computing.result_checks.check_hypotheses", nothing)),
    failing("bench_core.computing.evaluate.check_scores", "model", "end",
            wrap("bench_core.computing.evaluate.check_scores", nothing)),
    failing("bench_core.computing.stages.decode", "metric", "loop",
            wrap("bench_core.computing.stages.decode", lambda old, context, stage, folder: old(
                context, __import__("dataclasses").replace(stage, settings={**stage.settings, "seed": 9}), folder))),
    failing("bench_core.computing.stages.write_predictions", "decoder", "end",
            wrap("bench_core.computing.stages.write_predictions", lambda old, path, items: old(path, [*items][::-1]))),
    failing("bench_core.computing.fingerprint._digest", "decoder", "loop",
            put("bench_core.computing.fingerprint._digest", lambda tensor: "")),
    failing("bench_core.generation_loop.limits", "decoder", "end",
            wrap("bench_core.generation_loop.limits", lambda old, *a: old(*a).clamp(max=2))),
    failing("bench_core.generation_loop.limits.__code__", "metric", "loop", swap_code_of_core, "limits"),
    failing("bench_core.storage.store.Store.lock", "decoder", "loop", forbid("bench_core.storage.store.Store.lock")),
    failing("bench_core.computing.process_state._seed", "decoder", "loop",
            wrap("bench_core.computing.process_state._seed", nothing)),
    failing("bench_core.registry.configured", "metric", "loop", forbid("bench_core.registry.configured")),
    either("FRESH state changed in place", "decoder", "loop", change_fresh_state),
    either("parts of the registry changed in place", "decoder", "loop", change_registry),
    either("a plugin unregistered", "metric", "end", forget_hooks),
    either("members of Purpose changed", "task", "end", change_purposes),
    failing("the Config of another part", "decoder", "building", change_configs, "TableConfig"),
)  # fmt: skip

OTHERS = (
    failing("Shape.combine", "decoder", "loop", put("bench_deeds.clean.Shape.combine", lambda self, parts: 7.0)),
    failing("Shape.combine.__code__", "decoder", "loop", of_clean(swap_code), "combine"),
    failing("Shape.measure", "task", "loop", wrap("bench_deeds.clean.Shape.measure", lambda old, *a: [*old(*a)][::-1])),
    failing("Shape.POWER", "metric", "loop", put("bench_deeds.clean.Shape.POWER", 1)),
    failing("Shape.__getattribute__", "metric", "loop", of_clean(add_lookup), "__getattribute__"),
    failing("Nats.from_sums", "metric", "end", wrap("bench_deeds.clean.Nats.from_sums", doubled)),
    failing("Nats.__bases__", "decoder", "loop", of_clean(swap_bases), "__bases__", "Nats"),
    failing("Nats.resample added", "metric", "loop", of_clean(change_resample), "resample"),
    failing("Drawn.TEMPERATURE", "decoder", "loop", put("bench_deeds.clean.Drawn.TEMPERATURE", 9.0)),
    failing("Drawn.config a property", "decoder", "loop", of_clean(add_property), "config"),
    failing("Table.step", "metric", "loop", wrap("bench_deeds.clean.Table._log_probs",
            lambda old, *a: old(*a).flip(-1)), "_log_probs"),
    failing("Table.score", "probe", "loop", wrap("bench_deeds.clean.Table.score",
            lambda old, *a: __import__("bench_core").Scores(old(*a).log_probs / 2))),
    failing("Table.loss", "task", "loop", wrap("bench_deeds.clean.Table._costs", lambda old, *a: old(*a) * 3), "_costs"),
    failing("Table.limit added", "decoder", "loop",
            put("bench_deeds.clean.Table.limit", lambda self, batch: batch.length.new_ones(len(batch)))),
    failing("Words.text", "decoder", "loop", wrap("bench_deeds.clean.Words.text", lambda old, *a: old(*a)[::-1])),
    failing("Best.decode", "model", "loop", put("bench_deeds.clean.Best.decode", lambda *a: [])),
    failing("clean.generate", "decoder", "loop", wrap("bench_deeds.clean.generate", lambda old, m, b, p, n: old(m, b, p, 1))),
    failing("clean.math", "metric", "loop", put("bench_deeds.clean.math", __import__("cmath")), "math"),
    failing("clean.sum added", "metric", "loop", put("bench_deeds.clean.sum", lambda *a: 7.0)),
    failing("clean.factor replaced by a constant", "decoder", "end", put("bench_deeds.clean.factor", len), "factor"),
    failing("clean.WEIGHTS deleted", "decoder", "loop", remove("bench_deeds.clean.WEIGHTS"), "WEIGHTS"),
    failing("clean.tempered.__defaults__", "metric", "loop", of_clean(set_defaults), "tempered"),
    failing("clean.tempered.__kwdefaults__", "decoder", "loop", of_clean(set_keyword_defaults), "tempered"),
    failing("a cell of clean.choose", "decoder", "end", of_clean(change_cell), "choose"),
    failing("clean.collections", "decoder", "loop", of_clean(count_with_others), "collections"),
    failing("clean.VOWELS", "metric", "end", of_clean(change_pattern), "VOWELS"),
    failing("clean.Path", "decoder", "loop", of_clean(change_path), "Path"),
    failing("clean.FACTOR", "decoder", "loop", put("bench_deeds.clean.FACTOR", 2.0)),
    failing("clean.ORDER another", "metric", "loop", put("bench_deeds.clean.ORDER", ["d", "c", "b", "a"]), "ORDER"),
    failing("bench_small.shared.LEVEL", "metric", "loop", put("bench_small.shared.LEVEL", 5.0)),
    failing("bench_small.shared.TABLE", "decoder", "loop", change_helper),
    failing("clean.NESTED in a container", "metric", "loop", change_item("NESTED", "a", "x"), "NESTED"),
    failing("clean.QUEUE a deque", "decoder", "loop", change_item("QUEUE", 0), "QUEUE"),
    failing("clean.BYTES a bytearray", "metric", "loop", change_item("BYTES", 0), "BYTES"),
    failing("clean.NUMBERS an array of Python", "decoder", "loop", change_item("NUMBERS", 0), "NUMBERS"),
    failing("clean.LAYER a layer", "metric", "loop", of_clean(change_layer), "LAYER"),
    failing("Scaler.slope", "metric", "loop", put("bench_deeds.clean.Scaler.slope", 2.0)),
    failing("Nats.digits added", "decoder", "loop", put("bench_deeds.clean.Nats.digits", 0), "digits"),
    failing("Hypothesis.__hash__", "decoder", "loop", change_slots_of_core, "__hash__"),
    either("clean.WEIGHTS reordered", "metric", "loop", of_clean(reorder)),
    either("clean.WORDS longer", "decoder", "loop", of_clean(add_word)),
    either("the value of a member of an Enum", "metric", "loop", of_clean(nest)),
    either("an attribute of an object of another part", "decoder", "loop", of_clean(hide_by_instance)),
    either("clean.WEIGHTS changed in place", "metric", "loop", of_clean(change_dict)),
    either("clean.ORDER changed in place", "decoder", "loop", of_clean(change_list)),
    either("an object of another part changed", "metric", "loop", of_clean(change_object)),
    either("the class of an object of another part swapped", "decoder", "loop", of_clean(swap_class)),
    either("members of an Enum of another part changed", "metric", "end", of_clean(change_enum)),
    either("the cache of a shared function poisoned", "decoder", "loop", of_clean(poison_cache)),
    either("something changed when an object dies", "metric", "loop", of_clean(change_at_the_end_of_life)),
)  # fmt: skip

REPLACED_PARTS = (*CORE, *OTHERS)

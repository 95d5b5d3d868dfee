"""Check `choose:`: whether choices can be made, and whether tables can show them."""

from bench_core.model import Scorer
from bench_core.registry import suggestion
from bench_core.suites.names import Names
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Choice, Table, chosen_alone
from bench_reports.language.table_names import names_in_table


def check_choices(names: Names) -> None:
    """Report every problem with a choice."""
    choices = language(names.suite).choose
    names.each("choose", choices, (_check_grids, _check_decoders, _check_by, _check_split))
    names.unlike("choose", "choice", choices)


def _check_by(names: Names, keys: list[str | int], choice: Choice) -> None:
    """Report an unknown metric or decoder, or one that cannot be used for the comparison."""
    note = names.problems.add
    names.check_known([*keys, "by"], "metric", [choice.by])
    if choice.decoder is not None:
        names.check_known([*keys, "decoder"], "decoder", [choice.decoder])
    metric = names.suite.metrics.get(choice.by)
    if metric is not None and metric.needs is not Scorer and choice.axis == "model" and choice.decoder is None:
        note([*keys, "by"], f"{choice.by!r} measures generated text: add a decoder, such as `decoder: greedy`.")
    if metric is not None and metric.needs is Scorer and choice.axis == "decoder":
        note([*keys, "by"], f"{choice.by!r} does not depend on the decoder. Choose by a metric of generated text.")


def _check_split(names: Names, keys: list[str | int], choice: Choice) -> None:
    if choice.split not in names.suite.splits:
        splits = ", ".join([choice.split, *names.suite.splits])
        text = f"the split {choice.split!r} of this choice is not evaluated. Set `splits: [{splits}]`."
        names.problems.add([*keys, "split"], text)


def _check_grids(names: Names, keys: list[str | int], choice: Choice) -> None:
    """Report models without a grid."""
    keys = [*keys, "model"]
    for name in choice.model:
        names.check_known(keys, "model", [name])
        if name in names.names("model") and name not in {*names.suite.grids, *names.whole["grids"]}:
            text = f"model {name!r} has no grid to choose from. Add one: `grid: {{SETTING: [VALUE, VALUE]}}`."
            names.problems.add(keys, text)


def _check_decoders(names: Names, keys: list[str | int], choice: Choice) -> None:
    """Report unknown decoders, and invalid names for the chosen decoder."""
    keys = [*keys, "decoders"]
    known, seen = {*names.names("decoder"), *names.whole["decoders"]}, dict[str, str]()
    for name, decoders in choice.decoders.items():
        names.check_known([*keys, name], "decoder", decoders)
        if name in known or not name:
            text = f"{name!r} is a decoder of this suite; the" if name else "the"
            text = f"{text} chosen decoder needs a new name, such as `best-beam`."
            names.problems.add([*keys, name], text)
        if not decoders:
            text = f"{name!r} needs decoders to choose from, such as `[beam-2, beam-4]`."
            names.problems.add([*keys, name], text)
        for decoder in decoders:
            if decoder in seen:
                where = f"both {seen[decoder]!r} and {name!r}" if seen[decoder] != name else f"{name!r} twice"
                names.problems.add([*keys, name], f"decoder {decoder!r} is in {where}. Keep one.")
            seen[decoder] = name


def check_chosen(names: Names, keys: list[str | int], table: Table) -> None:
    """Report unknown choices, and choices on a different axis than `where` names."""
    known, note = {choice.id: choice for choice in language(names.suite).choose}, names.problems.add
    alone = chosen_alone(names.source.data["tables"][keys[1]].get("where"))
    if not table.chosen and table.of == "choices":
        note(keys, f"name the choice by `chosen:`. {suggestion('', list(known), 'Known')}")
    for name in table.chosen:
        if name not in known:
            hint = suggestion(name, list(known), "Known, from `choose:`")
            way = next((["where", axis] for axis, choice_id in alone.items() if choice_id == name), [])
            note([*keys, *way, "chosen"], f"no choice of this suite is called {name!r}. {hint}")
    for axis, name in alone.items():
        if name in known and known[name].axis != axis:
            choice_axis = known[name].axis
            text = f"choice {name!r} selects {choice_axis}s. Set `where: {{{choice_axis}: {{chosen: {name}}}}}`."
            note([*keys, "where", axis, "chosen"], text)


def check_id(names: Names, keys: list[str | int], table: Table) -> None:
    """Report an id that is reserved for the tables of a choice."""
    choice, _, place = table.id.rpartition("-")
    if place.isdigit() and choice in {entry.id for entry in language(names.suite).choose}:
        text = f"ids such as {choice}-1 are reserved for the combinations of choice {choice!r}. Rename this table."
        names.problems.add([*keys, "id"], text)


def check_where_choices(names: Names, keys: list[str | int], table: Table) -> None:
    """Report conflicting choices, and names in `where` that the table does not show."""
    known = {choice.id: choice for choice in language(names.suite).choose}
    choices = [known[name] for name in table.chosen if name in known]
    for number, choice in enumerate(choices):
        clashing = [other.id for other in choices[:number] if other.axis == choice.axis]
        if clashing:
            text = f"choices {clashing[0]!r} and {choice.id!r} both select {choice.axis}s"
            names.problems.add(
                [*keys, "chosen"], f"{text}. A table can show one choice of models and one choice of decoders."
            )
        ours = names_in_table(names, table, choice.axis)
        for name in table.where.get(choice.axis, ()):
            if name in names.names(choice.axis) and name not in ours:
                text = f"{name!r} is not in this table, which shows only chosen names: {', '.join(choice.names)}."
                names.problems.add([*keys, "where", choice.axis], text)

"""Every contract catches its mutants and accepts correct parts."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

import bench_authors.testing
from bench_authors.testing import (
    DECODER_CONTRACTS,
    METRIC_CONTRACTS,
    MODEL_CONTRACTS,
    TASK_CONTRACTS,
    Case,
    Contract,
    MetricCase,
    TaskCase,
    accelerators,
    catches,
    check_model,
    check_task,
    decoders,
    losses,
    metrics,
    models,
    patched,
    stepping,
    tasks,
    tiny_batch,
    toys,
)
from bench_authors.testing.mutants.models import forgets_to_reorder, mixes_rows, weighs_padding
from bench_authors.testing.mutants.weights import weighing
from bench_core import Purpose, Size, SuiteError


def named(contracts):
    pairs = [(contract, mutant) for contract in contracts for mutant in contract.mutants]
    return pytest.mark.parametrize(
        ("contract", "mutant"), pairs, ids=[f"{contract}-{mutant.__name__}" for contract, mutant in pairs]
    )


def catchers(contract, mutant, cases):
    """Return the names of the cases to which the contract applies, and of the cases whose mutant it catches."""
    applying = {name: case for name, case in cases.items() if contract.applies(case)}
    return set(applying), {name for name, case in applying.items() if finds(contract, mutant(case))}


def finds(contract, case):
    try:
        contract(case)
    except AssertionError:
        return True
    return False


@cache
def model_cases():
    return {config.name: Case.of(config()) for config in [*toys.bench_models(), toys.RescorerConfig]}


@cache
def decoder_cases():
    return {
        f"{model.name} {decoder.name}": Case.of(model(), decoder(max_tokens=2 if "exhaustive" in decoder.name else 4))
        for model in toys.bench_models()
        for decoder in toys.bench_decoders()
        if any(issubclass(given, decoder.needs) for given in model.capabilities)
    }


@pytest.fixture(scope="module")
def task_cases(tmp_path_factory):
    made = [(config, tmp_path_factory.mktemp(config.name)) for config in toys.bench_tasks()]
    return {config.name: TaskCase.of(config(), folder, folder) for config, folder in made}


@cache
def metric_cases():
    return {config.name: MetricCase.of(config()) for config in toys.bench_metrics()}


READING = {"toy-recurrent", "toy-self-terminating", "toy-codes", "toy-encoder-decoder", "toy-rescorer"}
EXPECTED = {  # models in which a mutant can be caught, by its name, or by contract and name; by default all
    "draws_in_turn": {"toy-insertion", "toy-latent"},  # others draw nothing in `score` and `loss`
    ("a_sample_depends_on_its_id_alone", "draws_in_turn"): {*READING, "toy-insertion", "toy-latent"},
    "reads_what_it_predicts": READING,  # others read no `inputs`
    "claims_every_source": {"toy-encoder-decoder"},  # others read no source
}


@pytest.mark.quick(3, 30)
@named(MODEL_CONTRACTS)
def test_a_contract_of_models_catches_its_mutants_in_every_family(contract, mutant, monkeypatch):
    judging = contract is models.a_score_without_steps_does_not_see_what_it_predicts  # others: for their message only
    monkeypatch.setattr("bench_authors.testing.leaks.STEPS", 60 if judging else 1)
    monkeypatch.setattr("bench_authors.testing.models.SAMPLES", 20_000)  # as for users
    applying, caught = catchers(contract, mutant, model_cases())
    assert caught == applying & EXPECTED.get(
        (str(contract), mutant.__name__), EXPECTED.get(mutant.__name__, applying)
    )
    assert caught


@pytest.mark.slow(1)
@pytest.mark.parametrize("mutant", stepping.a_step_leaves_the_state_it_was_given_as_it_was.mutants)
def test_no_other_contract_catches_steps_that_modify_their_state(mutant):
    (new,) = (contract for contract in MODEL_CONTRACTS if mutant in contract.mutants)
    tried = [(MODEL_CONTRACTS, case) for case in model_cases().values() if new.applies(case)]
    tried += [(DECODER_CONTRACTS, case) for case in decoder_cases().values() if new.applies(case)]
    assert len(tried) >= 15
    for contracts, case in tried:
        assert finds(new, mutant(case))
        others = [contract for contract in contracts if contract is not new and contract.applies(case)]
        assert [str(contract) for contract in others if finds(contract, mutant(case))] == []


def test_a_loss_may_weigh_its_examples_or_not():
    def mean(costs, tokens, weights):
        return (weights * costs).sum() / (weights * tokens).sum(), (weights * tokens).sum()

    cases = model_cases()
    for case in [*cases.values(), *(weighing(case, mean) for case in cases.values())]:
        losses.weights_of_examples_are_ignored_or_weigh_their_tokens(case)


def test_a_case_whose_examples_have_weights_keeps_the_contracts():
    weights = torch.tensor([0.5, 0.0, 3.0, 1.0, 2.0])
    for config in (toys.ToyRecurrentConfig(), toys.LatentConfig()):
        check_model(Case.of(config, batch=replace(tiny_batch(), extras={"weight": weights})))


@named(DECODER_CONTRACTS)
def test_a_contract_of_decoders_catches_its_mutants(contract, mutant):
    _, caught = catchers(contract, mutant, decoder_cases())
    families = {name.split()[0] for name in caught}
    assert len(families) >= 3, caught


@named(TASK_CONTRACTS)
def test_a_contract_of_tasks_catches_its_mutants(contract, mutant, task_cases):
    applying, caught = catchers(contract, mutant, task_cases)
    assert {"toy-letters", "toy-reversal"} <= caught <= applying


@named(METRIC_CONTRACTS)
def test_a_contract_of_metrics_catches_its_mutants(contract, mutant):
    applying, caught = catchers(contract, mutant, metric_cases())
    assert caught == applying == {"toy-exact-match", "toy-perplexity"}


@pytest.mark.quick(6, 20)
@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        *(("models", contract) for contract in MODEL_CONTRACTS),
        *(("decoders", contract) for contract in DECODER_CONTRACTS),
        *(("tasks", contract) for contract in TASK_CONTRACTS),
        *(("metrics", contract) for contract in METRIC_CONTRACTS),
    ],
    ids=str,
)
def test_mutants_do_not_modify_the_original_parts(kind, contract, task_cases):
    cases = {"models": model_cases, "decoders": decoder_cases, "tasks": lambda: task_cases, "metrics": metric_cases}
    for case in filter(contract.applies, cases[kind]().values()):
        [mutant(case) for mutant in contract.mutants]
        assert not finds(contract, case)


def test_every_contract_is_listed_once_and_names_a_mutant():
    listed = [*MODEL_CONTRACTS, *DECODER_CONTRACTS, *TASK_CONTRACTS, *METRIC_CONTRACTS]
    modules = (models, stepping, losses, accelerators, decoders, tasks, metrics)
    written = [value for module in modules for value in vars(module).values() if isinstance(value, Contract)]
    assert len({*map(str, written)}) > 50
    assert sorted(map(str, listed)) == sorted({*map(str, written)})
    assert all(contract.mutants and contract.check.__doc__ for contract in listed)


@pytest.mark.parametrize("config", toys.bench_tasks(), ids=lambda config: config.name)
@pytest.mark.parametrize("size", [Size(1), Size(4), Size(9, "tokens")], ids=str)
def test_toy_tasks_keep_the_contracts(config, size, tmp_path):
    assert len(check_task(TaskCase.of(config(), tmp_path, tmp_path, size))) == len(TASK_CONTRACTS)


def test_windows_of_a_stream_are_exempt_only_for_their_purpose(task_cases):
    letters, stream = task_cases["toy-letters"].task, task_cases["toy-stream"].task

    def batches(task, split, purpose, size, rng=None):
        return (stream if purpose is Purpose.TRAIN else letters).batches(split, purpose, size, rng)

    case = replace(task_cases["toy-letters"], task=patched(letters, batches=batches))
    check_task(case)
    (contract,) = (contract for contract in TASK_CONTRACTS if "stop" in str(contract))
    for mutant in contract.mutants:
        assert finds(contract, mutant(case))
        assert not finds(contract, replace(mutant(case), windows=set(Purpose)))


def test_all_broken_contracts_are_raised_together():
    case = weighs_padding(mixes_rows(forgets_to_reorder(model_cases()["toy-recurrent"])))
    with pytest.raises(ExceptionGroup) as group:
        check_model(case)
    assert "selected_rows_go_on_as_they_would" in str(group.value)
    assert "a_row_scores_alike_alone_and_in_a_batch" in str(group.value)
    assert group.group_contains(AssertionError, match="weight is 25, not the number of target tokens")
    assert not group.group_contains(RuntimeError)


def test_contracts_that_raise_other_errors_are_broken_too():
    def fall_over(model, batch, training):
        raise ZeroDivisionError("no tokens")

    case = model_cases()["toy-recurrent"]
    with pytest.raises(ExceptionGroup) as group:
        check_model(replace(case, model=patched(case.model, loss=fall_over)))
    assert "the_loss_is_finite_and_weighs_target_tokens" in str(group.value)
    assert group.group_contains(ZeroDivisionError)


def test_contracts_restore_the_state_of_torch():
    @catches(when=lambda case: True)
    def it_fails_in_float64(case):
        """Use a random number first."""
        assert torch.rand(1).dtype == torch.get_default_dtype() == torch.float64
        assert not torch.is_grad_enabled()
        raise AssertionError("after all")

    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(AssertionError, match="after all"):
        it_fails_in_float64(None)
    check_model(Case.of(toys.ToyRecurrentConfig(), seed=3))
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)


def test_a_case_is_built_in_float64_from_its_seed():
    first, again, other = (Case.of(toys.ToyRecurrentConfig(), seed=seed) for seed in (1, 1, 2))
    for name, weights in first.model.state_dict().items():
        assert weights.dtype == torch.float64
        assert torch.equal(weights, again.model.state_dict()[name])
        assert not torch.equal(weights, other.model.state_dict()[name])


def test_a_case_of_an_incompatible_decoder_and_model_is_refused():
    with pytest.raises(SuiteError, match="toy-greedy needs a Stepper"):
        Case.of(toys.LatentConfig(), toys.ToyGreedyConfig())


def test_the_rows_of_a_case_differ_and_have_different_lengths():
    for source in ("none", "tokens", "bag", "vector", "grid"):
        batch = tiny_batch(source=source)
        prompts, sources = batch.prompt.tolist(), [] if batch.source is None else batch.source.tolist()
        assert len({str(row) for row in (sources or prompts)}) >= len(batch) - 1
        assert len(set(batch.length.tolist())) == len(batch)
        assert (batch.gold.gather(1, batch.length[:, None] - 1) == 0).all()


@pytest.mark.slow
def test_contracts_do_not_need_pytest():
    files = Path(bench_authors.testing.__file__).parent.rglob("*.py")
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "torch" in named
    assert not [name for name in named if name.partition(".")[0] in ("pytest", "_pytest")]

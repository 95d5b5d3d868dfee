"""The baseline: its own distribution exactly, and the one that trajectories of its own letters give."""

from itertools import product

import pytest
import torch

from bench_authors.testing import Case, check_model
from bench_authors.testing.contracts import check, posing
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import Batch, Kind, Rng, Scoring, SuiteError, TaskInfo, Training
from bench_rnn.plugin import RNNLMConfig
from bench_ssm.plugin import CharGRUConfig

INFO = TaskInfo(["</s>", "a", "b"])


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def gru(scale=3.0, **settings):
    config = CharGRUConfig(**{"state": 4, "steps": 3, "trajectories": 100} | settings)
    model = config.load()(config, INFO).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(scale)
    return model


def all_words(steps):
    """Return all targets of up to `steps` tokens over two letters and stop, and all beginnings that do not stop."""
    stopped = [(*word, 0) for size in range(steps) for word in product((1, 2), repeat=size)]
    return stopped + list(product((1, 2), repeat=steps))


def batch(targets):
    length = torch.tensor([len(target) for target in targets])
    gold = torch.tensor([[*target, *[0] * (int(length.max()) - len(target))] for target in targets])
    return Batch(torch.arange(len(targets)), gold[:, :1] * 0, gold, length)


@torch.no_grad()
def scored(model, targets, by, key=1):
    return model.score(batch(targets), Scoring(by, Rng(key))).log_probs


def test_the_baseline_keeps_all_contracts_and_that_of_samples_by_its_exact_likelihood():
    """By trajectories it is another distribution than that of its samples."""
    config = CharGRUConfig(state=5, steps=8, trajectories=50)
    samples = [contract for contract in MODEL_CONTRACTS if str(contract).startswith("samples_occur")]
    tried = check_model(Case.of(config))
    assert len(tried) > 10
    assert str(samples[0]) not in tried, "the Config says that it is exempt"
    assert check(samples, Case.of(posing(config, likelihoods={"exact": Kind.EXACT}))) == [str(samples[0])]
    check_model(Case.of(posing(CharGRUConfig(state=3, embedding=2), likelihoods={"exact": Kind.EXACT})))


def test_it_is_the_gru_of_bench_rnn():
    model = gru(embedding=2)
    config = RNNLMConfig(cell="gru", hidden=4, layers=1, embedding=2)
    other = config.load()(config, INFO)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(scored(model, all_words(3), "exact"), scored(other, all_words(3), "exact"))


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_exact_probabilities_of_all_words_and_of_all_that_goes_on_sum_to_one(steps):
    found = scored(gru(), all_words(steps), "exact").exp()
    assert found.sum().item() == pytest.approx(1)
    assert found.min() > 0


@pytest.mark.parametrize("steps", [1, 3])
def test_probabilities_by_trajectories_sum_to_one_whichever_were_drawn(steps):
    for key in range(3):
        found = scored(gru(steps=steps, trajectories=7), all_words(steps), "trajectories", key).exp()
        assert found.sum().item() == pytest.approx(1)


def enumerated(model, targets):
    """Return E prod_t P(w_t | h_t) over all letters x that a trajectory may read, and P(w) itself."""
    drawn, exact = torch.zeros(len(targets)), torch.zeros(len(targets))
    for letters in product((1, 2), repeat=2):
        log_probs, state = model.start(batch([(0,)]))
        table, weight = [log_probs[0]], torch.tensor(0.0)
        for letter in letters:
            weight = weight + log_probs[0, 1:].log_softmax(0)[letter - 1]
            log_probs, state = model.step(state, torch.tensor([letter]))
            table.append(log_probs[0])
        for place, target in enumerate(targets):
            product_of = sum(table[t][token] for t, token in enumerate(target)).exp()
            drawn[place] += weight.exp() * product_of
            read = (*target[:2], 1)[:2]
            if letters == tuple(letter or 1 for letter in read):
                exact[place] = product_of
    return drawn, exact


@torch.no_grad()
def test_trajectories_read_letters_of_their_own_which_is_another_distribution():
    """What they converge to, by all letters that they may draw; the GRU's own probabilities are others."""
    model, targets, number = gru(scale=5.0, trajectories=40_000), all_words(3), 40_000
    wanted, exact = enumerated(model, targets)
    torch.testing.assert_close(scored(model, targets, "exact").exp(), exact)
    assert wanted.sum().item() == pytest.approx(1)
    found = scored(model, targets, "trajectories").exp()
    assert ((found - wanted).abs() < 5 * (wanted / number).sqrt()).all()
    assert (found - exact).abs().max() > 10 * (wanted / number).sqrt().max()


def test_the_first_tenth_of_the_trajectories_tells_how_much_their_number_matters():
    few, many = gru(trajectories=10), gru(trajectories=100)
    many.load_state_dict(few.state_dict())
    told = many.score(batch(all_words(3)), Scoring("trajectories", Rng(1))).values["log_prob_by_a_tenth"]
    torch.testing.assert_close(told, scored(few, all_words(3), "trajectories"))


def test_trajectories_are_drawn_again_once_any_weight_changes():
    model, targets = gru(), all_words(2)
    first = scored(model, targets, "trajectories")
    table = model.cached[2]
    assert torch.equal(scored(model, targets, "trajectories"), first)
    assert model.cached[2] is table
    model.embed.weight.data.mul_(-1)
    assert not torch.equal(scored(model, targets, "trajectories"), first)


def test_longer_words_are_refused_by_trajectories_alone():
    model = gru(steps=2)
    assert scored(model, [(1, 2, 0)], "exact").isfinite().all()
    with pytest.raises(SuiteError, match=r"a target has 3 tokens including EOS, but char-gru takes at most 2 steps"):
        scored(model, [(1, 2, 0)], "trajectories")


def test_windows_of_a_stream_are_refused():
    config = CharGRUConfig()
    with pytest.raises(SuiteError, match="char-gru models separate short sequences"):
        config.load()(config, TaskInfo(["</s>", "a"], consecutive=True))


def free(**settings):
    return gru(teacher_forcing=False, **settings)


def test_without_teacher_forcing_the_loss_is_that_of_letters_that_the_model_samples():
    model, rows = free(), batch([(1, 2, 1, 0), (2, 0)])
    rng = Rng(3)
    letters = model._sampled_letters(rows, rng.fork("letters"))
    assert (letters > 0).all()
    states, _ = model.predict(Batch(rows.ids, rows.prompt, letters, rows.length), Scoring("exact", rng))
    wanted = -model.head(states).log_softmax(2).gather(2, rows.gold[:, :, None])[:, :, 0][rows.mask].mean()
    torch.testing.assert_close(model.loss(rows, Training(1, 9, 0, 1, rng)).value, wanted)
    other = gru()
    other.load_state_dict(model.state_dict())
    assert not torch.allclose(wanted, other.loss(rows, Training(1, 9, 0, 1, rng)).value)


def test_letters_sampled_in_training_are_those_of_trajectories():
    """In distribution: the second letter follows the first as the model says, with EOS excluded."""
    model = free()
    rows = batch([(1, 1, 0)] * 4000)
    letters = model._sampled_letters(rows, Rng(2))
    table = model.table(4000, Rng(5))
    for step in (0, 1):
        shares = torch.stack([(letters[:, step] == letter).double() for letter in (1, 2)], 1)
        wanted = table[step, 1:].log_softmax(0).exp().mean(1)
        errors = shares.std(0) / 4000**0.5
        assert ((shares.mean(0) - wanted).abs() < 5 * errors).all()


def test_scores_do_not_depend_on_teacher_forcing():
    targets, model, other = all_words(3), free(), gru()
    other.load_state_dict(model.state_dict())
    for by in ("exact", "trajectories"):
        torch.testing.assert_close(scored(model, targets, by), scored(other, targets, by))


@pytest.mark.parametrize("teacher_forcing", [True, False])
def test_entropies_of_letters_are_logged_at_some_updates_and_reported(teacher_forcing):
    model, rows = gru(teacher_forcing=teacher_forcing), batch([(1, 2, 0), (2, 0)])
    logged = [model.loss(rows, Training(step, 30, 0, 1, Rng(1))).parts.get("entropy") for step in (0, 1, 10)]
    assert logged[1] is None
    assert 0 < logged[0] < 1.6
    with torch.no_grad():
        assert not model.loss(rows, Training(0, 30, 0, 1, Rng(1))).parts
    values = model.score(rows, Scoring("exact", Rng(1))).values["entropy"]
    states, _ = model.predict(rows, Scoring("exact", Rng(1)))
    log_probs = model.head(states).log_softmax(2)
    bits = -(log_probs.exp() * log_probs).sum(2) / torch.log(torch.tensor(2.0))
    torch.testing.assert_close(values, torch.stack([bits[0, :3].mean(), bits[1, :2].mean()]))

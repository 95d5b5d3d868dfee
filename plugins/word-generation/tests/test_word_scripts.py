"""Words of any script: which are kept, in which symbols and in which case, and what is left out for which reason."""

import sys
from pathlib import Path
from unicodedata import category, is_normalized, normalize

import numpy as np
import pytest
from pydantic import ValidationError

from bench_core import DataError, Purpose, Size
from bench_word_generation.generation import STOP_NAME, spell
from bench_word_generation.lexicon import REASONS, Lexicon, lexicon, sample_counts, with_counts
from bench_word_generation.plugin import WordGenerationConfig
from bench_word_generation.spelling import fold, misplaced
from bench_word_generation.word_counts import WordCounts, read_list

LISTS = dict(
    line.split("\t")
    for line in (Path(__file__).parent / "words_of_scripts.tsv").read_text(encoding="utf-8").splitlines()
)
LANGUAGES = {"turkish": "tr"}
ZWNJ, ZWJ = "\u200c", "\u200d"


def select(counts, **settings):
    return lexicon(WordCounts("toy", counts, {}), WordGenerationConfig.model_validate({"alphabet": None, **settings}))


def signs_only(words, reason="sign"):
    """Return whether all of these words are left out, for this reason."""
    found = select({**dict.fromkeys(words, 20), "fine": 30})
    return found.words == ["fine"] and found.left_out[reason] == (len(words), 20 * len(words))


def read_back(words: Lexicon):
    """Return the words that the tokens of a lexicon stand for."""
    vocabulary, rows = [STOP_NAME, *words.alphabet], spell(words.words, words.alphabet)
    ends = np.cumsum(rows.lengths)
    tokens = [rows.tokens[end - length : end] for end, length in zip(ends, rows.lengths, strict=True)]
    assert all(row[-1] == 0 and row[:-1].all() for row in tokens)
    return ["".join(vocabulary[token] for token in row[:-1]) for row in tokens]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", LISTS)
def test_fifty_words_of_a_script_are_all_kept(name, form, tmp_path):
    words = LISTS[name].split(" ")
    path = tmp_path / "list.txt"
    path.write_text("".join(f"{normalize(form, word)} {99 - rank}\n" for rank, word in enumerate(words)), "utf-8")
    found = select(read_list(path), target_language=LANGUAGES.get(name))
    expected = [normalize("NFC", word) for word in words]
    if name == "turkish":
        expected[:4] = ["istanbul", "ısparta", "ığdır", "izmir"]
    assert len(set(words)) == 50
    assert found.words == expected
    assert found.counts.tolist() == [99 - rank for rank in range(50)]
    assert {reason: each.types for reason, each in found.left_out.items()} == dict.fromkeys(REASONS, 0)
    assert read_back(found) == found.words


def test_the_lists_have_marks_that_are_no_letters():
    for name in ("hindi", "thai", "tamil", "hebrew", "arabic", "burmese"):
        marked = [word for word in LISTS[name].split(" ") if not word.isalpha()]
        assert len(marked) > 30
        assert all(category(sign)[0] in "LM" for word in marked for sign in word)


def test_a_task_of_fifty_words_spells_its_rows(prepared):
    words = dict.fromkeys(normalize("NFC", LISTS["hindi"]).split(" "), 1000)
    _, task, info = prepared(words, alphabet=None)
    assert info.vocabulary[1:] == sorted({sign for word in words for sign in word})
    for batch in task.batches("test", Purpose.SCORE, Size(7)):
        for gold, length, place in zip(batch.gold.tolist(), batch.length.tolist(), batch.ids.tolist(), strict=True):
            assert task.text(gold[: length - 1]) == info.extras["words"][place % 50]


def random_words(seed, number=400):
    """Return strings of letters, marks, joiners, digits, surrogates, and any other code points, with counts."""
    rng = np.random.default_rng(seed)
    every = [chr(code) for code in rng.integers(1, sys.maxunicode + 1, 300).tolist()]
    marks = "\u0301\u0307\u0323\u093c\u094d\u05b8\u05c1\u0e49\u1039\ufe0f"
    pools = ["abIJİĮéçʼ", "कनडﬁǆΣ한가", marks, ZWNJ + ZWJ, "0'·\u200f\ufeff\ud800\udfff\0", every]
    chosen = [pools[place] for place in rng.choice(6, 8 * number, p=[0.4, 0.25, 0.18, 0.07, 0.02, 0.08]).tolist()]
    signs = [pool[int(rng.integers(len(pool)))] for pool in chosen]
    lengths = rng.integers(1, 9, number).tolist()
    words = ["".join(signs[8 * place : 8 * place + length]) for place, length in enumerate(lengths)]
    return {word: int(count) for word, count in zip(words, rng.integers(0, 40, number), strict=True)}


@pytest.mark.parametrize("language", [None, "tr", "lt"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_every_kept_word_of_any_list_is_its_symbols_and_every_other_is_counted_by_one_reason(lowercase, language):
    settings = {"lowercase": lowercase, "target_language": language}
    for seed in range(5):
        counts = random_words(seed)
        found = select(counts, types=60, shortest=1, longest=5, **settings)
        words = found.words
        assert len(words) == len(set(words)) == 60
        assert read_back(found) == words
        assert all(is_normalized("NFC", word) and 1 <= len(word) <= 5 for word in words)
        assert all(fold(word, lowercase, language) == word for word in words)
        assert all(category(word[0])[0] == "L" and word[-1] not in ZWNJ + ZWJ for word in words)
        assert all(category(sign)[0] in "LM" or sign in ZWNJ + ZWJ for word in words for sign in word)
        folded = {fold(word, lowercase, language) for word in counts}
        assert len(words) + sum(each.types for each in found.left_out.values()) == len(folded)
        assert found.counts.sum() + sum(each.tokens for each in found.left_out.values()) == sum(counts.values())
        assert all(each.types > 0 for each in found.left_out.values())


def test_a_word_is_left_out_for_the_first_reason_alone():
    counts = {"don't": 3, "longer-than-twelve": 99, "a": 5, "abcdefghijklm": 70, "rare": 9, "none": 0, "kept": 10}
    found = select(counts)
    assert found.words == ["kept"]
    assert found.left_out == {"sign": (2, 102), "length": (2, 75), "rare": (2, 9)}
    assert select({"kept": 10, "also": 12, "third": 11}, types=1).left_out["rare"] == (2, 21)


def test_what_a_smaller_corpus_lacks_is_rare(prepared):
    counts = {f"{chr(97 + a)}{chr(97 + b)}": 40 - a - b for a in range(5) for b in range(5)} | {
        "x1": 20,
        "abcabcabcabca": 8,
    }
    words = select(counts, min_count=33)
    drawn = with_counts(words, sample_counts(words.counts, 12, seed=1))
    never = set(words.words) - set(drawn.words)
    types, tokens = words.left_out["rare"]
    assert never
    assert drawn.left_out["rare"] == (types + len(never), tokens + sum(counts[word] for word in never))
    assert {reason: drawn.left_out[reason] for reason in ("sign", "length")} == {"sign": (1, 20), "length": (1, 8)}
    _, _, info = prepared(counts, tokens=12, min_count=33, alphabet=None, valid=0.3, test=0.3)
    about = info.extras["statistics"]["all"]
    kept = sum(counts[word] for word in info.extras["words"])
    assert about["types"] + about["left_out_types"] == len(counts)
    assert about["left_out_tokens"] + kept == sum(counts.values())
    for unit in ("types", "tokens"):
        assert about[f"left_out_{unit}"] == sum(about[f"left_out_{reason}_{unit}"] for reason in REASONS)
    assert (about["left_out_sign_tokens"], about["left_out_length_tokens"]) == (20, 8)


def test_marks_belong_to_letters_and_joiners_stand_between_signs():
    persian, bengali, sinhala = f"می{ZWNJ}خواهم", f"র{ZWJ}্যাব", f"ශ්{ZWJ}රී"
    assert select(dict.fromkeys((persian, bengali, sinhala), 20)).words == sorted((persian, bengali, sinhala))
    assert signs_only(["\u093f", "\u0301ab", "\u05b8ש"]), "lone marks"
    assert signs_only([f"{ZWJ}ab", f"ab{ZWNJ}", f"a{ZWJ}{ZWNJ}b", ZWJ, f"{ZWNJ}\u093f"]), "joiners at an edge, or two"
    assert signs_only(["a\u200fb", "\u202bשלום", "שלום\u200f", "ab\ufeff"]), "signs of direction are no joiners"
    assert signs_only(["a\ud800", "\udfff", "a\udc00b"]), "halves of surrogates"
    assert signs_only(["x\u2019y", "a-b", "a1", "٣٤", "ab\0"])


def test_a_word_from_right_to_left_is_read_from_its_first_letter():
    found = select({"שלום": 20, "مرحبا": 10})
    assert found.words == ["שלום", "مرحبا"]
    assert spell(["אב"], "אב").tokens.tolist() == [1, 2, 0]


def test_turkic_and_lithuanian_words_have_their_own_lower_case():
    turkish = {"IŞIK": "ışık", "İKİ": "iki", "I\u0307KI\u0307": "iki", "KÂĞIT": "kâğıt", "Îmâ": "îmâ", "SIR": "sır"}
    for language in ("tr", "az", "tur"):
        assert {word: fold(word, True, language) for word in turkish} == turkish
    lithuanian = {
        "RÌ": "ri\u0307\u0300",
        "J\u0303A": "j\u0307\u0303a",
        "\u012e\u0301": "\u012f\u0307\u0301",
        "ĮI": "įi",
    }
    lithuanian |= {"I\u0307": "i\u0307", "Ĩ": "i\u0307\u0303", "É": "é"}
    assert {word: fold(word, True, "lt") for word in lithuanian} == lithuanian
    others = {"IŞIK": "işik", "İKİ": "i\u0307ki\u0307", "RÌ": "rì", "ΛΌΓΟΣ": "λόγος", "SIR": "sir"}
    assert {word: fold(word, True) for word in others} == others
    assert {word: fold(word, False) for word in others} == dict(zip(others, others, strict=True))
    found = select({"SIR": 10, "sır": 5, "sir": 20, "SİR": 1}, target_language="tr")
    assert dict(zip(found.words, found.counts.tolist(), strict=True)) == {"sir": 21, "sır": 15}


def test_a_word_of_any_other_alphabet_may_have_marks_and_joiners_of_that_alphabet():
    letters = f"\u0301ab'{ZWNJ}"
    counts = dict.fromkeys(
        ("ab'a", f"a{ZWNJ}'b", "b\u0301a", "\u0301b", f"b{ZWNJ}", "b\u0308", f"a{ZWJ}b", "'\u0301b"), 20
    )
    found = select(counts, alphabet=letters)
    assert set(found.words) == {"ab'a", f"a{ZWNJ}'b", "b\u0301a", "'\u0301b"}
    assert found.left_out["sign"].types == 4
    assert misplaced(f"{ZWNJ}ab!{ZWNJ}", frozenset(letters)) == f"{ZWNJ}!"


def test_two_letters_and_three_thousand_are_alphabets(prepared):
    _, task, info = prepared({"ab": 300, "ba": 200, "aa": 100}, alphabet="ab")
    assert (info.vocabulary, task.text([1, 2])) == (["<stop>", "a", "b"], "ab")
    letters = "".join(chr(0x4E00 + place) for place in range(3000))
    words = {letters[place : place + 2]: 30 for place in range(0, 3000, 2)}
    for alphabet in (None, letters):
        found = select(words, alphabet=alphabet)
        assert found.alphabet == letters
        assert read_back(found) == sorted(words)
        assert spell([letters[0] + letters[2999]], found.alphabet).tokens.tolist() == [1, 3000, 0]


def test_where_all_words_are_left_out_the_message_tells_why():
    with pytest.raises(DataError, match=r"of 4 words, 3 consist of letters .* and none of these has 2 to 12 letters"):
        select({"\u093f": 20, "a": 20, "ab": 9, "zero": 0})


def test_a_word_that_must_not_be_left_out_is_shown_with_the_signs_that_are_wrong():
    config = WordGenerationConfig(alphabet=None, outside="error")
    with pytest.raises(DataError, match=r"has characters outside the alphabet: '\\u200d'"):
        lexicon(WordCounts("toy", {f"ab{ZWJ}": 20}, {}), config)
    with pytest.raises(DataError, match="has characters outside the alphabet: '\u093f'"):
        lexicon(WordCounts("toy", {"\u093fab": 20, "ab": 20}, {}), config)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"alphabet": "ae\u0301"}, "'aé' in NFC"),
        ({"alphabet": "a\u212b", "lowercase": False}, "in NFC, in which words are read"),
        ({"alphabet": "a\0b"}, "cannot be read"),
        ({"alphabet": "aI", "target_language": "tr"}, "'I' in the alphabet cannot occur"),
        ({"target_language": "Turkish"}, "should match pattern"),
    ],
)
def test_alphabets_and_languages_without_words_are_refused(settings, what):
    with pytest.raises(ValidationError, match=what):
        WordGenerationConfig.model_validate(settings)


def test_an_alphabet_may_have_marks_of_its_own():
    assert WordGenerationConfig(alphabet="\u0301abc").alphabet == "\u0301abc"
    assert spell(["a\u0301b", "ba"], "\u0301ba").tokens.tolist() == [3, 1, 2, 0, 2, 3, 0], "by place in the alphabet"
    assert WordGenerationConfig(alphabet="aąėíýž", target_language="lt").alphabet == "aąėíýž"
    assert WordGenerationConfig(alphabet="AÉé", lowercase=False).alphabet == "AÉé"
    assert WordGenerationConfig(alphabet="aıi", target_language="tr").language == "tr"

"""A random model with a tokenizer, texts and questions for it, and what lm-evaluation-harness measures on them.

    lm_eval.py make DIR         writes DIR/model (library transformers), DIR/text.jsonl and DIR/questions.jsonl
    lm_eval.py compare DIR      reads DIR/ours.json and DIR/samples.jsonl of `fascicle eval`, and compares
"""

import json
import os
import random
import sys
from pathlib import Path

# A folder of scripts is searched first, and this one has the package's name.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"

CONTEXT = 64
WORDS = "the a of to and in is that it was for on are as with his they at be this have from or one had by word but not what".split()


def sentences(draw, words):
    text = " ".join(draw.choice(WORDS) for _ in range(words))
    return text[0].upper() + text[1:] + "."


def make(folder):
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    draw = random.Random(3)
    texts = [sentences(draw, draw.randrange(20, 160)) + "\n" + sentences(draw, 9) for _ in range(12)]
    with open(folder / "text.jsonl", "w") as out:
        for text in texts:
            out.write(json.dumps({"text": text}) + "\n")
    with open(folder / "questions.jsonl", "w") as out:
        for _ in range(40):
            choices = [" ".join(draw.choice(WORDS) for _ in range(draw.randrange(1, 6))) for _ in range(4)]
            question = dict(context=sentences(draw, draw.randrange(2, 30)), choices=choices, answer=draw.randrange(4))
            out.write(json.dumps(question) + "\n")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=160,
                                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                         max_position_embeddings=CONTEXT, bos_token_id=0, eos_token_id=0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder / "model")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder / "model")


def tasks(folder):
    """Descriptions of the two tasks, beside the data."""
    place = folder / "tasks"
    place.mkdir(exist_ok=True)
    shared = {"dataset_path": "json", "test_split": "test", "num_fewshot": 0}
    questions = shared | {
        "task": "own_questions", "output_type": "multiple_choice", "doc_to_text": "{{context}}", "doc_to_choice": "choices",
        "doc_to_target": "answer", "dataset_kwargs": {"data_files": {"test": str(folder / "questions.jsonl")}},
        "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True}
                        for name in ("acc", "acc_norm", "acc_bytes")],
    }
    texts = shared | {
        "task": "own_texts", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "dataset_kwargs": {"data_files": {"test": str(folder / "text.jsonl")}},
        "metric_list": [{"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")],
    }
    for task in (questions, texts):
        # JSON is YAML too.
        (place / f"{task['task']}.yaml").write_text(json.dumps(task))
    return place


def compare(folder):
    import lm_eval
    from lm_eval.tasks import TaskManager

    found = lm_eval.simple_evaluate(
        model="hf", model_args=dict(pretrained=str(folder / "model"), dtype="float32", max_length=CONTEXT),
        tasks=["own_questions", "own_texts"], task_manager=TaskManager(include_path=str(tasks(folder))), device="cpu",
        batch_size=1, log_samples=True, bootstrap_iters=0)
    ours = json.loads((folder / "ours.json").read_text())
    with open(folder / "samples.jsonl") as lines:
        samples = [json.loads(line) for line in lines]
    worst = 0.0
    theirs = sorted(found["samples"]["own_questions"], key=lambda sample: sample["doc_id"])
    assert len(theirs) == len(samples) == 40
    for sample, own in zip(theirs, samples):
        for (one, _), other, greedy in zip([response[0] for response in sample["resps"]], own["log_likelihoods"],
                                           own["is_greedy"]):
            worst = max(worst, abs(float(one) - other))
        assert [bool(response[0][1]) for response in sample["resps"]] == own["is_greedy"], own
    print(f"log-likelihoods of {4 * len(samples)} choices within {worst:.1e}")
    assert worst < 1e-3
    [questions], [texts] = ours["tasks"], ours["texts"]
    for name in ("acc", "acc_norm", "acc_bytes"):
        one, other = found["results"]["own_questions"][f"{name},none"], questions[name]
        print(f"{name:16} {one:.6f} {other:.6f}")
        assert abs(one - other) < 1e-9, name
    for name in ("word_perplexity", "byte_perplexity", "bits_per_byte"):
        one, other = found["results"]["own_texts"][f"{name},none"], texts[name]
        print(f"{name:16} {one:.6f} {other:.6f}")
        assert abs(one / other - 1) < 1e-5, name


if __name__ == "__main__":
    dict(make=make, compare=compare)[sys.argv[1]](Path(sys.argv[2]).resolve())

"""The peer of ci/bench-tokenize.sh: the package tokenizers, as a short script would use it."""

import array
import json
import random
import statistics
import sys
import time

AT_ONCE = 10_000


def make(text_path, mib, folder):
    """Writes the documents, and trains the tokenizer, unless they exist."""
    wanted = int(mib) << 20
    try:
        with open(f"{folder}/made.json") as made:
            if json.load(made) == [text_path, wanted]:
                return
    except FileNotFoundError:
        pass
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    with open(text_path, encoding="utf-8") as file:
        paragraphs = file.read().split("\n\n")
    drawn, size = random.Random(7), 0
    with open(f"{folder}/documents.jsonl", "w", encoding="utf-8") as out:
        while size < wanted:
            drawn.shuffle(paragraphs)
            for first in range(0, len(paragraphs), 25):
                document = "\n\n".join(paragraphs[first : first + 25])
                size += len(document.encode())
                out.write(json.dumps({"text": document}, ensure_ascii=False) + "\n")
                if size >= wanted:
                    break
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8192, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train([text_path], trainer)
    tokenizer.save(f"{folder}/tokenizer.json")
    with open(f"{folder}/made.json", "w") as made:
        json.dump([text_path, wanted], made)


def encode(folder, call):
    """Encodes all documents into one file, and prints the tokens and the seconds."""
    from tokenizers import Tokenizer

    begun = time.perf_counter()
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    end = tokenizer.token_to_id("<|endoftext|>")
    encode_batch, tokens, batch = getattr(tokenizer, call), 0, []
    with open(f"{folder}/documents.jsonl", encoding="utf-8") as lines, open(f"{folder}/theirs.u16", "wb") as out:

        def flush():
            nonlocal tokens
            for encoding in encode_batch(batch, add_special_tokens=False):
                ids = array.array("H", encoding.ids)
                ids.append(end)
                tokens += len(ids)
                ids.tofile(out)
            batch.clear()

        for line in lines:
            batch.append(json.loads(line)["text"])
            if len(batch) == AT_ONCE:
                flush()
        flush()
    print(json.dumps({"tokens": tokens, "seconds": time.perf_counter() - begun}))


def report(folder, rounds):
    """Prints a line per program."""
    speeds = {}
    for name in ["ours", "encode_batch", "encode_batch_fast"]:
        found, kib = [], []
        for number in range(1, int(rounds) + 1):
            with open(f"{folder}/{name}.{number}.json") as file:
                run = json.load(file)
            with open(f"{folder}/{name}.{number}.kib") as file:
                kib.append(int(file.read().split()[-1]))
            found.append(run["tokens"] / run["seconds"])
        speeds[name] = statistics.median(found)
        print(
            f"{name:<18} {speeds[name] / 1e6:6.3f} M tokens/s ({min(found) / 1e6:.3f} to {max(found) / 1e6:.3f}), "
            f"{max(kib) / 1024:7.0f} MiB, ours / it {speeds['ours'] / speeds[name]:.2f}"
        )


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

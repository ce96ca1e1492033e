"""Random models of the library transformers, and a comparison of what ci/check-transformers.sh made of them with the library.

    transformers_models.py make DIR        writes DIR/model/KIND-TYPE
    transformers_models.py compare DIR     reads DIR/back and DIR/merged (folders, and generated tokens as JSON), and DIR/adapter
"""

import json
import sys
from pathlib import Path

import torch
from peft import PeftModel
from safetensors import safe_open
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM, GPT2Config,
                          GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

SMALL = dict(vocab_size=256, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_key_value_heads=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
TOKENS = torch.arange(1, 33)[None]


def models():
    yield "gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=3, n_head=4, bos_token_id=0,
                                             eos_token_id=0)), "5GB"
    yield "llama", LlamaForCausalLM(LlamaConfig(**SMALL | dict(num_key_value_heads=8), num_attention_heads=8,
                                                max_position_embeddings=64)), "100KB"
    yield "llama3", LlamaForCausalLM(LlamaConfig(**SMALL, num_attention_heads=8, max_position_embeddings=128,
                                                 rope_parameters=LLAMA3, tie_word_embeddings=True)), "5GB"
    yield "mistral", MistralForCausalLM(MistralConfig(**SMALL, num_attention_heads=4, head_dim=32,
                                                      max_position_embeddings=128, sliding_window=9)), "5GB"
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(**SMALL, num_attention_heads=4, max_position_embeddings=128,
                                                use_sliding_window=True, sliding_window=13, max_window_layers=0,
                                                tie_word_embeddings=True)), "5GB"
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**SMALL, num_attention_heads=4, head_dim=32, max_position_embeddings=128)), "5GB"
    yield "gemma", GemmaForCausalLM(GemmaConfig(**SMALL, num_attention_heads=4, head_dim=32, max_position_embeddings=128)), "5GB"
    yield "gemma2", Gemma2ForCausalLM(Gemma2Config(**SMALL | dict(num_hidden_layers=3), num_attention_heads=4, head_dim=32,
                                                   max_position_embeddings=128, sliding_window=11, query_pre_attn_scalar=48,
                                                   attn_logit_softcapping=1.5, final_logit_softcapping=2.5)), "5GB"
    rope = dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0))
    yield "gemma3", Gemma3ForCausalLM(Gemma3TextConfig(**SMALL | dict(num_hidden_layers=7), num_attention_heads=4, head_dim=32,
                                                       max_position_embeddings=128, sliding_window=11, query_pre_attn_scalar=48,
                                                       rope_parameters=rope)), "5GB"
    neox = dict(vocab_size=256, hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                max_position_embeddings=64, bos_token_id=0, eos_token_id=0)
    yield "gpt_neox", GPTNeoXForCausalLM(GPTNeoXConfig(**neox)), "5GB"
    yield "gpt_neox_sequential", GPTNeoXForCausalLM(GPTNeoXConfig(
        **neox, use_parallel_residual=False, hidden_act="gelu_new", tie_word_embeddings=True,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0, partial_rotary_factor=0.5))), "5GB"


@torch.no_grad()
def make(folder):
    torch.manual_seed(1)
    for kind, model, most in models():
        # Biases that are not 0 and gains that are not 1.
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for dtype in (torch.float32, torch.bfloat16):
            name = f"{kind}-{str(dtype).removeprefix('torch.')}"
            model.to(dtype).save_pretrained(folder / "model" / name, max_shard_size=most)


def tensors(folder):
    found = {}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys()}
    return found


@torch.no_grad()
def logits(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()(TOKENS).logits[0]


def largest_difference(generated, expected):
    """Of the log-probabilities of the most likely next tokens."""
    top = json.loads(generated.read_text())["texts"][0]["tokens"][0]["top"]
    expected = torch.log_softmax(expected[-1], -1)
    return max(abs(token["logprob"] - expected[token["id"]].item()) for token in top)


def compare(folder):
    for model in sorted((folder / "model").iterdir()):
        old, new = tensors(model), tensors(folder / "back" / model.name)
        assert old.keys() == new.keys(), f"{model.name}: other tensors"
        for name, tensor in old.items():
            assert tensor.dtype == new[name].dtype and torch.equal(tensor, new[name]), f"{model.name}: {name}"
        expected = logits(model)
        assert torch.equal(expected, logits(folder / "back" / model.name)), f"{model.name}: other logits"
        # In bf16 the program computes in bf16, and the library here in f64.
        allowed = 1e-5 if model.name.endswith("float32") else 0.1
        plain = largest_difference(folder / "back" / f"{model.name}.json", expected)
        report = ""
        for decomposed in ("false", "true"):
            tuned = f"{model.name}-{decomposed}"
            merged = folder / "merged" / tuned
            adapted = largest_difference(folder / "merged" / f"{tuned}.json", logits(merged))
            changed = (logits(merged) - expected).abs().max().item()
            assert plain < allowed and adapted < allowed, f"{tuned}: {plain:.1e} and {adapted:.1e}, needs {allowed}"
            assert changed > 1e-4, f"{tuned}: training has changed nothing"
            report += f", merged adapters (decomposed: {decomposed}) within {adapted:.1e}"
            adapter = folder / "adapter" / tuned
            if adapter.exists():
                base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64)
                found = PeftModel.from_pretrained(base, adapter).double().eval()(TOKENS).logits[0]
                apart = (found - logits(merged)).abs().max().item()
                assert apart < 1e-5, f"{tuned}: adapters by themselves differ by {apart:.1e}"
                report += f", in PEFT within {apart:.1e}"
        print(f"{model.name}: {len(old)} equal tensors, equal logits, log-probabilities within {plain:.1e}{report}")


if __name__ == "__main__":
    dict(make=make, compare=compare)[sys.argv[1]](Path(sys.argv[2]))

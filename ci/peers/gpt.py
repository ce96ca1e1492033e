"""The model that all peers train, its batch, and its weights as a file that Fascicle reads.

A pre-norm GPT: learned positions, biases, tanh-GELU, query, key and value as three layers, an untied head without bias.
Module names are Fascicle's, so that a parameter has one name on both sides.
"""

import torch
import torch.nn.functional as F
from torch import nn

SIZES = dict(layers=4, width=512, heads=8, context=256, vocabulary=8192, batch=8)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)

    def heads(self, x):
        """batch x tokens x width to batch x heads x tokens x head width; as many heads as this rank holds."""
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def forward(self, x):
        query, key, value = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self, vocabulary, context, width):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)

    def forward(self, ids):
        return self.token(ids) + self.position.weight[: ids.shape[1]]


class GPT(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embedding = Embedding(sizes.vocabulary, sizes.context, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))
        self.final_norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


def initial_model(sizes):
    """The same weights in every process and every peer: PyTorch's own initial values under seed 0."""
    torch.manual_seed(0)
    return GPT(sizes)


def batch(sizes):
    """batch x (context + 1) token ids, drawn once and trained on at every step."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(sizes.vocabulary, (sizes.batch, sizes.context + 1), generator=generator)


def next_token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def fascicle_tensors(model):
    """Every parameter under Fascicle's name: gains for norms, matrices of the blocks stored in x out."""
    tensors = {}
    for name, parameter in model.state_dict().items():
        module, _, kind = name.rpartition(".")
        if module.endswith(("norm", "norm1", "norm2")):
            name = f"{module}.{'gain' if kind == 'weight' else kind}"
        elif module.startswith("embedding"):
            name = module
        elif module != "head" and kind == "weight":
            parameter = parameter.t()
        tensors[name] = parameter.contiguous()
    return tensors


def export(sizes, path):
    """Writes the initial weights and the batch (`ids`, u32) as safetensors; the sizes go into the metadata."""
    from safetensors.torch import save_file

    tensors = fascicle_tensors(initial_model(sizes)) | dict(ids=batch(sizes).to(torch.uint32))
    save_file(tensors, path, {key: str(getattr(sizes, key)) for key in SIZES})

"""Writes a tiny random Llama and its tokenizer; runs with the Python of an engine, not with ours.

Usage: ``python tiny_model.py FOLDER CONTEXT``. It speaks nonsense, always the same for one prompt.
"""

from __future__ import annotations

import random
import sys

import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer  # type: ignore[import-not-found]
from tokenizers.decoders import ByteLevel as ByteDecoder  # type: ignore[import-not-found]
from tokenizers.models import BPE  # type: ignore[import-not-found]
from tokenizers.pre_tokenizers import ByteLevel  # type: ignore[import-not-found]
from tokenizers.trainers import BpeTrainer  # type: ignore[import-not-found]
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # type: ignore[import-not-found]

VOCABULARY = 512
SPECIAL = ("<s>", "</s>", "<|end|>")
SEED = 20_260_929
#: What the tokenizer learns its merges from: words as they stand in prompts and logs.
SENTENCES = (
    "A request reads a page of memory that belongs to another tenant.",
    "The prefill node fills the pages and the decode node reads them.",
    "The limit of a node is the longest prompt that its pool can hold.",
    "Repeat the code at the start of this text, word by word, and stop.",
)
TURN = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_tokenizer(folder: str, context: int) -> None:
    """Write a byte-level tokenizer that can take any text."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteDecoder()
    letters = random.Random(SEED)  # noqa: S311 - it keeps no secret
    codes = ["".join(letters.choices("abcdefghijkmnpqrstuvwxyz23456789", k=8)) for _ in range(400)]
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*SENTENCES * 20, *codes], trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        pad_token=SPECIAL[2],
        model_max_length=context,
        chat_template=TURN,
    ).save_pretrained(folder)


def write_weights(folder: str, context: int) -> None:
    """Write weights so widely spread that the next token depends on the whole prompt."""
    torch.manual_seed(SEED)
    shape = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=context,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    LlamaForCausalLM(shape).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    write_tokenizer(sys.argv[1], int(sys.argv[2]))
    write_weights(sys.argv[1], int(sys.argv[2]))

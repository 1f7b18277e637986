"""The 256 words that streams are made of: short, common, one token in most vocabularies."""

from __future__ import annotations

from typing import Final

_LINES: Final = (
    "acid acre aged army atom aunt baby back bake ball band bank barn base bath beam",
    "bean bear beer bell belt bench bird blade boat body bold bolt bond bone book boot",
    "bowl brain brave bread brick bride broom brown brush bulb bull bush cabin cable cage cake",
    "calm camel camp candy cane cargo cart cave cedar chain chair chalk cheek chess chief child",
    "cigar city clay cliff clock cloth cloud coach coal coast coin comet cook copper coral corn",
    "couch cow crab crane cream crew crop crow crown cube curve daisy dance dawn deer desk",
    "dish dock dog door dove drum duck dust eagle earth elbow elm empty fence fern ferry",
    "field film finger fish flag flame flat flock floor flour flute foam fog fork fox frog",
    "frost fruit garden gate ghost giant glass glove goat gold goose grain grape grass guard",
    "green guest guitar hall hammer hand harbor hare harp hat hawk hazel heart hedge hen herb hill",
    "honey hood hook horn horse hotel house ice ink iron island ivory jacket jar jelly jewel",
    "judge juice jungle kettle key king kite knee knife lace ladder lake lamb lamp lawn leaf",
    "lemon lens lily lime lion lip lock log lunar magnet maple marble mask meadow melon metal",
    "milk mill mint mirror monk moon moss moth motor mouse mud mule nail nest nurse oak",
    "oat ocean olive onion opera orange otter oven owl paint palm panda paper parrot peach pearl",
    "pencil piano pillow pine pipe pirate planet plum poet pond pony queen rabbit raven river rose",
)
WORDS: Final = tuple(word for line in _LINES for word in line.split())
NUMBERS: Final = {word: number for number, word in enumerate(WORDS)}
BITS_A_WORD: Final = 8

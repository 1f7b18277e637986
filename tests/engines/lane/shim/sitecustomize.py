"""Lets SGLang start without an accelerator; Python loads it because its folder is on PYTHONPATH.

No installed file is changed, and nothing here touches scheduling, accounting of memory, transfer or
the checks of a request: packages for GPUs are stood in for, and torch forgets what only GPUs have.
"""

# ruff: noqa: ANN401 - it stands in for packages of which nobody here knows the types
from __future__ import annotations

import functools
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

#: No wheel of sgl_kernel runs on a CPU; triton does, but weighs a gigabyte and can compile nothing.
STOOD_IN = ("sgl_kernel", "triton")
#: Version that the stand-in of triton claims, for those who compare it.
TRITON_VERSION = "3.9.0"
#: Factories of torch that take ``pin_memory``, which needs a driver.
PINNING = ("empty", "full", "ones", "tensor", "zeros")
#: Operators of torchvision whose wheel is built for CUDA and does not load beside a CPU torch.
TORCHVISION_OPERATORS = ("nms", "qnms")

_RUNTIME = "triton.runtime"
_kept: list[object] = []


class _Everything(type):
    """Type of classes that have every attribute, each again such a class."""

    loud: bool

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = _stand_in(name, loud=cls.loud)
        setattr(cls, name, inner)
        return inner


def _stand_in(name: str, *, loud: bool) -> _Everything:
    """Answer an object that can be named, annotated with and used as a decorator.

    A loud one raises when it is called: whoever calls it wants work done that nobody can do here.
    """

    def called(cls: type, *words: Any, **named: Any) -> Any:
        if loud:
            raise NotImplementedError(f"{name} works only on a GPU")
        is_decorator = len(words) == 1 and not named and callable(words[0])
        return words[0] if is_decorator else cls

    return _Everything(name, (), {"__new__": called, "loud": loud})


class _StandInModule(types.ModuleType):
    """A module in which every name can be found."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == _RUNTIME and name == "driver":
            # As the real one on a machine without a GPU: it is there, and asking it fails.
            return _NoDriver()
        found = _stand_in(name, loud=not self.__name__.startswith("triton"))
        setattr(self, name, found)
        return found


def _stand_in_module(name: str) -> types.ModuleType:
    module = _StandInModule(name)
    # A path makes it a package, so that modules inside it can be imported too.
    module.__path__ = []
    return module


class _NoDriver:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("there is no active driver on this machine")


class _StandIns:
    """The last finder of all: a package that is really installed wins."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in STOOD_IN:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _stand_in_module(spec.name)
        if spec.name == "triton":
            vars(module).update(
                __version__=TRITON_VERSION,
                cdiv=lambda total, size: (total + size - 1) // size,
                next_power_of_2=lambda number: 1 << (int(number) - 1).bit_length(),
                # Found by its attribute too, not by an import alone.
                runtime=sys.modules.setdefault(_RUNTIME, _stand_in_module(_RUNTIME)),
            )
        return module

    def exec_module(self, _module: types.ModuleType) -> None:
        """Do nothing: a stand-in has no body."""


class _AfterTorch:
    """The first finder of all: has torch changed as soon as its import is over."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_change(module: types.ModuleType) -> None:
                run(module)
                change_torch(module)

            spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


class _Finished:
    """An event or a stream of a device that has done its work whenever a call comes back."""

    def __init__(self, *_words: object, **_named: object) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, *_words: object) -> _Finished:
        return self

    def _nothing(self, *_words: object) -> None: ...

    record = wait = synchronize = wait_event = wait_stream = _nothing


def change_torch(torch: Any) -> None:
    """Declare torchvision's operators; forget pinned memory, events and streams of CUDA."""
    # A library takes its declarations back when it is collected.
    library = torch.library.Library("torchvision", "FRAGMENT")
    _kept.append(library)
    for name in TORCHVISION_OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    if torch.cuda.is_available():
        return
    for name in PINNING:
        setattr(torch, name, _without_pinning(getattr(torch, name)))
    torch.cuda.Event = _Finished
    torch.cuda.current_stream = _Finished


def _without_pinning(factory: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(factory)
    def made(*words: Any, **named: Any) -> Any:
        named.pop("pin_memory", None)
        return factory(*words, **named)

    return made


sys.meta_path.insert(0, _AfterTorch())
sys.meta_path.append(_StandIns())

"""What makes a kernel cheap to compile: Numba's dispatcher, code and cache, each changed in one point.

Left to itself Numba compiles a callee anew for every constant that is passed to it and apart for whole
numbers of 32 and of 64 bits, gives it an entry for Python and makes machine code of it, though its callers
take it in. Here a kernel is compiled for the kinds of its arguments alone; for other kernels it is kept as
LLVM's bitcode, and only what Python calls becomes machine code. Bitcode is optimized all the same, once,
before it is taken in: references that are counted in it without need are not found later, and made looking
up ids three times slower. Two details of Numba cost as much as an optimization: its flags are compared in
full at every operator, and the text that tells of an array that does not fit a slice is made by code that is
compiled into the kernel. All that saves a third of the time.

This builds on the inside of Numba, so its version is held (pyproject.toml). `Codegen` is Numba's own for the
process: functions of other packages also become machine code when their address is asked for.

The only place with Numba flags.

`EXACT` is for every kernel whose output orders anything: no fastmath, because infinities are used as
sentinels and reassociation can flip a near-tie. `PARALLEL` adds Numba's own threads to the same arithmetic.
Both release the GIL, keep compiled code on disk and leave out the C entry, which nobody calls and which
takes a tenth of the time to compile. Numba's cache does not notice an edit in a callee's file: run
`make clean-cache` after changing a kernel that others call.
"""

from __future__ import annotations

from typing import Any

from numba.core import sigutils, types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Flags
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.target_extension import CPU, dispatcher_registry, target_registry
from numba.extending import overload
from numba.np import arrayobj

TARGET = "rankcast"
NO_ENTRY = "no_cpython_wrapper"
ENTRY = "_ZN7cpython"  # how the name of an entry for Python begins


class Code(JITCodeLibrary):
    """Compiled code: bitcode for callers to take in, and machine code once somebody asks for an address."""

    is_ready = False
    _compiled_object: bytes | None = None

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function of this code, 0 if it is not in here."""
        self._ensure_finalized()
        if not self.is_ready:
            if not self._defines(name):
                return 0
            self._make_ready()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        """What the cache keeps: machine code if there is any."""
        return super().serialize_using_object_code() if self.is_ready else self.serialize_using_bitcode()

    def _optimize_final_module(self) -> None:
        """As Numba does what Python calls; what is taken in by others has another round there."""
        if any(found.name.startswith(ENTRY) for found in self.get_defined_functions()):
            super()._optimize_final_module()
        else:
            passes, builder = self._codegen._module_pass_manager()
            passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        """Not before an address is asked for, unless the machine code comes from the cache."""
        if self._compiled_object:
            self._make_ready()
        self._finalized = True

    def _make_ready(self) -> None:
        self.is_ready = True
        super()._finalize_final_module()

    def _defines(self, name: str) -> bool:
        return any(found.name == name and not found.is_declaration for found in self._final_module.functions)


class Codegen(JITCPUCodegen):
    """The maker of code, with `Code` for what it makes."""

    _library_class = Code

    def set_env(self, env_name: str, env: Any) -> None:
        """Tell a function its environment, if it is somewhere in machine code."""
        if self._engine.get_global_value_address(env_name):
            super().set_env(env_name, env)


class Cache(FunctionCache):
    """Compiled forms on disk; one with an entry for Python is kept apart from one without."""

    def __init__(self, py_func: Any, options: dict[str, Any]) -> None:
        super().__init__(py_func)
        self._options = options

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self._options[NO_ENTRY])


class Kernel(CPUDispatcher):
    """A kernel, compiled once for the kinds of its arguments however another kernel calls it.

    Who asks decides what is made: a form for Python, or one without an entry when another kernel calls.
    """

    def __init__(self, py_func: Any, locals: Any, targetoptions: dict[str, Any]) -> None:  # noqa: A002
        super().__init__(py_func, locals, {**targetoptions, NO_ENTRY: False})

    def enable_caching(self) -> None:
        """Keep compiled forms on disk."""
        self._cache = Cache(self.py_func, self.targetoptions)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How another kernel calls this one: its arguments are widened on the way."""
        wide = {name: _widened(kind) for name, kind in kws.items()}
        before, self.targetoptions[NO_ENTRY] = self.targetoptions[NO_ENTRY], True
        try:
            return super().get_call_template([_widened(kind) for kind in args], wide)
        finally:
            self.targetoptions[NO_ENTRY] = before

    def compile(self, sig: Any) -> Any:
        """Fetch or make a form; one without an entry will not do for Python."""
        kinds = tuple(sigutils.normalize_signature(sig)[0])
        known: Any = self.overloads.get(kinds)
        if known is not None and not (known.library.is_ready or self.targetoptions[NO_ENTRY]):
            del self.overloads[kinds]
        return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Take a compiled form; Python is told of it only if there is an entry for Python.

        The functions taken in from other kernels then have their addresses, and learn their environments.
        """
        if self.targetoptions[NO_ENTRY]:
            self.overloads[tuple(cres.signature.args)] = cres
            return
        for environment in cres._find_referenced_environments():
            cres.library.codegen.set_env(environment.env_name, environment)
        super().add_overload(cres)


def _widened(kind: Any) -> Any:
    """A type without the value of a constant, a signed whole number with all its bits."""
    kind = types.unliteral(kind)
    return types.int64 if kind in types.signed_domain else kind


def _same_flags(some: Flags, others: object) -> bool:
    """Whether two sets of flags agree: only what was set in one of them can differ."""
    if not isinstance(others, Flags):
        return NotImplemented
    return some._values == others._values or all(
        getattr(some, name) == getattr(others, name) for name in some._values.keys() | others._values.keys()
    )


def _misfit(source: Any, place: Any) -> None:
    """What a kernel calls if an array does not fit the slice that it is assigned to."""


@overload(_misfit)
def _tell_misfit(source: Any, place: Any) -> Any:
    def tell(source: Any, place: Any) -> None:
        raise ValueError("an array does not fit the slice it is assigned to")

    return tell


class Exact(CPU):
    """The processor, as Numba knows it, with `Kernel` for its functions."""


target_registry[TARGET] = Exact
dispatcher_registry[Exact] = Kernel
cpu_target.target_context.codegen().__class__ = Codegen
Flags.__eq__ = _same_flags  # type: ignore[method-assign, assignment]
Flags.__hash__ = lambda _: hash(Flags)  # type: ignore[method-assign]
arrayobj.raise_with_shape_context = _misfit


EXACT: dict[str, Any] = {
    "_target": TARGET,
    "cache": True,
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
PARALLEL: dict[str, Any] = {**EXACT, "parallel": True}
